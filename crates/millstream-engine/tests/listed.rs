//! Collections as they are listed.

use crate::emptied::documents;
use crate::scene::{Files, execute, request, run, schema};
use millstream_store::collections;
use millstream_testkit::{TestDatabase, each_build, until};

async fn rows(db: &TestDatabase) -> Option<u64> {
    let listed = collections::list(&db.client().await, &schema()).await.expect("a list");
    listed.first().expect("one collection").rows_estimate
}

#[tokio::test]
async fn rows_are_known_before_the_server_has_counted_them() {
    each_build(async |db| {
        for (partitions, filled) in [
            ("", 500),
            (
                " partition by range (id); create table public.t_low partition of public.t for values from (minvalue) \
                 to ('key-00300'); create table public.t_high partition of public.t for values from ('key-00300') to \
                 (maxvalue); create table public.t_rest partition of public.t default",
                500,
            ),
            (" partition by range (id); create table public.t_rest partition of public.t default", 0),
        ] {
            let table = "create table public.t (id text collate \"C\" primary key, doc jsonb not null)";
            execute(&db, &format!("{table}{partitions}")).await;
            let files = Files::new();
            let mut wanted = request("public.t", "id", &[files.write("a", documents(0..filled).text)]);
            (wanted.adopt, wanted.format) = (true, "ndjson".into());
            run(&db.url(), &wanted).await;
            // The sessions of a load report what they wrote when they end.
            let filled = u64::try_from(filled).expect("not negative");
            until("the rows of the load are listed", async || rows(&db).await == Some(filled)).await;
            execute(&db, "analyze public.t").await;
            assert_eq!(rows(&db).await, Some(filled), "{partitions}");
            execute(&db, "drop table public.t; delete from millstream.collection").await;
        }
    })
    .await;
}
