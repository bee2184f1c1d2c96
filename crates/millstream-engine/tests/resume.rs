//! Which loads resume: those of the same sources or longer ones, and no others.

use crate::scene::{Files, Stream, request, run, schema, stored, surroundings};
use millstream_engine::{Error, Event, LoadRequest, Outcome, StopReason, load};
use millstream_pg::Explained;
use millstream_store::Error as StoreError;
use millstream_store::{Schema, load_lock_keys, loads};
use millstream_testkit::{TestDatabase, database, each_build};
use std::collections::BTreeMap;
use std::io::Write;

/// Documents of an interrupted load: many chunks.
const DOCUMENTS: usize = 60_000;
/// Rejects that interrupt it.
const REJECTS: u64 = 100;

/// Lines, every tenth of them broken, and the values of the others.
fn broken_stream(rng: &mut fastrand::Rng) -> (String, BTreeMap<String, i64>) {
    let (mut text, mut last) = (String::new(), BTreeMap::new());
    for n in 0..DOCUMENTS {
        let id = format!("key-{:05}", rng.usize(..40_000));
        let end = if n % 10 == 9 { "" } else { "}" };
        text.push_str(&format!("{{\"id\":\"{id}\",\"value\":{n}{end}\n"));
        if n % 10 != 9 {
            last.insert(id, i64::try_from(n).expect("few documents"));
        }
    }
    (text, last)
}

/// Interrupts a load. The request then has a limit with which it can end.
async fn interrupt(db: &TestDatabase, wanted: &mut LoadRequest) -> Outcome {
    wanted.rejects_max = REJECTS;
    let outcome = run(&db.url(), wanted).await;
    assert_eq!(outcome.stopped, Some(StopReason::Rejects));
    wanted.rejects_max = 1_000_000;
    outcome
}

/// Runs a load that is refused.
async fn refused(db: &TestDatabase, wanted: &LoadRequest) -> Error {
    Box::pin(load(wanted, &surroundings(&db.url()).0)).await.expect_err("another load is unfinished")
}

/// A trigger that ends the lane that meets a key. The other lanes commit what they have.
async fn trap(db: &TestDatabase, table: &str, id: &str) {
    let sql = format!(
        "create table public.{table} (id text collate \"C\" primary key, doc jsonb not null);
         create function public.trap_{table}() returns trigger language plpgsql as
         $$begin raise exception using errcode = 'disk_full'; end$$;
         create trigger trap before insert on public.{table} for each row
             when (new.id = '{id}') execute function public.trap_{table}()"
    );
    db.client().await.batch_execute(&sql).await.expect("a table with a trap");
}

#[tokio::test]
async fn a_changed_file_commits_nothing_and_the_unchanged_one_resumes() {
    each_build(async |db| {
        let mut rng = fastrand::Rng::with_seed(21);
        let mut stream = Stream::default();
        for n in 0..40_000 {
            let id = if n == 4_000 { "trap".to_owned() } else { format!("key-{:05}", rng.usize(..20_000)) };
            stream.push(&id, n);
        }
        trap(&db, "changed", "trap").await;
        let files = Files::new();
        let mut wanted = request("changed", "id", &[files.write("a", &stream.text)]);
        (wanted.adopt, wanted.lanes, wanted.batch_rows) = (true, Some(4), 500);
        assert_eq!(run(&db.url(), &wanted).await.stopped, Some(StopReason::Failed));
        db.client().await.batch_execute("drop trigger trap on changed").await.unwrap();
        let before = stored(&db, "changed").await;

        // The failed lane has committed nothing after that, the others have.
        files.write("a", stream.text.replace("\"value\":4", "\"value\":9"));
        let outcome = run(&db.url(), &wanted).await;
        assert!(matches!(outcome.error, Some(Error::Source(_))), "{outcome:?}");
        assert!(stored(&db, "changed").await == before, "no document of another file is in the table");

        files.write("a", &stream.text);
        let done = run(&db.url(), &wanted).await.receipt;
        assert_eq!((done.counters.read, done.finished), (stream.documents, true));
        assert!(stored(&db, "changed").await == stream.last);
    })
    .await;
}

