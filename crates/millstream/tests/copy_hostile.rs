//! Copies as root from servers and machines that lie.

use crate::copy_cluster::Cluster;
use millstream_testkit::{Server, Settings, builds, connect};
use std::fs;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lies_about_a_tablespace_makes_nothing_outside_of_the_copy() {
    for build in builds().await {
        let cluster = Cluster::start(Server::start(build, Settings::default()).await).await;
        let victim = cluster.path("victim");
        fs::create_dir(&victim).unwrap();
        let client = connect(&cluster.server.url("postgres")).await;
        let lies = format!(
            "set allow_system_table_mods = on; \
             alter table pg_catalog.pg_tablespace rename to millstream_hidden; \
             create view pg_catalog.pg_tablespace as \
             select '../../../../../../../../../../../../../../../..{}/evil.sh'::text as oid; \
             create function pg_catalog.pg_tablespace_location(text) returns text language sql as $$ select '{}' $$",
            victim.display(),
            cluster.path("space").display()
        );
        client.batch_execute(&lies).await.unwrap();
        let refused = cluster.copy(&["to", "--tablespace", &cluster.mapping("new")]).ends(2);
        assert!(fs::read_dir(&victim).unwrap().next().is_none(), "{refused:?}");
    }
}
