//! Read models by the command.

use crate::process::millstream;
use millstream_testkit::each_build;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_published_refreshed_listed_and_removed() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.ndjson");
        std::fs::write(&file, "{\"id\":1,\"price\":2.5}\n{\"id\":2,\"price\":\"dear\"}\n{\"id\":3,\"price\":7}\n")
            .unwrap();
        let url = db.url();
        let run = |args: &[&str], code: i32| {
            let run = millstream(&[args, &["--db", &url]].concat()).ends(code);
            (run.stdout, run.stderr)
        };
        run(&["load", file.to_str().unwrap(), "--into", "public.offers", "--key", "id:bigint"], 0);
        let publish =
            ["publish", "offers", "--as", "offers_read", "--column", "price:numeric=price", "--index", "price"];
        let (built, _) = run(&publish, 0);
        assert!(built.starts_with("offers_read: 3 rows by swap in "), "{built}");
        assert!(built.contains("price: null for 1 document whose value is no numeric, such as 2"), "{built}");

        let client = db.client().await;
        let dear = "select count(*) from public.offers_read where price > 3";
        assert_eq!(client.query_one(dear, &[]).await.unwrap().get::<_, i64>(0), 1);
        client
            .batch_execute("analyze public.offers; update public.offers set doc = '{\"price\": 9}' where id = 1")
            .await
            .unwrap();
        let (dry, _) = run(&["refresh", "offers_read", "--dry-run", "--way", "incremental"], 0);
        assert!(dry.contains("incremental") && dry.contains("it was asked for"), "{dry}");
        let (changed, _) = run(&["refresh", "offers_read", "--way", "incremental", "--output", "json"], 0);
        let changed: Value = serde_json::from_str(&changed).unwrap();
        assert_eq!((&changed[0]["way"], &changed[0]["rows"]), (&"incremental".into(), &1.into()), "{changed}");
        assert_eq!(client.query_one(dear, &[]).await.unwrap().get::<_, i64>(0), 2);

        let (listed, _) = run(&["models"], 0);
        assert!(listed.contains("offers_read") && listed.contains("offers") && listed.contains("(price)"), "{listed}");
        let (_, refused) = run(&["drop", "offers", "--yes"], 2);
        assert!(refused.contains("millstream unpublish offers_read"), "{refused}");
        let (_, wrong) = run(&["publish", "offers", "--as", "other", "--index", "no_such("], 2);
        assert!(wrong.contains("the server refuses index \"no_such(\""), "{wrong}");
        run(&["unpublish", "offers_read"], 0);
        run(&["refresh", "offers_read"], 2);
        let (_, none) = run(&["models"], 0);
        assert!(none.contains("no models yet"), "{none}");
        run(&["drop", "offers", "--yes"], 0);
    })
    .await;
}