#[tokio::test]
async fn only_appended_sources_and_a_grown_last_one_resume() {
    each_build(async |db| {
        let (text, mut last) = broken_stream(&mut fastrand::Rng::with_seed(22));
        let files = Files::new();
        let good = "{\"id\":\"early\",\"value\":1}\n";
        let first = files.write("first", good);
        let second = files.write("second", &text);
        let mut wanted = request("grown", "id", &[first, second]);
        interrupt(&db, &mut wanted).await;

        for changed in [good.repeat(2), good.replace("early", "other")] {
            files.write("first", changed);
            let outcome = run(&db.url(), &wanted).await;
            let Some(Error::Source(error)) = &outcome.error else { panic!("{outcome:?}") };
            assert!(error.to_string().contains("second (or a source before it)"), "{error}");
            assert!(error.hint().contains("--resume off"), "{}", error.hint());
        }
        files.write("first", good);
        files.write("second", format!("{text}{{\"id\":\"late\",\"value\":2}}\n"));
        wanted.sources.push(files.write("third", "{\"id\":\"last\",\"value\":3}\n"));
        let done = run(&db.url(), &wanted).await.receipt;
        assert!(done.finished && done.resumed_from.is_some(), "{done:?}");
        assert_eq!(done.counters.read, DOCUMENTS as u64 + 3);
        for (id, value) in [("early", 1), ("late", 2), ("last", 3)] {
            last.insert(id.to_owned(), value);
        }
        assert!(stored(&db, "grown").await == last);
    })
    .await;
}

