//! The command `distinct`.

use crate::process::millstream;
use millstream_testkit::each_build;

const DOCUMENTS: &str = r#"{"device":"a","n":1,"day":"2026-01-01"}
{"device":"a","n":-2,"day":"2026-01-01"}
{"device":"a","n":-2,"day":"2026-01-02"}
{"device":"b, c","n":3,"day":"2026-01-01"}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn distinct_needs_the_columns_of_a_key_in_order() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.ndjson");
        std::fs::write(&file, DOCUMENTS).unwrap();
        let url = db.url();
        let run = |args: &[&str], code: i32| {
            let run = millstream(&[args, &["--db", &url]].concat()).ends(code);
            (run.stdout, run.stderr)
        };
        let client = db.client().await;
        // A table that Millstream has not made.
        client
            .batch_execute("create table public.pings (device text, n bigint, day date, doc jsonb not null, primary key (device, n, day))")
            .await
            .unwrap();
        run(&["load", file.to_str().unwrap(), "--into", "pings", "--key", "device,n,day", "--adopt"], 0);
        for (args, printed) in [
            (&["device"][..], "a\nb, c\n"),
            (&["device", "--limit", "1"], "a\n"),
            (&["device", "--output", "json"], "[\n  \"a\",\n  \"b, c\"\n]\n"),
            (&["n", "--prefix", "b, c"], "3\n"),
            (&["n", "--prefix", "a", "--output", "json"], "[\n  -2,\n  1\n]\n"),
            (&["day", "--prefix", "a,-2"], "2026-01-01\n2026-01-02\n"),
            (&["day", "--prefix", r"b\, c,3"], "2026-01-01\n"),
            (&["day", "--prefix", r#"["b, c", 3]"#], "2026-01-01\n"),
            (&["n", "--prefix", "nobody"], ""),
            (&["device", "--count"], "3\ta\n1\tb, c\n"),
            (&["n", "--prefix", "a", "--count", "--limit", "1"], "2\t-2\n"),
            (&["n", "--prefix", "b, c", "--count", "--output", "json"], "[\n  {\"count\": 1, \"value\": 3}\n]\n"),
            (&["n", "--prefix", "nobody", "--output", "json"], "[]\n"),
        ] {
            let (stdout, _) = run(&[&["distinct", "pings"], args].concat(), 0);
            assert_eq!(stdout, printed, "{args:?}");
        }
        for (keys, printed, code) in [
            (&["a", r"b\, c", "a,-2"][..], "3\ta\n1\tb\\, c\n2\ta,-2\n", 0),
            (&["a,-2,2026-01-02", "nobody"], "1\ta,-2,2026-01-02\n0\tnobody\n", 1),
        ] {
            assert_eq!(run(&[&["get", "pings", "--count"], keys].concat(), code).0, printed, "{keys:?}");
        }
        let counts = millstream(&["get", "pings", "a", "--count", "--output", "json", "--db", &url]).ends(0).json();
        assert_eq!(counts, serde_json::json!([{"key": ["a"], "count": 3}]));
        let (_, many) = run(&["get", "pings", "a,b,c,d", "--count"], 2);
        assert!(many.contains("hint: give the values as device,n,day, or the first of them"), "{many}");
        for (args, expected) in [
            (&["pings", "doc"][..], "hint: choose device, or n, day with the values of the columns before it"),
            (&["pings", "n"], "hint: give them as --prefix device, or choose device"),
            (&["pings", "device", "--prefix", "a"], "hint: leave out --prefix"),
            (&["pings", "day", "--prefix", "a"], "hint: give them as --prefix device,n, or choose n"),
            (&["pings", "day", "--prefix", "a,x"], "invalid input syntax for type bigint"),
            (&["others", "n"], "there is no collection others"),
        ] {
            let (_, stderr) = run(&[&["distinct"], args].concat(), 2);
            assert!(stderr.contains(expected), "{args:?}: {stderr}");
        }
        client.batch_execute("drop table public.pings").await.unwrap();
        let (_, gone) = run(&["distinct", "pings", "device"], 2);
        assert!(gone.contains("the table of pings is gone"), "{gone}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn distinct_escapes_control_characters() {
    let db = millstream_testkit::database().await;
    let (url, client) = (db.url(), db.client().await);
    millstream(&["load", "-", "--into", "public.odd", "--key", "id:text", "--db", &url]).ends(0);
    client.batch_execute(r"insert into public.odd values (E'a\x1b]0;owned\x07\tb', '{}')").await.unwrap();
    let shown = "a\\u001b]0;owned\\u0007\\tb\n";
    assert_eq!(millstream(&["distinct", "odd", "id", "--db", &url]).ends(0).stdout, shown);
    let counted = millstream(&["distinct", "odd", "id", "--count", "--db", &url]).ends(0).stdout;
    assert_eq!(counted, format!("1\t{shown}"));
    let json = millstream(&["distinct", "odd", "id", "--output", "json", "--db", &url]).ends(0).json();
    assert_eq!(json, serde_json::json!(["a\u{1b}]0;owned\u{7}\tb"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_begin_like_flags_are_found() {
    each_build(async |db| {
        let (url, dir) = (db.url(), tempfile::tempdir().unwrap());
        let file = dir.path().join("a.ndjson").to_str().unwrap().to_owned();
        std::fs::write(&file, "{\"a\":-5,\"b\":1}\n{\"a\":-5,\"b\":2}\n").unwrap();
        millstream(&["load", &file, "--into", "one", "--key", "a:bigint", "--db", &url]).ends(0);
        millstream(&["load", &file, "--into", "two", "--key", "a:bigint,b:bigint", "--db", &url]).ends(0);
        let two = "{\"a\": -5, \"b\": 2}\n";
        assert_eq!(millstream(&["get", "one", "-5", "--db", &url]).ends(0).stdout, two);
        assert_eq!(millstream(&["get", "two", "-5,2", "--db", &url]).ends(0).stdout, two);
        let counted = millstream(&["get", "two", "-5", "-6", "--count", "--db", &url]).ends(1).stdout;
        assert_eq!(counted, "2\t-5\n0\t-6\n");
        assert!(millstream(&["get", "one", "-x", "--db", &url]).ends(2).stderr.contains("unexpected argument"));
    })
    .await;
}
