//! The server of an experiment, as far as numbers depend on it.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio_postgres::Client;

/// Version and settings of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Version and build, as `version()` returns them.
    pub version: String,
    /// It is on this machine.
    pub local: bool,
    /// The settings on which durability depends.
    pub durability: BTreeMap<String, String>,
    /// Settings that differ from their defaults, without paths and secrets.
    pub settings: BTreeMap<String, String>,
    /// We may request a checkpoint before each sample.
    pub checkpoints: bool,
}

/// Settings that must be on for a commit to survive a power failure.
const DURABILITY: &[&str] = &["fsync", "full_page_writes", "synchronous_commit"];

impl Server {
    /// Asks a server.
    ///
    /// # Errors
    /// The server's.
    pub async fn ask(client: &Client, local: bool) -> Result<Self, Error> {
        let version = client.query_one("select version()", &[]).await?.get(0);
        let pairs = client.query(include_str!("settings.sql"), &[]).await?;
        let settings = pairs.iter().map(|row| (row.get("name"), row.get("value"))).collect();
        let mut durability = BTreeMap::new();
        for name in DURABILITY {
            let value = client.query_one("select current_setting($1)", &[name]).await?.get(0);
            durability.insert((*name).to_owned(), value);
        }
        let checkpoints = client.batch_execute("checkpoint").await.is_ok();
        Ok(Self { version, local, durability, settings, checkpoints })
    }

    /// Whether all settings on which durability depends are on.
    pub fn is_durable(&self) -> bool {
        self.durability.values().all(|value| value == "on")
    }
}

/// The server's data directory, if we may read the setting.
pub(crate) async fn data_directory(client: &Client) -> Option<PathBuf> {
    let row = client.query_one("select current_setting('data_directory')", &[]).await.ok()?;
    Some(PathBuf::from(row.get::<_, String>(0)))
}