#[tokio::test]
async fn a_file_that_grew_inside_its_last_document_is_refused() {
    each_build(async |db| {
        for (format, head, half, rest) in [
            ("csv", "id,name\n1,x\ntrap,x\n", "7,Al", "ice\n"),
            ("ndjson", "{\"id\":\"1\"}\n{\"id\":\"trap\"}\n", "{\"id\":\"7\"", ",\"name\":\"Alice\"}\n"),
        ] {
            let (files, client) = (Files::new(), db.client().await);
            let names = format!(
                "select string_agg(doc ->> 'name', ' ' order by id) from public.half_{format} where id in ('7', '8')"
            );
            let interrupt = async || {
                client
                    .batch_execute(&format!(
                        "drop table if exists public.half_{format}; drop function if exists public.trap_half_{format}"
                    ))
                    .await
                    .unwrap();
                trap(&db, &format!("half_{format}"), "trap").await;
                let mut wanted =
                    request(&format!("public.half_{format}"), "id", &[files.write(format, format!("{head}{half}"))]);
                (wanted.adopt, wanted.lanes) = (true, Some(4));
                let outcome = run(&db.url(), &wanted).await;
                assert_eq!(outcome.stopped, Some(StopReason::Failed), "{outcome:?}");
                client.batch_execute(&format!("drop trigger trap on public.half_{format}")).await.unwrap();
                wanted
            };
            let name = async || client.query_one(&names, &[]).await.unwrap().get::<_, Option<String>>(0);
            // A line end and more documents follow the half one.
            let (wanted, more) =
                (interrupt().await, format!("{head}{half}\n{}{}\n", half.replace('7', "8"), rest.trim_end()));
            files.write(format, more);
            assert!(run(&db.url(), &wanted).await.receipt.finished);
            assert!(name().await.is_some_and(|name| name.ends_with("Alice")));

            let mut wanted = interrupt().await;
            let before = name().await;
            files.write(format, format!("{head}{half}{rest}"));
            let outcome = run(&db.url(), &wanted).await;
            let Some(Error::Source(error)) = &outcome.error else { panic!("{outcome:?}") };
            assert!(error.to_string().contains("has grown in the middle of a document"), "{error}");
            assert!(error.hint().contains("--resume off"), "{}", error.hint());
            assert_eq!(name().await, before);
            files.write(format, format!("{}{half}{rest}", head.replacen('1', "2", 1)));
            let outcome = run(&db.url(), &wanted).await;
            let changed = outcome.error.as_ref().map(ToString::to_string).unwrap_or_default();
            assert!(changed.contains("have changed since the load read them"), "{outcome:?}");
            // Both ways that the hint names.
            files.write(format, format!("{head}{half}"));
            assert!(run(&db.url(), &wanted).await.receipt.finished);
            files.write(format, format!("{head}{half}{rest}"));
            assert!(run(&db.url(), &wanted).await.receipt.finished);
            assert_eq!(name().await.as_deref(), Some("Alice"));
            let anew = interrupt().await;
            files.write(format, format!("{head}{half}{rest}"));
            wanted = LoadRequest { resume: false, ..anew };
            assert!(run(&db.url(), &wanted).await.receipt.finished);
            assert_eq!(name().await.as_deref(), Some("Alice"));
        }
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_load_refuses_other_options_for_its_sources() {
    let db = database().await;
    let (text, last) = broken_stream(&mut fastrand::Rng::with_seed(23));
    let files = Files::new();
    let (first, second) = (files.write("first", "{\"id\":\"x\",\"value\":0}\n"), files.write("second", &text));
    let mut wanted = request("strict", "id", &[first.clone(), second.clone()]);
    let load_id = interrupt(&db, &mut wanted).await.receipt.load_id;

    let mut other_format = wanted.clone();
    other_format.format = "ndjson".into();
    let with_sources = |sources: &[&String]| {
        let mut other = wanted.clone();
        other.sources = sources.iter().map(|s| (*s).clone()).collect();
        other
    };
    for (other, words) in [
        (other_format, "in another format"),
        (with_sources(&[&second, &first]), "in another order"),
        (with_sources(&[&second]), "other sources"),
        (with_sources(&[&first]), "other sources"),
    ] {
        let error = refused(&db, &other).await;
        assert!(matches!(error, Error::LoadChanged { load_id: n, .. } if n == load_id), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("--resume off") && hint.contains(&format!("forget {load_id}")), "{hint}");
    }
    let apart = files.write("apart", "{\"id\":\"apart\",\"value\":1}\n");
    let another = run(&db.url(), &request("strict", "id", &[apart])).await.receipt;
    assert!(another.finished, "a load of other sources has nothing to do with it");

    let done = run(&db.url(), &wanted).await.receipt;
    assert_eq!((done.load_id, done.counters.read), (load_id, DOCUMENTS as u64 + 1));
    let mut expected = last;
    expected.extend([("x".to_owned(), 0), ("apart".to_owned(), 1)]);
    assert!(stored(&db, "strict").await == expected);
}

#[tokio::test]
async fn resume_off_abandons_an_unfinished_load() {
    let db = database().await;
    let (text, _) = broken_stream(&mut fastrand::Rng::with_seed(24));
    let files = Files::new();
    let mut wanted = request("anew", "id", &[files.write("a", &text)]);
    let old = interrupt(&db, &mut wanted).await.receipt.load_id;
    wanted.format = "ndjson".into();
    wanted.resume = false;
    let new = interrupt(&db, &mut wanted).await.receipt.load_id;
    assert_ne!(new, old);
    wanted.resume = true;
    let done = run(&db.url(), &wanted).await.receipt;
    assert_eq!((done.load_id, done.counters.read), (new, DOCUMENTS as u64));
    wanted.format = "auto".into();
    let again = run(&db.url(), &wanted).await.receipt;
    assert_eq!((again.resumed_from, again.counters.read), (None, DOCUMENTS as u64));

    // The first one stays abandoned.
    let mut client = db.client().await;
    for load_id in [new, again.load_id] {
        assert!(loads::forget(&mut client, &schema(), load_id).await.unwrap());
    }
    let last = run(&db.url(), &wanted).await.receipt;
    assert_eq!((last.resumed_from, last.counters.read), (None, DOCUMENTS as u64));
}

#[tokio::test]
async fn loads_recorded_in_different_schemas_are_independent() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let lock = async |keys: (i32, i32)| {
            client.execute("select pg_advisory_lock($1, $2)", &[&keys.0, &keys.1]).await.unwrap();
        };
        let mut wanted = request("public.elsewhere", "id:text", &[files.write("a", "{\"id\":\"a\"}\n")]);
        wanted.schema = Schema::new("elsewhere");
        // Load 1 of the default schema runs.
        lock(load_lock_keys(&schema(), 1)).await;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.load_id, receipt.counters.inserted), (1, 1));
        lock(load_lock_keys(&Schema::new("elsewhere"), 2)).await;
        let error = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("load 2 is at work");
        assert!(matches!(error, Error::Store(StoreError::LoadRunning { load_id: 2, .. })), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_recreated_table_is_loaded_from_the_start_with_a_warning() {
    let db = database().await;
    let (text, last) = broken_stream(&mut fastrand::Rng::with_seed(25));
    let files = Files::new();
    let mut wanted = request("again", "id", &[files.write("a", &text)]);
    let old = interrupt(&db, &mut wanted).await.receipt.load_id;
    db.client().await.batch_execute("drop table again").await.unwrap();
    for told_once in [true, false] {
        let (around, events) = surroundings(&db.url());
        let outcome = Box::pin(load(&wanted, &around)).await.unwrap();
        assert_eq!((outcome.receipt.resumed_from, outcome.receipt.counters.read), (None, DOCUMENTS as u64));
        let said = format!("created anew since load {old}");
        let events = events.0.lock().unwrap();
        assert_eq!(
            events.iter().any(|e| matches!(e, Event::Warning(text) if text.contains(&said))),
            told_once,
            "{events:?}"
        );
    }
    assert!(stored(&db, "again").await == last);
}

/// A pipe into which a thread writes a text, as `| millstream load -` would.
pub(crate) fn pipe(files: &Files, text: &str) -> String {
    let path = files.write("stem", "") + ".pipe";
    let _ = std::fs::remove_file(&path);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()));
    let (name, text) = (path.clone(), text.to_owned());
    std::thread::spawn(move || {
        // A load that stops early reads no further.
        let _ = std::fs::OpenOptions::new().write(true).open(name).expect("a pipe").write_all(text.as_bytes());
    });
    path
}

