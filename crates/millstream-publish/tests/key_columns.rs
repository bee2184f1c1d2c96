//! Models of collections whose keys are of types that tables bring along.

use crate::publish::{publish_on, refresh_on, wanted};
use crate::scene::{Files, adopting, appending, collection, compacted, equal, execute, request, run, surroundings};
use futures_util::TryStreamExt;
use millstream_engine::{Event, load};
use millstream_pg::quote_identifier;
use millstream_publish::{DistinctRequest, distinct};
use millstream_testkit::each_build;

#[tokio::test]
async fn new_key_types_reach_segments_models_and_distinct() {
    each_build(async |db| {
        let files = Files::new();
        let numbers: String = (0..500).map(|n| format!("{{\"id\":{}.50,\"n\":{n}}}\n", n % 400)).collect();
        let times: String = (0..500).map(|n| format!("{{\"id\":{},\"n\":{n}}}\n", n % 400)).collect();
        let local = |n: i32| format!("2026-01-01T00:{:02}:{:02}", n % 400 / 60, n % 400 % 60);
        let locals: String = (0..500).map(|n| format!("{{\"id\":\"{}\",\"n\":{n}}}\n", local(n))).collect();
        for (n, (of, text)) in [
            ("numeric", &numbers),
            ("smallint", &times),
            ("varchar(5)", &times),
            ("timestamptz:epoch", &times),
            ("timestamp", &locals),
        ]
        .into_iter()
        .enumerate()
        {
            let table = format!("public.typed_{n}");
            let mut wanted_load = appending(&table, &[files.write(&format!("t{n}"), text)], 90);
            wanted_load.key = request(&table, &format!("id:{of}"), &[]).key;
            run(&db.url(), &wanted_load).await;
            assert_eq!(equal(&db, &wanted_load).await, 400, "{of}");
            compacted(&db, &table, 3).await.expect("it is merged");
            let mut client = db.client().await;
            let count = format!("select count(*) from {table}");
            assert_eq!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 400, "{of}");
            let model = format!("typed_model_{n}");
            publish_on(&db, &wanted(&table, &model, &["n:int=n"], &["n"], None)).await.expect("it is published");
            refresh_on(&db, &[model.as_str()], None).await.expect("it is built");
            let changed =
                text.lines().take(20).map(|line| line.replace("\"n\":", "\"n\":1000")).collect::<Vec<_>>().join("\n");
            run(&db.url(), &request(&table, "id", &[files.write(&format!("c{n}"), &changed)])).await;
            let oid = collection(&client, &table).await.table_oid;
            let named = format!("select sum(keys)::bigint from millstream.change_{oid}");
            assert_eq!(client.query_one(&named, &[]).await.unwrap().get::<_, i64>(0), 20, "{of}");
            refresh_on(&db, &[model.as_str()], None).await.expect("it is refreshed");
            let shown = format!("select count(*) from {model} where n >= 1000");
            assert_eq!(client.query_one(&shown, &[]).await.unwrap().get::<_, i64>(0), 20, "{of}");
            let found = collection(&client, &table).await;
            let asked = DistinctRequest { column: "id".into(), ..DistinctRequest::default() };
            let values: Vec<String> = distinct(&mut client, &found, &asked).await.unwrap().try_collect().await.unwrap();
            assert_eq!(values.len(), 400, "{of}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_model_follows_a_key_of_a_domain() {
    each_build(async |db| {
        let files = Files::new();
        execute(
            &db,
            "create domain public.positive as bigint check (value > 0);
             create table public.kept (k public.positive primary key, doc jsonb not null)",
        )
        .await;
        let wanted_load = adopting("public.kept", "k", &files, "{\"k\":1,\"n\":1}\n{\"k\":2,\"n\":2}\n{\"k\":-1}\n");
        let (around, events) = surroundings(&db.url());
        Box::pin(load(&wanted_load, &around)).await.expect("the load begins");
        {
            let events = events.0.lock().expect("no test panics while it holds this");
            let warned = |part: &str| events.iter().any(|e| matches!(e, Event::Warning(text) if text.contains(part)));
            assert!(warned("key column k is of domain"), "{events:?}");
        }
        publish_on(&db, &wanted("public.kept", "kept_model", &["n:int=n"], &["n"], None))
            .await
            .expect("it is published");
        refresh_on(&db, &["kept_model"], None).await.expect("it is built");
        run(&db.url(), &adopting("public.kept", "k", &files, "{\"k\":2,\"n\":22}\n")).await;
        let client = db.client().await;
        let oid = collection(&client, "public.kept").await.table_oid;
        let record = format!("select count(*), count(*) filter (where keys = 1) from millstream.change_{oid}");
        let row = client.query_one(&record, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(1), 1, "the record names the key");
        refresh_on(&db, &["kept_model"], None).await.expect("it is refreshed");
        let shown = "select string_agg(n::text, ',' order by n) from kept_model";
        assert_eq!(client.query_one(shown, &[]).await.unwrap().get::<_, &str>(0), "1,22");
    })
    .await;
}

/// Names that look like the places of our templates, like quotes of PL/pgSQL, or like parameters.
#[tokio::test]
async fn names_may_hold_what_templates_do() {
    each_build(async |db| {
        let files = Files::new();
        let client = db.client().await;
        for (n, (table, key)) in [("{key}", "{rows}"), ("$lock$", "$key$"), ("{table}", "$record$"), ("{part}", "$1")]
            .into_iter()
            .enumerate()
        {
            let rows =
                |of: std::ops::Range<u32>, v: u32| of.map(|k| format!("{{\"k\":{k},\"v\":{v}}}\n")).collect::<String>();
            let collection = format!("{table} {n}");
            let load = async |text: &str| {
                let file = files.write(&fastrand::u64(..).to_string(), text);
                run(&db.url(), &request(&collection, &format!("{key}=k:bigint"), &[file])).await;
            };
            load(&rows(0..100, 1)).await;
            let model = format!("{{view}} {n}");
            let request = wanted(&collection, &model, &["{among}:int=v"], &["\"{among}\""], Some("'{part}' <> ''"));
            publish_on(&db, &request).await.expect("it is published");
            refresh_on(&db, &[model.as_str()], None).await.expect("it is built");
            load(&rows(50..150, 2)).await;
            let quoted = quote_identifier(&collection);
            execute(&db, &format!("update {quoted} set \"{key}\" = 1000 where \"{key}\" = 0")).await;
            for way in ["incremental", "swap"] {
                refresh_on(&db, &[model.as_str()], Some(way)).await.expect("it is refreshed");
                let shown = format!(
                    "select count(*), count(*) filter (where \"{{among}}\" = 2), max(\"{key}\") from {}",
                    quote_identifier(&model)
                );
                let row = client.query_one(&shown, &[]).await.unwrap();
                let shown: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
                assert_eq!(shown, (150, 100, 1000), "{table} {key} {way}");
            }
        }
    })
    .await;
}
