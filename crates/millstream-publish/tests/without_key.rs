//! Read models of a collection whose documents leave out the members of the key. Its twin holds whole documents.

use crate::publish::{publish_on, refresh_on, wanted};
use crate::republish::materialized;
use crate::scene::{Files, Stream, request, run};
use millstream_model::{CollectionName, DocumentForm};
use millstream_publish::PublishRequest;
use millstream_testkit::{TestDatabase, every_build};
use std::sync::Mutex;
use tokio_postgres::Client;

/// Loads the same documents into `whole` and `short`.
async fn load_both(db: &TestDatabase, file: &str) {
    for (into, form) in [("whole", DocumentForm::Whole), ("short", DocumentForm::WithoutKey)] {
        let mut load = request(into, "id", &[file.to_owned()]);
        load.doc = Some(form);
        run(&db.url(), &load).await;
    }
}

/// Rows that only one of the models has. Their keys, typed columns and documents count.
async fn differences(client: &Client, (one, other): (&str, &str)) -> i64 {
    let sql = format!(
        "select (select count(*) from (table {one} except table {other}) d)
              + (select count(*) from (table {other} except table {one}) d)"
    );
    client.query_one(&sql, &[]).await.expect("the server answers").get(0)
}

async fn rows(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("select count(*) from {table}"), &[]).await.expect("the server answers").get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn models_see_whole_documents() {
    every_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        let stream = |seed, documents| Stream::random(&mut fastrand::Rng::with_seed(seed), documents, 2_000).text;
        load_both(&db, &files.write("a", stream(1, 4_000) + "{\"id\":\"invalid\",\"value\":\"x\"}\n")).await;
        let short = "select count(*) from public.short where doc ? 'id'";
        assert_eq!(client.query_one(short, &[]).await.unwrap().get::<_, i64>(0), 0, "the key is not stored twice");
        client.batch_execute("analyze public.whole, public.short").await.unwrap();
        for (model, way) in [("all", None), ("some", Some("swap")), ("kept", None)] {
            for collection in ["whole", "short"] {
                let columns = ["value:int=value", "copy:text=id"];
                let condition = (model == "some").then_some("doc->>'id' <> 'key-000001' and doc ? 'id'");
                let mut request = wanted(collection, &format!("{collection}_{model}"), &columns, &["copy"], condition);
                if model == "some" {
                    request.definition.select = Some("doc - 'note' as doc, upper(doc->>'id') as upper".into());
                }
                let request = if model == "kept" { materialized(request) } else { request };
                publish_on(&db, &request).await.unwrap();
                let built = refresh_on(&db, &[&format!("{collection}_{model}")], way).await.unwrap();
                assert_eq!(built[0].invalid_values[0].keys, ["invalid"], "{built:?}");
            }
        }
        let pairs = [("whole_all", "short_all"), ("whole_some", "short_some"), ("whole_kept", "short_kept")];
        for pair in pairs {
            assert_eq!(differences(&client, pair).await, 0, "{pair:?}");
            assert!(rows(&client, pair.0).await > 100, "{pair:?}");
        }
        // Changes are derived by key.
        load_both(&db, &files.write("b", stream(2, 300) + "{\"id\":\"wrong\",\"value\":1.5}\n")).await;
        client
            .batch_execute(
                "delete from public.whole where id like 'key-0011%'; delete from public.short where id like 'key-0011%'",
            )
            .await
            .unwrap();
        for model in ["whole_all", "short_all", "whole_some", "short_some"] {
            let changed = refresh_on(&db, &[model], Some("incremental")).await.unwrap();
            assert!(changed[0].rows > 0, "{changed:?}");
            assert_eq!(changed[0].invalid_values[0].keys, ["wrong"], "{changed:?}");
        }
        let both = refresh_on(&db, &["whole_kept", "short_kept"], None).await.unwrap();
        assert_eq!(both.len(), 2);
        for pair in pairs {
            assert_eq!(differences(&client, pair).await, 0, "{pair:?}");
        }
    })
    .await;
}

static WARNED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn hear(_: &CollectionName, warning: &str) {
    WARNED.lock().expect("no test panics while it holds this").push(warning.to_owned());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_ones_own_is_warned_that_documents_are_not_whole() {
    every_build(async |db| {
        let files = Files::new();
        load_both(&db, &files.write("a", Stream::random(&mut fastrand::Rng::with_seed(1), 50, 20).text)).await;
        for (collection, is_warned) in [("whole", false), ("short", true)] {
            let mut request = wanted(collection, &format!("{collection}_model"), &[], &[], None);
            request.definition.materialized = true;
            request.definition.query = Some(format!("select id, doc->>'id' as member from public.{collection}"));
            request.definition.unique = vec!["id".into()];
            let request = PublishRequest { warn: hear, ..request };
            publish_on(&db, &request).await.unwrap();
            refresh_on(&db, &[&format!("{collection}_model")], None).await.unwrap();
            let heard = std::mem::take(&mut *WARNED.lock().unwrap()).join("; ");
            assert_eq!(heard.contains("stored without id"), is_warned, "{collection}: {heard}");
            assert_eq!(heard.contains("jsonb_build_object('id'"), is_warned, "{collection}: {heard}");
        }
    })
    .await;
}
