//! Models whose rows would depend on other rows of the collection.

use crate::publish::{publish_on, refresh_on, wanted};
use crate::republish::{number, things};
use millstream_pg::Explained;
use millstream_publish::{PublishRequest, Published};
use millstream_store::Definition;
use millstream_testkit::every_build;

#[tokio::test(flavor = "multi_thread")]
async fn row_wise_models_refuse_expressions_over_several_rows() {
    every_build(async |db| {
        let client = things(&db).await;
        let selecting = |select: &str, materialized: bool| PublishRequest {
            definition: Definition { select: Some(select.into()), materialized, ..Definition::default() },
            ..wanted("things", "model", &[], &[], None)
        };
        for (select, what) in [
            ("doc, row_number() over (order by id) as n", "a window function"),
            ("doc, sum((doc->>'a')::int) over () - 1 as n", "a window function"),
            ("doc, jsonb_object_keys(doc) as name", "a function that returns a set"),
        ] {
            let error = publish_on(&db, &selecting(select, false)).await.expect_err(select);
            assert!(error.to_string().contains(what) && error.hint().is_some(), "{select}: {error}");
        }
        for condition in ["true) limit (5", "true) union select id, doc from public.things where (true"] {
            let odd = wanted("things", "model", &[], &[], Some(condition));
            let error = publish_on(&db, &odd).await.expect_err(condition);
            assert!(error.to_string().contains("each row of a model"), "{condition}: {error}");
        }
        let own = "doc, (select max(name) from jsonb_object_keys(doc) as name) as last,
                   (select count(*) over () from jsonb_object_keys(doc) limit 1) as keys";
        assert_eq!(publish_on(&db, &selecting(own, false)).await.unwrap(), Published::Made);
        refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!(number(&client, "select count(*) from public.model where last = 'id' and keys = 3").await, 300);
        // An existing model cannot be changed to this either.
        let again = publish_on(&db, &selecting("doc, rank() over (order by id) as n", false)).await;
        assert!(again.expect_err("a window function").to_string().contains("a window function"));

        // It is allowed if one statement derives all rows.
        let mut kept = selecting("doc, row_number() over (order by id) as n", true);
        kept.model.table = "kept".into();
        assert_eq!(publish_on(&db, &kept).await.unwrap(), Published::Made);
        refresh_on(&db, &["kept"], None).await.unwrap();
        client.batch_execute("delete from public.things where id = 'k0'").await.unwrap();
        refresh_on(&db, &["kept"], None).await.unwrap();
        assert_eq!(number(&client, "select count(distinct n) * max(n) from public.kept").await, 299 * 299);
    })
    .await;
}
