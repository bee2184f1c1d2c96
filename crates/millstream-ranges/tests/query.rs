//! Ranges out of the rows of a query.

use crate::dirty::DIRTY;
use crate::stored::{built_of, known, stored};
use millstream_ranges::export::{TableOptions, to_table};
use millstream_ranges::input::{InputOptions, query, refuse_repeated_columns, row_queue, send_query};
use millstream_ranges::{BuildRequest, Error, Receipt, Reject};
use millstream_testkit::{Place, each_build};
use std::path::Path;
use tokio_postgres::Client;

/// Builds a store from a query, which keeps these columns; all if none are named.
async fn built(client: Client, store: &Path, sql: &str, keep: &[&str]) -> Result<(Receipt, Vec<Reject>), Error> {
    let keep = keep.iter().map(|name| (*name).to_owned()).collect();
    let options = InputOptions { keep, ..InputOptions::default() };
    refuse_repeated_columns(&client, sql, &options).await?;
    let (sender, rows) = row_queue();
    let input = query(sql.to_owned(), rows, &options)?;
    let request = BuildRequest::new(store.to_owned());
    let building = tokio::task::spawn_blocking(move || built_of(&request, vec![input]));
    send_query(&client, sql, sender).await;
    building.await.unwrap()
}

#[tokio::test]
async fn rows_of_a_query_are_stored() {
    let place = Place::make();
    let generation = stored(place.path("geo"), &place.write("dirty.csv", DIRTY));
    each_build(async |db| {
        let again = place.path(&db.name);
        let client = db.client().await;
        to_table(&client, &generation, &"cities".parse().unwrap(), &TableOptions::default()).await.unwrap();
        let all = "select start, \"end\", doc ->> 'country' as country, doc from cities -- all of them";
        let (receipt, _) = built(client, &again, all, &["country", "doc"]).await.unwrap();
        assert_eq!((receipt.read, receipt.stored), (3, 3));
        let expected = "\"country\":\"AU\",\"doc\":{\"country\": \"AU\"}";
        assert_eq!(known(&again, "1.0.0.7").as_deref(), Some(expected));

        let wrong = built(db.client().await, &again, "select 1 / 0 as ip", &[]).await.unwrap_err();
        assert!(matches!(wrong, Error::Postgres(_)) && wrong.to_string().contains("division by zero"), "{wrong}");
        let twice = "select '1.2.3.4' as ip, 'one' as x, 'two' as x, 'y' as y";
        let refused = built(db.client().await, &again, twice, &[]).await.unwrap_err();
        assert_eq!(refused.to_string(), "the query has two columns \"x\"");
        built(db.client().await, &again, twice, &["y"]).await.unwrap();
        assert_eq!(known(&again, "1.2.3.4").as_deref(), Some("\"y\":\"y\""));
        // A document of type json keeps a member that it has twice.
        let documents = "select '1.2.3.4' as ip, E'{\"a\":\\n1}'::json as doc
                         union all select '1.2.3.5', '{\"a\": [{\"b\": 1, \"b\": 2}]}'::json";
        let (_, rejects) = built(db.client().await, &again, documents, &[]).await.unwrap();
        let reasons: Vec<&str> = rejects.iter().map(|reject| reject.reason.as_str()).collect();
        assert!(matches!(reasons[..], [reason] if reason.contains("the member \"b\" is there twice")), "{reasons:?}");
        assert_eq!(known(&again, "1.2.3.4").as_deref(), Some("\"doc\":{\"a\": 1}"));
    })
    .await;
}
