//! Plans of queries stay the same while a model is rebuilt.

use crate::process::{command, millstream};
use millstream_testkit::{connect, each_build, until};
use std::process::Stdio;
use tokio::process::Command;
use tokio_postgres::Client;

/// Rows of the model, enough for the planner to use its indexes.
const ROWS: i64 = 20_000;

/// Statements whose plans suffer most if one partition has no index: by one value, in order, and for each of some rows.
const QUERIES: &[&str] = &[
    "select doc from public.offers_read where price = 7",
    "select price from public.offers_read order by price limit 10",
    "select few.id, offers_read.price from public.few join public.offers_read using (id)",
];

/// The plans of all of them, custom and generic.
async fn plans(client: &Client) -> Vec<String> {
    let mut plans = Vec::new();
    for query in QUERIES {
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let prepare = format!("set plan_cache_mode = {mode}; prepare planned as {query}");
            client.batch_execute(&prepare).await.unwrap();
            let lines = client.query("explain (costs off) execute planned", &[]).await.unwrap();
            let lines: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
            plans.push(lines.join("\n"));
            client.batch_execute("deallocate planned").await.unwrap();
        }
    }
    plans
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_does_not_change_query_plans() {
    each_build(async |db| {
        let (url, dir) = (db.url(), tempfile::tempdir().unwrap());
        let (file, held) = (dir.path().join("a.ndjson"), dir.path().join("held"));
        std::fs::write(&file, "{\"id\":0,\"price\":0}\n").unwrap();
        let load = ["load", file.to_str().unwrap(), "--into", "public.offers", "--key", "id:bigint", "--db", &url];
        millstream(&load).ends(0);
        let client = db.client().await;
        let fill = format!(
            "insert into public.offers select n, jsonb_build_object('price', n, 'note', repeat('x', 200))
             from generate_series(1, {ROWS}) n;
             create table public.few as select n * 100 as id from generate_series(1, 20) n;
             analyze public.few; analyze public.offers"
        );
        client.batch_execute(&fill).await.unwrap();
        let publish = ["publish", "offers", "--as", "offers_read", "--column", "price:int=price", "--index", "price"];
        millstream(&[&publish[..], &["--db", &url]].concat()).ends(0);
        // At the last range, all rows but those of one range exist. Then all exist, without statistics.
        for point in ["range-built", "rows-built", "indexes-built"] {
            let before = plans(&client).await;
            for (plan, what) in before.iter().zip(QUERIES.iter().flat_map(|query| [query, query])) {
                assert!(plan.contains("Index") && plan.matches("Seq Scan on model_").count() == 0, "{what}\n{plan}");
            }
            let swap = ["refresh", "offers_read", "--way", "swap", "--workers", "1", "--db", &url];
            let nth = if point == "range-built" { 4 } else { 1 };
            let mut child = Command::from(command(&swap));
            child.env("MILLSTREAM_FAILPOINTS", format!("{point}=wait:{}@{nth}", held.display()));
            let mut child = child.kill_on_drop(true).stdout(Stdio::null()).spawn().unwrap();
            until("the build is held", async || held.exists()).await;
            let rows = "select max(pg_relation_size(oid)) from pg_class where relname ~ '^model_[0-9]+_[12]$' and
                        not relispartition";
            let building: i64 = client.query_one(rows, &[]).await.unwrap().get(0);
            assert!(building > 0, "{point}: there is something that is not shown");
            assert_eq!(plans(&client).await, before, "{point}");
            assert_eq!(plans(&connect(&url).await).await, before, "{point}, in a new session");
            std::fs::remove_file(&held).unwrap();
            assert!(child.wait().await.unwrap().success(), "{point}");
        }
    })
    .await;
}
