//! Tables that someone empties, renames or replaces while their loads are unfinished or running.

use crate::scene::{Files, Stream, appending, compacted, request, run, schema, stored, surroundings};
use millstream_engine::{Error, LoadRequest, Outcome, StopReason, Tally, load};
use millstream_testkit::{TestDatabase, each_build, until};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Documents of an interrupted load: many chunks.
const DOCUMENTS: usize = 30_000;

/// Statements that keep every row.
const REWRITES: [&str; 4] = [
    "vacuum full public.t",
    "cluster public.t using t_pkey",
    "alter table public.t alter column doc type jsonb using doc || '{}'",
    "alter table public.t set unlogged; alter table public.t set logged",
];

/// A load of documents, every tenth of them broken, and the rows that the others leave.
fn interrupted(files: &Files, mode: &str) -> (LoadRequest, BTreeMap<String, i64>) {
    let (mut text, mut last) = (String::new(), BTreeMap::new());
    for n in 0..DOCUMENTS {
        let broken = n % 10 == 9;
        text.push_str(&format!("{{\"id\":\"key-{n:05}\",\"value\":{n},\"v\":5{}\n", if broken { "" } else { "}" }));
        if !broken {
            last.insert(format!("key-{n:05}"), i64::try_from(n).expect("few documents"));
        }
    }
    let mut wanted = request("public.t", "id", &[files.write("interrupted", text)]);
    wanted.mode = mode.parse().expect("a mode");
    wanted.rejects_max = 500;
    (wanted, last)
}

