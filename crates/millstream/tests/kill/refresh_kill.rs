//! A refresh, with the command or the server killed at every point: models show one whole moment, and then the next.

use crate::kill::is_killed;
use crate::process::{command, millstream};
use millstream_failpoint::REFRESH;
use millstream_testkit::{Server, Settings, StopMode, builds, cases, connect, dealt, dealt_builds, until};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio_postgres::Client;

/// Rows of the collection at every moment, and so of every model of it.
const ROWS: i64 = 400;
/// Time between two waves of the writer that runs beside the refreshes.
const WAVE_EVERY: Duration = Duration::from_millis(50);
/// Time between two reads of a reader.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const READERS: usize = 2;
const CRASHES: [StopMode; 2] = [StopMode::Kill, StopMode::Immediate];

/// What is killed. Running the same command again resumes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    /// A model that is published and built for the first time.
    First,
    /// Two models that are rebuilt.
    Swap,
    /// Two models that are refreshed incrementally.
    Incremental,
    /// A model that is published again with one more column and another condition, and rebuilt.
    Widen,
    /// A materialized view.
    Materialized,
}

const CASES: [Case; 5] = [Case::First, Case::Swap, Case::Incremental, Case::Widen, Case::Materialized];

impl Case {
    fn models(self) -> &'static [&'static str] {
        match self {
            Self::First => &["public.first"],
            Self::Swap | Self::Incremental => &["public.one", "public.two"],
            Self::Widen => &["public.widened"],
            Self::Materialized => &["public.kept"],
        }
    }

    fn args(self) -> Vec<&'static str> {
        let refresh = ["refresh", self.models()[0], *self.models().last().expect("every case has models")];
        match self {
            Self::First => publish_args(self.models()[0]),
            Self::Swap => [&refresh[..], &["--way", "swap", "--workers", "2"]].concat(),
            Self::Incremental => [&refresh[..], &["--way", "incremental"]].concat(),
            Self::Widen => WIDENED.to_vec(),
            Self::Materialized => refresh.to_vec(),
        }
    }

    /// Prepares what exists before the command runs.
    fn prepare(self, url: &str) {
        if self == Self::Widen {
            millstream(&[&publish_args(self.models()[0])[..], &["--db", url]].concat()).ends(0);
        }
    }

    /// Removes what the command has made, so that the case can begin again.
    fn undo(self, url: &str) {
        if matches!(self, Self::First | Self::Widen) {
            millstream(&["unpublish", self.models()[0], "--db", url]).ends(0);
        }
    }

    /// Whether the command reaches this point.
    fn passes(self, point: &str) -> bool {
        match point {
            "model-made" | "model-published" => self == Self::First,
            "stale-unseen" | "stale-locked" | "stale-cleared" => matches!(self, Self::Swap | Self::Widen),
            "range-built" | "rows-built" | "indexes-built" => !matches!(self, Self::Incremental | Self::Materialized),
            "changes-staged" => self == Self::Incremental,
            "changes-applied" => matches!(self, Self::Incremental | Self::Materialized),
            _ => true,
        }
    }
}

/// The same rows under another condition, with one more column.
const WIDENED: [&str; 12] = [
    "publish",
    "public.waves",
    "--as",
    "public.widened",
    "--column",
    "stamp:bigint=stamp",
    "--column",
    "again:text=stamp",
    "--where",
    "stamp > -1",
    "--index",
    "again",
];

/// Whether models show the new rows if a refresh ends at this point. Replaced rows are removed after the commit, unless
/// an earlier refresh was killed.
fn is_shown_at(point: &str) -> bool {
    let of = |name: &str| REFRESH.iter().position(|known| *known == name);
    point.starts_with("stale-") || of(point) >= of("refresh-committed")
}

fn publish_args(model: &'static str) -> Vec<&'static str> {
    let made_of = ["--column", "stamp:bigint=stamp", "--where", "stamp >= 0", "--index", "stamp"];
    [&["publish", "public.waves", "--as", model][..], &made_of].concat()
}

/// Runs a command up to a point. The process ends with the test.
pub(crate) fn start(url: &str, args: &[&str], failpoint: &str) -> Child {
    let mut command = Command::from(command(&[args, &["--db", url]].concat()));
    command.env("MILLSTREAM_FAILPOINTS", failpoint).kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) async fn end(child: Child) -> Output {
    child.wait_with_output().await.unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))
}

