//! A table that somebody alters after a load has looked at it and before it writes.

use crate::process::{command, until_held};
use millstream_testkit::each_build;
use std::process::Stdio;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_altered_before_its_mark_is_read_gets_no_document() {
    each_build(async |db| {
        let (dir, url, client) = (tempfile::tempdir().unwrap(), db.url(), db.client().await);
        let (file, held) = (dir.path().join("a.ndjson"), dir.path().join("held"));
        std::fs::write(&file, "{\"id\":1}\n{\"id\":2}\n").unwrap();
        client
            .batch_execute(
                "create table public.t (id bigint primary key, doc jsonb not null);
                 create function public.drops() returns trigger language plpgsql as 'begin return null; end'",
            )
            .await
            .unwrap();
        let args =
            ["load", file.to_str().unwrap(), "--into", "public.t", "--adopt", "--key", "id:bigint", "--db", &url];
        for (alter, back, becomes) in [
            // As numbers of this type, keys would have other values.
            ("alter table t alter id type float8", "alter table t alter id type bigint", None),
            ("alter table t drop constraint t_pkey", "alter table t add primary key (id)", None),
            ("create rule r as on insert to t do instead nothing", "drop rule r on t", None),
            (
                "create trigger r before insert on t for each row execute function drops()",
                "drop trigger r on t",
                Some(0),
            ),
            ("alter table t add check (id > 1)", "alter table t drop constraint t_id_check", Some(1)),
        ] {
            let mut load = command(&args);
            load.env("MILLSTREAM_FAILPOINTS", format!("collection-planned=wait:{}@1", held.display()));
            let mut load =
                load.args(["--max-rejects", "9"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            until_held(&mut load, &held).await;
            client.batch_execute(&format!("set search_path = public; {alter}")).await.unwrap();
            std::fs::remove_file(&held).unwrap();
            let output = load.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            let rows: i64 = client.query_one("select count(*) from public.t", &[]).await.unwrap().get(0);
            match becomes {
                None => assert!(!output.status.success() && rows == 0, "{alter}: {rows} {stderr}"),
                // It looks at the table anew and writes in another way.
                Some(expected) => assert_eq!(rows, expected, "{alter}: {stderr}"),
            }
            client.batch_execute(&format!("truncate t; {back}")).await.unwrap();
        }
    })
    .await;
}

/// Something that may refuse documents, the documents of one key, and what of them is stored if each is written by itself.
type Refusing = (&'static str, &'static str, &'static [&'static str], &'static str);

const REFUSING: &[Refusing] = &[
    (
        "alter table public.t add check ((doc ->> 'n')::numeric < 9)",
        "sum:n",
        &["\"n\":5", "\"n\":5", "\"n\":-3"],
        "{\"n\": 2}",
    ),
    (
        "alter table public.t add n smallint generated always as ((doc ->> 'n')::smallint) stored",
        "sum:n",
        &["\"n\":32000", "\"n\":32000", "\"n\":-32000"],
        "{\"n\": 0}",
    ),
    (
        "create index on public.t (((doc ->> 'n')::smallint))",
        "sum:n",
        &["\"n\":32000", "\"n\":32000", "\"n\":-32000"],
        "{\"n\": 0}",
    ),
    (
        "alter table public.t add check (not doc ? 'bad')",
        "merge",
        &["\"a\":1", "\"bad\":1,\"b\":1", "\"c\":1"],
        "{\"a\": 1, \"c\": 1}",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_may_refuse_documents_is_asked_about_each_from_the_moment_it_is_there() {
    each_build(async |db| {
        let (dir, url, client) = (tempfile::tempdir().unwrap(), db.url(), db.client().await);
        let held = dir.path().join("held");
        for (n, &(alter, mode, documents, left)) in REFUSING.iter().enumerate() {
            client.batch_execute("create table public.t (id bigint primary key, doc jsonb not null)").await.unwrap();
            let file = dir.path().join(format!("{n}.ndjson"));
            let lines = documents.iter().map(|members| format!("{{\"id\":1,{members}}}\n"));
            std::fs::write(&file, lines.collect::<String>()).unwrap();
            let file = file.to_str().unwrap();
            let fixed = ["load", file, "--into", "public.t", "--adopt", "--key", "id:bigint", "--db", &url];
            let mut load = command(&[&fixed[..], &["--mode", mode, "--max-rejects", "9"]].concat());
            load.env("MILLSTREAM_FAILPOINTS", format!("load-recorded=wait:{}@1", held.display()));
            let mut load = load.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            until_held(&mut load, &held).await;
            client.batch_execute(alter).await.unwrap();
            std::fs::remove_file(&held).unwrap();
            let output = load.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{alter}: {stderr}");
            assert!(stderr.contains("looks at the table anew"), "{alter}: {stderr}");
            let stored = "select (doc - 'id')::text from public.t";
            let stored: String = client.query_one(stored, &[]).await.unwrap().get(0);
            assert_eq!(stored, left, "{alter}: {stderr}");
            client.batch_execute("drop table public.t").await.unwrap();
        }
    })
    .await;
}