#[tokio::test]
async fn a_named_stream_resumes_when_it_is_sent_again() {
    let db = database().await;
    let (text, last) = broken_stream(&mut fastrand::Rng::with_seed(26));
    let files = Files::new();
    let mut wanted = request("streamed", "id:text", &[pipe(&files, &text)]);
    wanted.source_name = Some("the stream".into());
    let before = interrupt(&db, &mut wanted).await.receipt;

    pipe(&files, &text.replacen("\"value\":0}", "\"value\":7}", 1));
    let outcome = run(&db.url(), &wanted).await;
    assert!(matches!(outcome.error, Some(Error::Source(_))), "another stream: {outcome:?}");
    pipe(&files, &text[..text.len() / 100]);
    let outcome = run(&db.url(), &wanted).await;
    assert!(matches!(outcome.error, Some(Error::Source(_))), "too short a stream: {outcome:?}");

    pipe(&files, &text);
    let done = run(&db.url(), &wanted).await.receipt;
    assert_eq!((done.load_id, done.resumed_from), (before.load_id, Some(before.counters.read)));
    assert_eq!((done.counters.read, done.finished), (DOCUMENTS as u64, true));
    assert!(stored(&db, "streamed").await == last);

    wanted.source_name = None;
    pipe(&files, &text);
    interrupt(&db, &mut wanted).await;
    pipe(&files, &text);
    let anew = run(&db.url(), &wanted).await.receipt;
    assert_eq!((anew.resumed_from, anew.counters.read), (None, DOCUMENTS as u64), "a stream without a name");
    wanted.sources = vec![files.write("file", &text)];
    wanted.source_name = Some("a file".into());
    assert!(matches!(refused(&db, &wanted).await, Error::Refused(_)));

    wanted.source_name = None;
    interrupt(&db, &mut wanted).await;
    wanted.sources.push(pipe(&files, &text));
    let Error::LoadChanged { difference, .. } = refused(&db, &wanted).await else { panic!("a stream was appended") };
    assert_eq!(difference, "together with a stream that has no --source-name");
}