/// How often a command reaches the point before it is killed. A build is killed at its second range, so that the first
/// one is committed.
pub(crate) fn nth(point: &str) -> u32 {
    if point == "range-built" { 2 } else { 1 }
}

/// A collection whose rows record which wave wrote them last, with two models of it.
fn scene(url: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.ndjson");
    let mut text = String::new();
    (0..ROWS).for_each(|id| writeln!(text, "{{\"id\":{id},\"stamp\":0}}").unwrap());
    std::fs::write(&file, text).unwrap();
    let load = ["load", file.to_str().unwrap(), "--into", "public.waves", "--key", "id:bigint", "--db", url];
    millstream(&load).ends(0);
    for model in Case::Swap.models() {
        millstream(&[&publish_args(model)[..], &["--db", url]].concat()).ends(0);
    }
    let kept = Case::Materialized.models()[0];
    millstream(&[&publish_args(kept)[..], &["--materialized", "--db", url]].concat()).ends(0);
}

/// A model with a new column shows the column together with the rows that have it, and not before.
async fn is_widened(url: &str) -> bool {
    let client = connect(url).await;
    let sql =
        "select exists (select from pg_attribute where attrelid = 'public.widened'::regclass and attname = 'again')";
    if !client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0) {
        return false;
    }
    let sql = "select count(*) from public.widened where again is distinct from stamp::text";
    assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0, "all rows have it");
    true
}

/// One transaction that stamps every row and replaces one row by a new one, so that the stamp determines the keys.
async fn wave(client: &Client, stamp: i64) {
    let (old, new) = (stamp - 1, stamp - 1 + ROWS);
    let swap = match stamp % 2 {
        0 => format!("update public.waves set id = {new} where id = {old}"),
        _ => format!(
            "delete from public.waves where id = {old}; insert into public.waves (id, doc) values ({new}, '{{}}')"
        ),
    };
    let doc = format!("jsonb_build_object('stamp', {stamp}, 'id', id, 'note', repeat('x', 300))");
    client.batch_execute(&format!("begin; {swap}; update public.waves set doc = {doc}; commit")).await.unwrap();
}

/// The wave that all models of a case show, whole. `None` if they were never built.
async fn shown(url: &str, case: Case) -> Option<i64> {
    look(&connect(url).await, case).await
}

/// The same, by one transaction of a session.
async fn look(client: &Client, case: Case) -> Option<i64> {
    client.batch_execute("begin isolation level repeatable read").await.unwrap();
    let mut stamps = BTreeSet::new();
    for model in case.models() {
        let there = "select to_regclass($1) is not null";
        if client.query_one(there, &[model]).await.unwrap().get::<_, bool>(0) {
            stamps.insert(stamp(client, model).await);
        } else {
            assert_eq!(case, Case::First, "{model} is never gone");
        }
    }
    client.batch_execute("commit").await.unwrap();
    assert!(stamps.len() < 2, "models refreshed together show one wave: {stamps:?}");
    stamps.pop_first()
}

/// The wave that one statement sees, whole.
async fn stamp(client: &Client, model: &str) -> i64 {
    let sql = format!(
        "select count(*), min(id), max(id), min(stamp), max(stamp),
                count(*) filter (where stamp is distinct from (doc->>'stamp')::bigint) from {model}"
    );
    let row = client.query_one(&sql, &[]).await.unwrap();
    let numbers: Vec<i64> = (0..6).map(|n| row.get(n)).collect();
    let stamp = numbers[3];
    assert_eq!(numbers, [ROWS, stamp, stamp + ROWS - 1, stamp, stamp, 0], "{model} shows one wave");
    stamp
}

