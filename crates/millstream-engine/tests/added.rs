//! Sums of a finished load are not added again, neither by the same command nor by another load of its sources.

use crate::resume::pipe;
use crate::scene::{Files, request, run, schema, surroundings};
use millstream_engine::{Error, LoadRequest, load};
use millstream_pg::Explained;
use millstream_store::Error as StoreError;
use millstream_store::loads;
use millstream_testkit::{TestDatabase, database, each_build};

fn sums(table: &str, sources: &[&String]) -> LoadRequest {
    let sources: Vec<String> = sources.iter().map(|source| (*source).clone()).collect();
    let mut wanted = request(table, "id:text", &sources);
    wanted.mode = "sum:n".parse().expect("a mode");
    wanted
}

/// Runs a load that must be refused. Returns the error.
async fn refused(db: &TestDatabase, wanted: &LoadRequest) -> String {
    let error = Box::pin(load(wanted, &surroundings(&db.url()).0)).await.expect_err("it would count twice");
    assert!(matches!(error, Error::Store(StoreError::AddedUp { .. })), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("--resume off adds all")), "{error}");
    error.to_string()
}

/// `id=sum` of all rows.
async fn stored(db: &TestDatabase, table: &str) -> String {
    let sql = format!("select coalesce(string_agg(id || '=' || (doc ->> 'n'), ' ' order by id), '') from {table}");
    db.client().await.query_one(&sql, &[]).await.expect("it answers").get(0)
}

