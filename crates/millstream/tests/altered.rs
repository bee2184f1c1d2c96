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
