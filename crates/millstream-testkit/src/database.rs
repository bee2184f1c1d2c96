//! A separate database for every test.

use crate::build::{Build, build_with, builds, dealt_builds_with, default_build};
use crate::cases::dealt;
use crate::feature::Feature;
use crate::server::{Server, shared};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::{Client, NoTls};

/// What [`TestDatabase::plant_decoys`] runs, for a database that something else makes.
pub const DECOYS: &str = include_str!("decoys.sql");

/// A fresh, empty database. It disappears with the server when the process ends.
#[derive(Debug, Clone)]
pub struct TestDatabase {
    /// Its name.
    pub name: String,
    /// The server that it is on, shared with other tests.
    pub server: &'static Server,
}

impl TestDatabase {
    /// URL over TCP, as superuser.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// URL over the unix socket, as superuser, without password.
    pub fn socket_url(&self) -> String {
        self.server.socket_url(&self.name)
    }

    /// A new connection as superuser.
    pub async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// Makes operators and functions in the schema public that fail when they are called. A statement finds them instead
    /// of PostgreSQL's own, unless it names those by their schema or gives them exactly their types.
    ///
    /// # Panics
    /// If the server refuses them.
    pub async fn plant_decoys(&self) {
        let planted = self.client().await.batch_execute(DECOYS).await;
        planted.unwrap_or_else(|error| panic!("decoys: {error:?}"));
    }

    /// The build of its server.
    pub fn build(&self) -> &'static Build {
        self.server.build()
    }
}

/// Connects, and drives the connection by a task on the current runtime.
///
/// # Panics
/// If it cannot connect.
pub async fn connect(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.unwrap_or_else(|error| panic!("cannot connect: {error:?}"));
    // If a test kills its server, its client gets the error.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

/// A fresh database on the default build.
pub async fn database() -> TestDatabase {
    database_on(default_build().await).await
}

/// A fresh database on the first build that has all of these features; `None` (after [`crate::skip`]) if none has.
pub async fn database_with(features: &[Feature]) -> Option<TestDatabase> {
    Some(database_on(build_with(features).await?).await)
}

/// A fresh database on that build.
pub async fn database_on(build: &'static Build) -> TestDatabase {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let server = shared(build).await;
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let client = connect(&server.url("postgres")).await;
    let create = format!("create database {name} template template0");
    client.batch_execute(&create).await.unwrap_or_else(|error| panic!("{create}: {error:?}"));
    TestDatabase { name, server }
}

/// Runs a test with a fresh database on the build that [`dealt_builds`] chooses for it, and prints the build.
pub async fn each_build<F>(mut test: F)
where
    F: AsyncFnMut(TestDatabase),
{
    each_build_with(&[], async |db| test(db).await).await;
}

/// The same on one of those builds that have all of these features. If none has, after [`crate::skip`].
pub async fn each_build_with<F>(features: &[Feature], mut test: F)
where
    F: AsyncFnMut(TestDatabase),
{
    for build in dealt_builds_with(features).await {
        println!("on {}", build.installation);
        test(database_on(build).await).await;
    }
}

/// Runs a test once on every build, with a fresh database each time, and prints the build: for SQL that depends on the
/// version.
pub async fn every_build<F>(mut test: F)
where
    F: AsyncFnMut(TestDatabase),
{
    every_build_dealing([()], async |db, _| test(db).await).await;
}

/// The same for similar cases, which the builds share as [`dealt`] says. If there is one case, every build gets it.
pub async fn every_build_dealing<T, F>(all: impl IntoIterator<Item = T>, mut test: F)
where
    T: Clone,
    F: AsyncFnMut(TestDatabase, Vec<T>),
{
    let (all, builds): (Vec<T>, _) = (all.into_iter().collect(), builds().await);
    for (hand, build) in builds.iter().enumerate() {
        println!("on {}", build.installation);
        let hands = if all.len() > 1 { builds.len() } else { 1 };
        test(database_on(build).await, dealt(all.clone(), hand, hands)).await;
    }
}