#[tokio::test]
async fn sum_refuses_files_that_grew_or_changed() {
    each_build(async |db| {
        let files = Files::new();
        let text = "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":2}\n";
        let (first, last) = (files.write("first", text), files.write("last", "{\"id\":\"a\",\"n\":10}\n"));
        let mut wanted = sums("public.grown", &[&first, &last]);
        let receipt = run(&db.url(), &wanted).await.receipt;
        for (name, text, words) in [
            ("last", "{\"id\":\"a\",\"n\":10}\n{\"id\":\"c\",\"n\":3}\n", "last, which has more documents now"),
            ("last", "{\"id\":\"a\",\"n\":20}\n", "last (or a source before it), whose first 18 bytes have changed"),
            ("last", "", "whose first 18 bytes have changed"),
            ("first", &text.replace('2', "4"), "(or a source before it)"),
            ("first", &format!("{text}{text}"), "(or a source before it)"),
            ("first", "", "(or a source before it)"),
        ] {
            let before = std::fs::read(if name == "last" { &last } else { &first }).unwrap();
            files.write(name, text);
            let error = refused(&db, &wanted).await;
            assert!(error.contains(words) && error.contains(&format!("load {}", receipt.load_id)), "{error}");
            files.write(name, before);
        }
        let again = run(&db.url(), &wanted).await.receipt;
        assert_eq!((again.load_id, again.counters), (receipt.load_id, receipt.counters));
        assert_eq!(stored(&db, "public.grown").await, "a=11 b=2", "nothing changed");
        wanted.resume = false;
        let anew = run(&db.url(), &wanted).await.receipt;
        assert!(anew.load_id != receipt.load_id && anew.counters.read == 3, "{anew:?}");
        assert_eq!(stored(&db, "public.grown").await, "a=22 b=4");

        let half = sums("public.half", &[&files.write("half", "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",")]);
        assert_eq!(run(&db.url(), &half).await.receipt.counters.rejected, 1);
        files.write("half", "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":2}\n");
        let error = refused(&db, &half).await;
        assert!(error.contains("half, whose last document has grown"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn sum_refuses_overlapping_sources_and_other_options() {
    each_build(async |db| {
        let files = Files::new();
        let document = |n: i64| format!("{{\"id\":\"a\",\"n\":{n},\"m\":1}}\n");
        let [a, b, c] = [("a", 1), ("b", 10), ("c", 100)].map(|(name, n)| files.write(name, document(n)));
        run(&db.url(), &sums("public.shared", &[&a, &b])).await;
        let mut other_mode = sums("public.shared", &[&a, &b]);
        other_mode.mode = "sum:m".parse().unwrap();
        let mut other_format = sums("public.shared", &[&a, &b]);
        other_format.format = "ndjson".into();
        for (wanted, words) in [
            (sums("public.shared", &[&a]), "/a in another list of sources"),
            (sums("public.shared", &[&c, &b]), "/b in another list of sources"),
            (sums("public.shared", &[&b, &a]), "/b and 1 more of these sources"),
            (sums("public.shared", &[&a, &b, &c]), "/a and 1 more of these sources"),
            (other_mode, "in another mode"),
            (other_format, "in another format"),
        ] {
            let error = refused(&db, &wanted).await;
            assert!(error.contains(words) && error.contains("would count twice"), "{error}");
        }
        assert_eq!(stored(&db, "public.shared").await, "a=11");
        run(&db.url(), &sums("public.shared", &[&c])).await;
        run(&db.url(), &sums("public.shared", &[&a, &b])).await;
        assert_eq!(stored(&db, "public.shared").await, "a=111", "the load of other sources has nothing to do with it");
        let mut anyway = sums("public.shared", &[&c, &a]);
        anyway.resume = false;
        run(&db.url(), &anyway).await;
        assert_eq!(stored(&db, "public.shared").await, "a=212");
        let replaced = request("public.shared", "id:text", std::slice::from_ref(&b));
        assert_eq!(run(&db.url(), &replaced).await.receipt.counters.updated, 1, "a mode that adds nothing up");
        run(&db.url(), &sums("public.another", &[&a])).await;
    })
    .await;
}

#[tokio::test]
async fn sum_refuses_sources_of_an_abandoned_load() {
    each_build(async |db| {
        let files = Files::new();
        let [a, b, c] = [("a", 1), ("b", 10), ("c", 100)]
            .map(|(name, n)| files.write(name, format!("{{\"id\":\"a\",\"n\":{n}}}\n").repeat(1_000)));
        let broken = files.write("broken", "{");
        let mut stopped = sums("public.given_up", &[&a, &broken, &b]);
        (stopped.rejects_max, stopped.lanes, stopped.batch_rows) = (1, Some(1), 100);
        assert!(!run(&db.url(), &stopped).await.receipt.finished);
        assert_eq!(stored(&db, "public.given_up").await, "a=1000");
        let mut other = sums("public.given_up", &[&c, &b]);
        other.resume = false;
        let of_others = run(&db.url(), &other).await.receipt.load_id;
        for wanted in [sums("public.given_up", &[&a]), stopped] {
            let error = refused(&db, &wanted).await;
            assert!(error.contains("would count twice"), "{error}");
        }
        // The abandoned load did not reach this source, and no other load of the source is recorded.
        let mut client = db.client().await;
        assert!(loads::forget(&mut client, &schema(), of_others).await.unwrap());
        run(&db.url(), &sums("public.given_up", &[&b])).await;
        assert_eq!(stored(&db, "public.given_up").await, "a=121000");
        let mut anyway = sums("public.given_up", &[&a]);
        anyway.resume = false;
        run(&db.url(), &anyway).await;
        let again = run(&db.url(), &sums("public.given_up", &[&a])).await;
        assert!(again.recalled, "the load that came to its end is the one that is meant");
    })
    .await;
}

#[tokio::test]
async fn unchanged_and_grown_sources_are_recognised_in_every_format() {
    let db = database().await;
    let files = Files::new();
    let zipped = millstream_testkit::gzip(b"{\"id\":\"a\",\"n\":1}\n\n");
    let texts: [(&str, &[u8], &[u8]); 7] = [
        (
            "lines",
            b"{\"id\":\"a\",\"n\":1}\n{\"id\":\"a\",\"n\":1}",
            b"{\"id\":\"a\",\"n\":1}\n{\"id\":\"a\",\"n\":1}\n{\"id\":\"a\"}",
        ),
        ("blanks", b"\n{\"id\":\"a\",\"n\":1}\n \n\n\n  ", b"\n{\"id\":\"a\",\"n\":1}\n \n\n\n  {\"id\":\"a\"}"),
        (
            "array",
            b"[{\"id\":\"a\",\"n\":1},\n {\"id\":\"a\",\"n\":1} ]\n\n",
            b"[{\"id\":\"a\",\"n\":1},\n {\"id\":\"a\",\"n\":1} , {}]",
        ),
        ("values", b"{\n\"id\":\"a\"} {\"id\":\"a\",\"n\":1}\n ", b"{\n\"id\":\"a\"} {\"id\":\"a\",\"n\":1}\n {}"),
        ("rejected", b"{\"id\":\"a\",\"n\":1}\n{\"id\":1\n", b"{\"id\":\"a\",\"n\":1}\n{\"id\":1\n{}"),
        ("empty", b"", b"{\"id\":\"a\",\"n\":1}\n"),
        ("zipped.gz", &zipped, b"{\"id\":\"a\",\"n\":1}\n\n{}"),
    ];
    for (name, text, grown) in texts {
        let mut wanted = sums(&format!("public.same_{}", &name[..4]), &[&files.write(name, text)]);
        if name == "values" {
            wanted.format = "json".into();
        }
        let first = run(&db.url(), &wanted).await.receipt;
        for chunk_bytes in [1, 7, 20, 1 << 18] {
            wanted.chunk_bytes = chunk_bytes;
            assert_eq!(run(&db.url(), &wanted).await.receipt.load_id, first.load_id, "{name} {chunk_bytes}");
        }
        files.write(name, grown);
        for chunk_bytes in [1, 7, 20, 1 << 18] {
            wanted.chunk_bytes = chunk_bytes;
            assert!(refused(&db, &wanted).await.contains("more documents now"), "{name} {chunk_bytes}");
        }
    }
}

#[tokio::test]
async fn sum_reads_and_compares_a_named_stream() {
    let db = database().await;
    let files = Files::new();
    let text = "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":2}\n";
    let mut wanted = sums("public.piped", &[&pipe(&files, text)]);
    wanted.source_name = Some("the stream".into());
    let first = run(&db.url(), &wanted).await.receipt;
    pipe(&files, text);
    assert_eq!(run(&db.url(), &wanted).await.receipt.load_id, first.load_id);
    for (text, words) in [
        (format!("{text}{{\"id\":\"c\",\"n\":3}}\n"), "the stream, which has more documents now"),
        (text.replace('2', "4"), "the stream, whose first 34 bytes have changed"),
        (String::new(), "the stream, whose first 34 bytes have changed"),
    ] {
        pipe(&files, &text);
        let error = refused(&db, &wanted).await;
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(stored(&db, "public.piped").await, "a=1 b=2");
    wanted.source_name = Some("another stream".into());
    pipe(&files, text);
    run(&db.url(), &wanted).await;
    assert_eq!(stored(&db, "public.piped").await, "a=2 b=4");
}

/// Interrupts a load at its first reject.
async fn interrupt(db: &TestDatabase, wanted: &LoadRequest) {
    let wanted = LoadRequest { rejects_max: 1, ..wanted.clone() };
    let outcome = run(&db.url(), &wanted).await;
    assert!(!outcome.receipt.finished && outcome.receipt.counters.inserted > 0, "{outcome:?}");
}

#[tokio::test]
async fn sum_refuses_appended_sources_on_resume() {
    each_build(async |db| {
        let files = Files::new();
        let half = |id: &str| format!("{{\"id\":\"{id}\",\"n\":1}}\n{{\"id\":}}\n{{\"id\":\"{id}\",\"n\":1}}\n");
        let [a, b, c] = ["a", "b", "c"].map(|name| files.write(name, half(name)));
        let small = |sources: &[&String]| LoadRequest { chunk_bytes: 16, ..sums("public.appended", sources) };
        run(&db.url(), &small(&[&b])).await;
        interrupt(&db, &small(&[&a])).await;
        let error = refused(&db, &small(&[&a, &b])).await;
        assert!(error.contains("/b in another list of sources"), "{error}");
        assert_eq!(stored(&db, "public.appended").await, "a=1 b=2");

        // A later load of other sources does not hide the earlier ones.
        let replaced = request("public.appended", "id:text", &[files.write("d", "{\"id\":\"d\",\"n\":5}\n")]);
        run(&db.url(), &replaced).await;
        interrupt(&db, &small(&[&c])).await;
        let error = refused(&db, &small(&[&c, &a])).await;
        assert!(error.contains("/a in part"), "{error}");
        run(&db.url(), &small(&[&c])).await;
        run(&db.url(), &small(&[&a])).await;
        assert_eq!(stored(&db, "public.appended").await, "a=2 b=2 c=2 d=5");
    })
    .await;
}
