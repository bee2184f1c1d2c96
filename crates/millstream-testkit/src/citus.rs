//! A cluster of Citus: a coordinator and its workers, in the database `postgres` of each.

use crate::build::{Build, account};
use crate::database::connect;
use crate::kernel_package::seldom;
use crate::server::{Server, Settings};
use millstream_local::{Installation, Origin};
use tokio_postgres::Client;

/// The cluster. It ends with this value.
#[derive(Debug)]
pub struct CitusCluster {
    /// The server that distributes tables. It has no shards itself.
    pub coordinator: Server,
    /// The servers that have shards.
    pub workers: Vec<Server>,
}

/// Connections between nodes are without TLS and without a password. Moves need logical decoding.
const CONF: [&str; 4] = [
    "shared_preload_libraries = 'citus'",
    "citus.node_conninfo = 'sslmode=disable'",
    "wal_level = logical",
    "max_prepared_transactions = 100",
];
const HBA: &str = "host all all 127.0.0.1/32 trust";

impl CitusCluster {
    /// Starts one, with the programs in the directory that `MILLSTREAM_TEST_CITUS` names. `None` without one, also where a
    /// test that is skipped fails: no package has Citus, and to build it takes minutes.
    ///
    /// # Panics
    /// If a server does not start, or does not join.
    pub async fn start(workers: usize) -> Option<Self> {
        let bin = seldom("MILLSTREAM_TEST_CITUS", "directory with the programs of a server that has Citus")?;
        let installation = Installation::open(&bin, Origin::Installed, &account());
        let installation = installation.unwrap_or_else(|error| panic!("{error}"));
        // As the builds that all tests share, it lives as long as the process.
        let build: &'static Build = Box::leak(Box::new(Build { installation }));
        let coordinator = node(build).await;
        let mut cluster = Self { coordinator, workers: Vec::new() };
        for _ in 0..workers {
            cluster.workers.push(node(build).await);
        }
        let client = cluster.client().await;
        let host = "select citus_set_coordinator_host('127.0.0.1', $1)";
        client.execute(host, &[&i32::from(cluster.coordinator.port())]).await.expect("the coordinator knows itself");
        for worker in &cluster.workers {
            let add = "select citus_add_node('127.0.0.1', $1)";
            client.execute(add, &[&i32::from(worker.port())]).await.expect("a worker joins");
        }
        Some(cluster)
    }

    /// URL of the coordinator.
    pub fn url(&self) -> String {
        self.coordinator.url("postgres")
    }

    /// A new connection to the coordinator.
    pub async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// The numbers of the shards of a table, in the order of their hashes, each with the port of its node.
    ///
    /// # Panics
    /// If there is no such table.
    pub async fn shards(&self, table: &str) -> Vec<(i64, u16)> {
        let sql = "select s.shardid, n.nodeport from pg_dist_shard s join pg_dist_placement using (shardid)
                   join pg_dist_node n using (groupid) where s.logicalrelid = $1::text::regclass
                   order by s.shardminvalue::integer";
        let rows = self.client().await.query(sql, &[&table]).await.expect("shards can be listed");
        let port = |port: i32| u16::try_from(port).expect("a port");
        rows.iter().map(|row| (row.get(0), port(row.get(1)))).collect()
    }

    /// Moves a shard to another worker, in this mode, such as `block_writes`.
    ///
    /// # Panics
    /// If there is no other worker, or the move fails.
    pub async fn move_shard(&self, table: &str, shard: i64, mode: &str) {
        let (_, from) =
            self.shards(table).await.into_iter().find(|(id, _)| *id == shard).expect("a shard of the table");
        let to = self.workers.iter().map(Server::port).find(|port| *port != from).expect("another worker");
        let sql = "select citus_move_shard_placement($1, '127.0.0.1', $2, '127.0.0.1', $3, $4::text::\
                   citus.shard_transfer_mode)";
        let ports = [from, to].map(i32::from);
        let client = self.client().await;
        client.execute(sql, &[&shard, &ports[0], &ports[1], &mode]).await.expect("the shard is moved");
    }
}

async fn node(build: &'static Build) -> Server {
    let conf = CONF.iter().map(|line| (*line).to_owned()).collect();
    let server = Server::start(build, Settings { hba: vec![HBA.to_owned()], conf, ..Settings::default() }).await;
    let client = connect(&server.url("postgres")).await;
    client.batch_execute("create extension citus").await.expect("the server has Citus");
    server
}