pub(crate) async fn execute(db: &TestDatabase, sql: &str) {
    for statement in sql.split("; ") {
        db.client().await.execute(statement, &[]).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

/// Runs a load. Returns also its warnings.
pub(crate) async fn run_and_listen(db: &TestDatabase, wanted: &LoadRequest) -> (Outcome, String) {
    let (around, events) = surroundings(&db.url());
    let outcome = Box::pin(load(wanted, &around)).await.expect("the load begins");
    (outcome, events.warnings())
}

#[tokio::test]
async fn an_interrupted_load_starts_over_in_an_emptied_table() {
    each_build(async |db| {
        for mode in ["replace", "sum:value", "keep"] {
            let files = Files::new();
            let (mut wanted, last) = interrupted(&files, mode);
            assert_eq!(run(&db.url(), &wanted).await.stopped, Some(StopReason::Rejects));
            execute(&db, "truncate public.t").await;
            wanted.rejects_max = 1_000_000;
            let (outcome, warnings) = run_and_listen(&db, &wanted).await;
            assert!(stored(&db, "public.t").await == last, "{mode}: every document is in the table");
            assert_eq!(outcome.receipt.counters.read, DOCUMENTS as u64);
            assert!(warnings.contains("starts over"), "{warnings}");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}

#[tokio::test]
async fn rows_that_were_deleted_stay_deleted() {
    each_build(async |db| {
        for emptying in ["delete from public.t", "delete from public.t; vacuum public.t"] {
            let files = Files::new();
            let (mut wanted, last) = interrupted(&files, "replace");
            let before = run(&db.url(), &wanted).await.receipt.counters.read;
            execute(&db, emptying).await;
            wanted.rejects_max = 1_000_000;
            let (outcome, warnings) = run_and_listen(&db, &wanted).await;
            assert_eq!(outcome.receipt.resumed_from, Some(before), "{emptying}");
            assert!(warnings.contains("its rows were deleted"), "{warnings}");
            assert!(stored(&db, "public.t").await.len() < last.len());
            wanted.resume = false;
            run(&db.url(), &wanted).await;
            assert!(stored(&db, "public.t").await == last, "what the warning says");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}

/// The rows of other tools and of the log layout are in no load's balance.
#[tokio::test]
async fn a_truncate_is_noticed_whatever_else_wrote_and_deleted() {
    each_build(async |db| {
        let files = Files::new();
        let mode: millstream_engine::Mode = "replace".parse().unwrap();
        let deleting = mode.with_tombstone(Some("op=d".parse().unwrap()));
        let seed: String = (0..500).map(|n| format!("{{\"id\":\"key-{n:05}\",\"value\":0}}\n")).collect();
        run(&db.url(), &appending("public.t", &[files.write("seed", seed)], 100)).await;
        compacted(&db, "public.t", 1).await.unwrap();
        execute(&db, "insert into public.t select 'old-' || i, '{\"value\": 1}' from generate_series(1, 500) i").await;
        let mut text: String = (0..500).map(|n| format!("{{\"id\":\"key-{n:05}\",\"op\":\"d\"}}\n")).collect();
        text += &documents(1_000..1_200).text;
        text += "{\n";
        text += &documents(1_200..1_300).text;
        let mut wanted = request("public.t", "id", &[files.write("changes", text)]);
        (wanted.mode, wanted.rejects_max, wanted.batch_rows) = (deleting, 1, 100);
        assert_eq!(run(&db.url(), &wanted).await.stopped, Some(StopReason::Rejects));
        execute(&db, "truncate public.t").await;
        wanted.rejects_max = 10;
        let (_, warnings) = run_and_listen(&db, &wanted).await;
        assert!(warnings.contains("starts over"), "{warnings}");
        assert!(stored(&db, "public.t").await == documents(1_000..1_300).last);
    })
    .await;
}

/// The table is empty by right: nothing starts over, however its file changes afterwards. What was deleted stays so.
#[tokio::test]
async fn a_compaction_that_deletes_the_last_row_is_no_truncate() {
    each_build(async |db| {
        let files = Files::new();
        let mode = |text: &str| {
            let mode: millstream_engine::Mode = text.parse().unwrap();
            mode.with_tombstone(Some("op=d".parse().unwrap()))
        };
        let mut sum = request("public.t", "id", &[files.write("sum", "{\"id\":\"a\",\"value\":3}\n")]);
        sum.mode = "sum:value".parse().unwrap();
        run(&db.url(), &sum).await;
        let delete = files.write("delete", "{\"id\":\"a\",\"op\":\"d\"}\n");
        let mut deleting = appending("public.t", &[delete], 10);
        deleting.mode = mode("replace");
        run(&db.url(), &deleting).await;
        compacted(&db, "public.t", 1).await.unwrap();
        assert!(stored(&db, "public.t").await.is_empty());
        for rewrite in
            ["", "vacuum full public.t", "alter table public.t set unlogged; alter table public.t set logged"]
        {
            execute(&db, rewrite).await;
            let (outcome, warnings) = run_and_listen(&db, &sum).await;
            assert!(outcome.recalled, "{rewrite}: it is not added again: {warnings}");
            compacted(&db, "public.t", 1).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn an_interrupted_load_resumes_in_a_rewritten_table() {
    each_build(async |db| {
        for rewrite in REWRITES {
            let files = Files::new();
            let (mut wanted, last) = interrupted(&files, "sum:value");
            run(&db.url(), &wanted).await;
            execute(&db, rewrite).await;
            wanted.rejects_max = 1_000_000;
            let (outcome, warnings) = run_and_listen(&db, &wanted).await;
            assert!(outcome.receipt.resumed_from.is_some_and(|from| from > 0), "{rewrite}: {:?}", outcome.receipt);
            assert!(stored(&db, "public.t").await == last, "{rewrite}");
            assert!(!warnings.contains("starts over"), "{warnings}");
            assert!(warnings.contains("has another file than before"), "{warnings}");
            let (_, warnings) = run_and_listen(&db, &wanted).await;
            assert!(!warnings.contains("another file"), "it is said once: {warnings}");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}

#[tokio::test]
async fn truncate_allows_a_finished_sum_again_and_clears_tombstones() {
    each_build(async |db| {
        let files = Files::new();
        let mut sum = request("public.t", "id", &[files.write("sum", "{\"id\":\"a\",\"value\":3}\n")]);
        sum.mode = "sum:value".parse().unwrap();
        for recalled in [false, true] {
            assert_eq!(run(&db.url(), &sum).await.recalled, recalled);
        }
        execute(&db, "truncate public.t").await;
        let again = run(&db.url(), &sum).await;
        assert!(!again.recalled, "the table is empty, so that nothing counts twice");
        assert_eq!(stored(&db, "public.t").await, BTreeMap::from([("a".to_owned(), 3)]));
        assert!(run(&db.url(), &sum).await.recalled, "now it would");
        execute(&db, "drop table public.t").await;

        let deleting = "{\"id\":\"b\",\"v\":9,\"op\":\"d\"}\n{\"id\":\"c\",\"v\":1,\"value\":1}\n";
        let mut newest = request("public.t", "id", &[files.write("deleting", deleting)]);
        let mode: millstream_engine::Mode = "newest:v:bigint".parse().unwrap();
        newest.mode = mode.with_tombstone(Some("op=d".parse().unwrap()));
        run(&db.url(), &newest).await;
        execute(&db, "truncate public.t").await;
        let mut older = request("public.t", "id", &[files.write("older", "{\"id\":\"b\",\"v\":2,\"value\":2}\n")]);
        older.mode = "newest:v:bigint".parse().unwrap();
        let receipt = run(&db.url(), &older).await.receipt;
        assert_eq!((receipt.counters.inserted, receipt.counters.stale), (1, 0), "the tombstone went with the rows");
    })
    .await;
}

#[tokio::test]
async fn deletes_by_loads_do_not_count_as_a_truncate() {
    each_build(async |db| {
        let files = Files::new();
        let mode = |text: &str| {
            let mode: millstream_engine::Mode = text.parse().unwrap();
            mode.with_tombstone(Some("op=d".parse().unwrap()))
        };
        let mut filling =
            request("public.t", "id", &[files.write("filling", "{\"id\":\"a\",\"v\":1,\"value\":1}\n{\n")]);
        (filling.mode, filling.rejects_max) = (mode("newest:v:bigint"), 1);
        assert_eq!(run(&db.url(), &filling).await.stopped, Some(StopReason::Rejects));
        let mut deleting =
            request("public.t", "id", &[files.write("deleting", "{\"id\":\"a\",\"v\":9,\"op\":\"d\"}\n")]);
        deleting.mode = mode("newest:v:bigint");
        assert_eq!(run(&db.url(), &deleting).await.receipt.counters.deleted, 1);
        execute(&db, "vacuum full public.t").await;
        let mut older = request("public.t", "id", &[files.write("older", "{\"id\":\"a\",\"v\":5,\"value\":2}\n")]);
        older.mode = mode("newest:v:bigint");
        let (outcome, warnings) = run_and_listen(&db, &older).await;
        assert_eq!((outcome.receipt.counters.stale, outcome.receipt.counters.inserted), (1, 0), "{warnings}");
        assert!(!warnings.contains("start"), "{warnings}");
        execute(&db, "drop table public.t").await;

        let mut sum = request("public.t", "id", &[files.write("sum", "{\"id\":\"a\",\"value\":3}\n")]);
        sum.mode = "sum:value".parse().unwrap();
        run(&db.url(), &sum).await;
        deleting.mode = mode("replace");
        assert_eq!(run(&db.url(), &deleting).await.receipt.counters.deleted, 1);
        assert!(run(&db.url(), &sum).await.recalled, "what was deleted since is not added again");
        execute(&db, "vacuum full public.t").await;
        assert!(run(&db.url(), &sum).await.recalled, "nor after its file was replaced");
    })
    .await;
}

#[tokio::test]
async fn a_load_fails_if_its_table_is_renamed() {
    each_build(async |db| {
        let files = Files::new();
        // The second half comes by COPY, which is refused before it begins.
        let running = halfway(&db, &files, &documents(0..20_000).text, |_| {}).await;
        execute(&db, "alter table public.t rename to elsewhere").await;
        let outcome = running.end(&documents(20_000..40_000).text).await.expect("there is a receipt");
        assert!(matches!(outcome.error, Some(Error::TableMoved { .. })), "{outcome:?}");
        execute(&db, "drop table public.elsewhere").await;
    })
    .await;
}

/// A load from a pipe that has stored some documents and waits for more.
pub(crate) struct Halfway {
    tally: Arc<Tally>,
    more: std::sync::mpsc::Sender<String>,
    loading: tokio::task::JoinHandle<Result<Outcome, Error>>,
}

/// Begins to load into a new table; `first` documents are committed.
pub(crate) async fn halfway(
    db: &TestDatabase,
    files: &Files,
    first: &str,
    wanted: impl FnOnce(&mut LoadRequest),
) -> Halfway {
    let (path, more) = files.pipe("pipe");
    let mut request = request("public.t", "id:text", &[path]);
    request.source_name = Some("pipe".into());
    wanted(&mut request);
    let (around, _) = surroundings(&db.url());
    let tally = Arc::clone(&around.tally);
    let loading = tokio::spawn(async move { Box::pin(load(&request, &around)).await });
    let halfway = Halfway { tally, more, loading };
    halfway.sends(first).await;
    halfway
}

impl Halfway {
    /// Sends more, and waits until it is committed.
    pub(crate) async fn sends(&self, more: &str) {
        let documents = self.tally.documents() + more.lines().count() as u64;
        self.more.send(more.to_owned()).expect("the pipe is read");
        until(&format!("the load commits {documents} documents"), async || {
            assert!(!self.loading.is_finished(), "the load goes on");
            self.tally.documents() >= documents
        })
        .await;
    }

    /// Sends more, at which the load ends by itself.
    async fn ends_at(self, more: &str) -> Result<Outcome, Error> {
        let _ = self.more.send(more.to_owned());
        self.loading.await.expect("it does not panic")
    }

    pub(crate) async fn end(self, rest: &str) -> Result<Outcome, Error> {
        let _ = self.more.send(rest.to_owned());
        drop(self.more);
        self.loading.await.expect("it does not panic")
    }
}

pub(crate) fn documents(range: std::ops::Range<i64>) -> Stream {
    let mut stream = Stream::default();
    for n in range {
        stream.push(&format!("key-{n:05}"), n);
    }
    stream
}

#[tokio::test]
async fn a_load_whose_table_is_replaced_fails_and_spares_the_new_one() {
    each_build(async |db| {
        for layout in ["table", "log"] {
            let files = Files::new();
            let first = documents(0..500);
            let halfway = halfway(&db, &files, &first.text, |request| {
                request.layout = millstream_engine::Layout::by_name(layout).unwrap();
                request.lanes = Some(2);
            })
            .await;
            let swap = "begin; alter table public.t rename to t_old; create table public.t (like public.t_old including all); commit";
            db.client().await.batch_execute(swap).await.unwrap();
            let outcome = halfway.end(&documents(500..1_000).text).await.expect("there is a receipt");
            assert!(matches!(outcome.error, Some(Error::TableMoved { .. })), "{outcome:?}");
            assert_eq!(outcome.receipt.counters.read, 500, "what was committed before");
            let other: i64 = db.client().await.query_one("select count(*) from public.t", &[]).await.unwrap().get(0);
            assert_eq!(other, 0, "nothing went into the table that has the name now");

            // What the hint of the error says.
            let back = "begin; drop table public.t; alter table public.t_old rename to t; commit";
            db.client().await.batch_execute(back).await.unwrap();
            let whole = documents(0..1_000);
            let mut wanted = request("public.t", "id", &[files.write("whole", &whole.text)]);
            (wanted.source_name, wanted.format) = (None, "ndjson".into());
            wanted.layout = millstream_engine::Layout::by_name(layout).unwrap();
            assert!(run(&db.url(), &wanted).await.stopped.is_none());
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_running_load_fails_on_truncate_and_continues_on_a_rewrite() {
    each_build(async |db| {
        let files = Files::new();
        let first = documents(0..500);
        let running = halfway(&db, &files, &first.text, |_| {}).await;
        execute(&db, "truncate public.t").await;
        let error = running.end(&documents(500..1_000).text).await.expect_err("a pipe cannot be read again");
        assert!(error.to_string().contains("TRUNCATE"), "{error}");
        assert!(stored(&db, "public.t").await.is_empty(), "no half of the documents");
        execute(&db, "drop table public.t").await;

        let files = Files::new();
        let running = halfway(&db, &files, &first.text, |_| {}).await;
        execute(&db, "vacuum full public.t").await;
        let outcome = running.end(&documents(500..1_000).text).await.expect("there is a receipt");
        assert!(outcome.error.is_none(), "{outcome:?}");
        assert!(stored(&db, "public.t").await == documents(0..1_000).last);
        execute(&db, "drop table public.t").await;

        // Rows that nobody has counted: not all of them may be the load's.
        let files = Files::new();
        let running = halfway(&db, &files, &first.text, |_| {}).await;
        let refilled = "begin; truncate public.t; insert into public.t values ('other', '{}'); commit";
        db.client().await.batch_execute(refilled).await.unwrap();
        let error = running.ends_at(&documents(500..1_000).text).await.expect_err("documents are missing");
        assert!(matches!(error, Error::PerhapsTruncated { .. }), "{error}");
    })
    .await;
}

/// Nothing of the load is gone, but what is recorded of other loads must be reset.
#[tokio::test]
async fn a_truncate_before_the_first_document_is_noticed() {
    each_build(async |db| {
        for others in [0, 50] {
            let files = Files::new();
            let mut added = request("public.t", "id:text", &[files.write("added", documents(0..100).text)]);
            (added.mode, added.resume) = ("sum:value".parse().unwrap(), true);
            run(&db.url(), &added).await;
            let running = halfway(&db, &files, "", |_| {}).await;
            let client = db.client().await;
            let begun = schema().sql("select exists (select from {schema}.load where state = 'running')");
            until("the load is recorded", async || client.query_one(&begun, &[]).await.unwrap().get(0)).await;
            execute(&db, "truncate public.t").await;
            if others > 0 {
                // Another load finds out first, and the server counts its rows.
                let other = request("public.t", "id:text", &[files.write("other", documents(0..others).text)]);
                run(&db.url(), &other).await;
                execute(&db, "analyze public.t").await;
            }
            let outcome = running.end(&documents(100..200).text).await.expect("there is a receipt");
            assert!(matches!(outcome.error, Some(Error::TableChanged { .. })), "{outcome:?}");
            assert!(stored(&db, "public.t").await == documents(0..others).last, "nothing is written");
            let (outcome, warnings) = run_and_listen(&db, &added).await;
            assert!(!outcome.recalled && stored(&db, "public.t").await.len() == 100, "{warnings}");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}
