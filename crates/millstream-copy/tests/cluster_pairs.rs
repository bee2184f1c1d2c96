//! Every ordered pair of copies of a cluster: the second one is refused, or both are sound.

use crate::cluster::Cluster;
use crate::place::said;
use millstream_copy::ClusterReceipt;
use millstream_testkit::{Server, SshServer, StopMode, builds, connect, dealt};
use std::path::Path;

/// How a copy reaches its destination.
#[derive(Debug, Clone, Copy)]
enum Way {
    Here,
    /// Over ssh.
    There,
}

/// What the second copy has in common with the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Same,
    Other,
}

use Place::{Other, Same};

/// A pair of copies, whatever their ways are.
#[derive(Debug)]
struct Pair {
    /// Whether a server runs on the first one.
    runs: bool,
    destination: Place,
    /// Of the tablespace.
    target: Place,
    /// What the second one is refused for. Else both are sound.
    refused: Option<&'static str>,
}

/// In this order, a first copy is as it was made until the second one takes its place.
const PAIRS: [Pair; 8] = [
    pair(false, Other, Same, Some("belongs to another copy of this cluster")),
    pair(false, Other, Other, None),
    pair(false, Same, Same, None),
    pair(false, Same, Other, None),
    pair(true, Same, Same, Some("a server runs in")),
    pair(true, Same, Other, Some("a server runs in")),
    pair(true, Other, Same, Some("belongs to another copy of this cluster")),
    pair(true, Other, Other, None),
];

const fn pair(runs: bool, destination: Place, target: Place, refused: Option<&'static str>) -> Pair {
    Pair { runs, destination, target, refused }
}

/// A first copy, and the second ones that are tried beside it.
struct Course<'a> {
    cluster: &'a Cluster,
    shell: Option<&'a str>,
    way: Way,
    first: Server,
    /// The folder of its tablespace.
    target: String,
    /// Rows of the table in the tablespace, on the first copy if a server runs there.
    own_rows: Option<i64>,
    tried: usize,
}

async fn rows(server: &Server) -> i64 {
    let client = connect(&server.url("postgres")).await;
    client.query_one("select count(*) from in_space", &[]).await.unwrap().get(0)
}

async fn insert(server: &Server, count: i32) {
    let client = connect(&server.url("postgres")).await;
    client.execute("insert into in_space select n from generate_series(1, $1) n", &[&count]).await.unwrap();
    client.batch_execute("checkpoint").await.unwrap();
}

/// Asserts that a copy is whole and that a server which starts on it has the rows of the original, and ends the server.
async fn is_sound(cluster: &Cluster, copy: &mut Server) {
    cluster.is_verified(&copy.data());
    copy.start_copy().await;
    assert_eq!(rows(copy).await, rows(&cluster.server).await);
    copy.stop(StopMode::Fast).await;
}

impl<'a> Course<'a> {
    async fn begin(cluster: &'a Cluster, shell: Option<&'a str>, way: Way) -> Self {
        let (first, target) = (cluster.server.without_data(), format!("target-of-{way:?}"));
        let course = Self { cluster, shell, way, first, target, own_rows: None, tried: 0 };
        course.copy(way, &course.first.data(), &course.target).await.unwrap();
        course
    }

    /// Copies the cluster, or says why it is refused.
    async fn copy(&self, way: Way, data: &Path, target: &str) -> Result<ClusterReceipt, String> {
        let (url, mapping) = (self.cluster.server.socket_url("postgres"), self.cluster.mapping(target));
        let copied = match (way, self.shell) {
            (Way::There, Some(shell)) => {
                let there = format!("127.0.0.1:{}", data.display());
                self.cluster.copied(&url, &there, &[&mapping, shell]).await
            }
            _ => self.cluster.copied(&url, data.to_str().unwrap(), &[&mapping]).await,
        };
        copied.map_err(|error| said(&error))
    }

    /// Asserts that nobody has touched the first copy.
    async fn first_is_kept(&self) {
        match self.own_rows {
            Some(own) => assert_eq!(rows(&self.first).await, own),
            None => self.cluster.is_verified(&self.first.data()),
        }
    }

    /// Tries a second copy.
    async fn second(&mut self, pair: &Pair, way: Way) {
        self.tried += 1;
        if pair.runs && self.own_rows.is_none() {
            self.first.start_copy().await;
            insert(&self.first, 500).await;
            self.own_rows = Some(rows(&self.first).await);
        }
        insert(&self.cluster.server, 1).await;
        let mut other = self.cluster.server.without_data();
        let data = if pair.destination == Same { self.first.data() } else { other.data() };
        let target = match pair.target {
            Same => self.target.clone(),
            Other => format!("target-of-{:?}-{}", self.way, self.tried),
        };
        let second = self.copy(way, &data, &target).await;
        if let Some(says) = pair.refused {
            assert!(second.as_ref().is_err_and(|refused| refused.contains(says)), "{pair:?}, {way:?}: {second:?}");
            return self.first_is_kept().await;
        }
        second.unwrap_or_else(|refused| panic!("{pair:?}, {way:?}: {refused}"));
        if pair.destination == Same {
            self.target = target;
            is_sound(self.cluster, &mut self.first).await;
        } else {
            self.first_is_kept().await;
            is_sound(self.cluster, &mut other).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_copies_the_second_is_refused_or_both_are_sound() {
    let ssh = SshServer::start();
    let shell = ssh.as_ref().map(|ssh| format!("shell={}", ssh.shell(ssh.port())));
    let ways = if shell.is_some() { vec![Way::Here, Way::There] } else { vec![Way::Here] };
    let builds = builds().await;
    for (hand, build) in builds.iter().enumerate() {
        let firsts = dealt(ways.clone(), hand, builds.len());
        if firsts.is_empty() {
            continue;
        }
        let cluster = Cluster::start(build).await;
        for first in firsts {
            let mut course = Course::begin(&cluster, shell.as_deref(), first).await;
            for pair in &PAIRS {
                for second in &ways {
                    course.second(pair, *second).await;
                }
            }
        }
    }
}