/// Reads two models again and again, in statements and in transactions. No read may get stuck, and the wave shown never
/// becomes older.
async fn read_until(url: String, done: Arc<AtomicBool>) -> u64 {
    let client = connect(&url).await;
    client.batch_execute("set lock_timeout = '10s'").await.unwrap();
    let (mut looks, mut last) = (0, 0);
    while !done.load(SeqCst) {
        for model in Case::Swap.models() {
            let seen = stamp(&client, model).await;
            assert!(seen >= last, "{model}: {seen} after {last}");
            last = seen;
        }
        let seen = look(&client, Case::Swap).await.expect("they were built");
        assert!(seen >= last, "{seen} after {last}");
        last = seen;
        looks += 1;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    looks
}

/// Every model of a case equals its definition applied to the collection.
async fn equals(url: &str, case: Case) {
    let client = connect(url).await;
    for model in case.models() {
        let sql = format!(
            "with derived as (select id, (doc->>'stamp')::bigint as stamp, doc from public.waves)
             select (select count(*) from (table derived except select id, stamp, doc from {model}) d)
                  + (select count(*) from (select id, stamp, doc from {model} except table derived) d)"
        );
        assert_eq!(client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0), 0, "{model} {case:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_killed_at_any_point_leaves_consistent_models() {
    let builds = builds().await;
    for (n, build) in builds.iter().enumerate() {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings::default()).await;
        let url = server.url("postgres");
        scene(&url);
        let (written, done) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let writer = tokio::spawn(write_until(url.clone(), Arc::clone(&written), Arc::clone(&done)));
        let readers: Vec<_> = (0..READERS).map(|_| tokio::spawn(read_until(url.clone(), Arc::clone(&done)))).collect();
        let all = REFRESH.iter().flat_map(|point| CASES.map(|case| (point, case)));
        let (kills, others): (Vec<_>, Vec<_>) = all.partition(|(point, case)| case.passes(point));
        for (point, case) in dealt(kills, n, builds.len()) {
            kill_at(&url, point, case, &written).await;
        }
        for case in CASES {
            case.prepare(&url);
            let armed: Vec<_> =
                others.iter().filter(|(_, of)| *of == case).map(|(point, _)| format!("{point}=kill")).collect();
            let floor = written.load(SeqCst);
            let output = end(start(&url, &case.args(), &armed.join(";"))).await;
            assert!(output.status.success(), "{case:?} passes one of {armed:?}: {}", stderr(&output));
            assert!(shown(&url, case).await >= Some(floor), "{case:?}");
            case.undo(&url);
        }
        done.store(true, SeqCst);
        writer.await.unwrap();
        for reader in readers {
            assert!(reader.await.unwrap() > 0);
        }
        for case in CASES {
            let output = end(start(&url, &case.args(), "")).await;
            assert!(output.status.success(), "{}", stderr(&output));
            equals(&url, case).await;
        }
    }
}

/// Writes wave after wave while the refreshes run.
async fn write_until(url: String, written: Arc<AtomicI64>, done: Arc<AtomicBool>) {
    let client = connect(&url).await;
    while !done.load(SeqCst) {
        let stamp = written.load(SeqCst) + 1;
        wave(&client, stamp).await;
        written.store(stamp, SeqCst);
        tokio::time::sleep(WAVE_EVERY).await;
    }
}

async fn kill_at(url: &str, point: &str, case: Case, written: &AtomicI64) {
    case.prepare(url);
    let before = shown(url, case).await;
    until("there is something new", async || Some(written.load(SeqCst)) > before).await;
    let floor = written.load(SeqCst);
    let output = end(start(url, &case.args(), &format!("{point}=kill@{}", nth(point)))).await;
    assert!(is_killed(output.status), "{point} {case:?}: {}", stderr(&output));
    let after = shown(url, case).await;
    if is_shown_at(point) {
        assert!(after >= Some(floor), "{point} {case:?}: {after:?} is older than {floor}");
    } else {
        assert_eq!(after, before, "{point} {case:?}");
    }
    assert!(case != Case::Widen || is_widened(url).await == is_shown_at(point), "{point}");
    if matches!(point, "stale-unseen" | "stale-locked") && case == Case::Swap {
        // Now rows are left that must be removed before the build.
        let output = end(start(url, &case.args(), &format!("{point}=kill"))).await;
        assert!(is_killed(output.status), "{point} {case:?}: {}", stderr(&output));
        assert_eq!(shown(url, case).await, after, "{point} {case:?}");
    }
    let floor = written.load(SeqCst);
    let output = end(start(url, &case.args(), "")).await;
    assert!(output.status.success(), "{point} {case:?}: {}", stderr(&output));
    assert!(shown(url, case).await >= Some(floor), "{point} {case:?}");
    assert!(case != Case::Widen || is_widened(url).await, "{point}");
    case.undo(url);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_during_a_refresh_leaves_consistent_models() {
    let builds = builds().await;
    for (hand, build) in builds.iter().enumerate() {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        scene(&url);
        let mut stamp = 0;
        for (n, point) in dealt(REFRESH.iter().enumerate(), hand, builds.len()) {
            let all: Vec<(Case, StopMode)> = CASES
                .into_iter()
                .filter(|case| case.passes(point))
                .flat_map(|case| CRASHES.map(|crash| (case, crash)))
                .collect();
            // A large budget tries all of them at each point. The usual one spreads them over the points.
            for (case, crash) in all.iter().cycle().skip(n).take(cases(1).min(all.len())) {
                crash_at(&server, point, *case, *crash, &mut stamp).await;
            }
        }
    }
}

async fn crash_at(server: &Server, point: &str, case: Case, crash: StopMode, stamp: &mut i64) {
    let (url, dir) = (server.url("postgres"), tempfile::tempdir().unwrap());
    let held = dir.path().join("held");
    case.prepare(&url);
    *stamp += 1;
    wave(&connect(&url).await, *stamp).await;
    let before = shown(&url, case).await;
    let mut child = start(&url, &case.args(), &format!("{point}=wait:{}@{}", held.display(), nth(point)));
    until("the refresh is held", async || {
        assert!(child.try_wait().unwrap().is_none(), "{point} {case:?}: it is passed");
        held.exists()
    })
    .await;
    server.restart(crash).await;
    std::fs::remove_file(&held).unwrap();
    let output = end(child).await;
    assert!(matches!(output.status.code(), Some(0 | 2)), "{point} {case:?} {crash:?}: {}", stderr(&output));
    let after = shown(&url, case).await;
    let expected = if is_shown_at(point) || output.status.success() { Some(*stamp) } else { before };
    assert_eq!(after, expected, "{point} {case:?} {crash:?}");

    *stamp += 1;
    wave(&connect(&url).await, *stamp).await;
    let output = end(start(&url, &case.args(), "")).await;
    assert!(output.status.success(), "{point} {case:?} {crash:?}: {}", stderr(&output));
    assert_eq!(shown(&url, case).await, Some(*stamp), "{point} {case:?} {crash:?}");
    equals(&url, case).await;
    assert!(case != Case::Widen || is_widened(&url).await, "{point}");
    case.undo(&url);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_change_while_models_are_built_and_the_table_does_not() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings::default()).await;
        let (url, dir) = (server.url("postgres"), tempfile::tempdir().unwrap());
        scene(&url);
        let client = connect(&url).await;
        client.batch_execute("create view public.mine as select id, stamp from public.one").await.unwrap();
        client.batch_execute("set lock_timeout = '100ms'").await.unwrap();
        wave(&client, 1).await;
        let held = dir.path().join("held");
        let child = start(&url, &Case::Swap.args(), &format!("range-built=wait:{}@2", held.display()));
        until("the build is held", async || held.exists()).await;

        // Rows may change meanwhile, but not the table or the model.
        wave(&client, 2).await;
        for statement in ["alter table public.waves add column more int", "truncate public.waves"] {
            let error = client.batch_execute(statement).await.expect_err(statement);
            assert_eq!(error.code().map(|code| code.code()), Some("55P03"), "{statement}: {error}");
        }
        let others: [&[&str]; 3] =
            [&["unpublish", "public.two"], &["refresh", "public.two"], &["drop", "public.waves", "--yes"]];
        let others = others.map(|args| start(&url, args, ""));
        for other in others {
            let output = end(other).await;
            let stderr = stderr(&output);
            assert!(output.status.code() == Some(2) && stderr.contains("hint: "), "{stderr}");
        }
        std::fs::remove_file(&held).unwrap();
        let output = end(child).await;
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(shown(&url, Case::Swap).await, Some(1), "the moment at which it began");

        // A table with a new column and another name is the same collection.
        client
            .batch_execute("alter table public.waves add column more int; alter table public.waves rename to moved")
            .await
            .unwrap();
        let output = end(start(&url, &Case::Incremental.args(), "")).await;
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(shown(&url, Case::Swap).await, Some(2));
        client.batch_execute("alter table public.moved rename to waves").await.unwrap();
        wave(&client, 3).await;
        let output = end(start(&url, &Case::Swap.args(), "")).await;
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(shown(&url, Case::Swap).await, Some(3));
        let mine = client.query_one("select count(*), min(stamp), max(stamp) from public.mine", &[]).await.unwrap();
        assert_eq!((mine.get::<_, i64>(0), mine.get::<_, i64>(1), mine.get::<_, i64>(2)), (ROWS, 3, 3));
    }
}
