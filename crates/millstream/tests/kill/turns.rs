//! Lanes that write one at a time after deadlocks say why, and a killed one holds up nobody.

use crate::process::command;
use millstream_testkit::each_build;

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_killed_in_its_turn_leaves_no_lock() {
    each_build(async |db| {
        let (dir, url, client) = (tempfile::tempdir().unwrap(), db.url(), db.client().await);
        let file = dir.path().join("a.ndjson");
        std::fs::write(&file, "{\"id\":1}\n{\"id\":2}\n").unwrap();
        client
            .batch_execute(
                "create table public.t (id bigint primary key, doc jsonb not null);
                 create sequence public.tries;
                 create function public.collides() returns trigger language plpgsql as
                 $$begin
                     if nextval('public.tries') <= 2 then
                         raise sqlstate '40P01' using message = 'deadlock detected';
                     end if;
                     return null;
                 end$$;
                 create trigger collides after insert on public.t for each statement execute function public.collides()",
            )
            .await
            .unwrap();
        let args = [
            "load",
            file.to_str().unwrap(),
            "--into",
            "public.t",
            "--adopt",
            "--key",
            "id:bigint",
            "--lanes",
            "1",
            "--db",
            &url,
        ];
        // Two tries have ended before they had written the batch. The third one has it alone.
        let killed = command(&args).env("MILLSTREAM_FAILPOINTS", "batch-written=kill@1").output().unwrap();
        let stderr = String::from_utf8_lossy(&killed.stderr);
        assert!(!killed.status.success(), "{stderr}");
        assert!(stderr.contains("one at a time") && stderr.contains("trigger collides"), "{stderr}");
        let again = command(&args).output().unwrap();
        let stderr = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.success() && !stderr.contains("one at a time"), "{stderr}");
        let rows: i64 = client.query_one("select count(*) from public.t", &[]).await.unwrap().get(0);
        assert_eq!(rows, 2);
    })
    .await;
}
