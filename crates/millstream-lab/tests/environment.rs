//! What a record keeps of a server and its machine.

use millstream_lab::Environment;
use millstream_testkit::each_build;

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_of_every_version_holds_no_place_and_no_secret() {
    each_build(async |database| {
        let (client, data) = (database.client().await, database.server.data());
        let found = Environment::look(Some(&data), &client).await.unwrap();
        assert!(found.sections["server"]["version"].starts_with("PostgreSQL "), "{found:?}");
        assert_eq!(found.sections["settings"]["shared_buffers"], "64MB");
        assert!(!found.sections["settings"].contains_key("work_mem"), "a default: {found:?}");
        let text = serde_json::to_string(&found).unwrap();
        for private in [data.to_str().unwrap(), database.server.password(), &database.server.port().to_string()] {
            assert!(!text.contains(private), "{private} in {text}");
        }
    })
    .await;
}
