//! A MongoDB server: what it says of itself and of a collection, as `mongo_upsert.py` prints it.

use crate::limits::MEBIBYTE;
use serde_json::Value;
use std::fmt::{Display, Formatter, Result};

const CPU_MICROSECONDS: [&str; 2] = ["extra_info.user_time_us", "extra_info.system_time_us"];
const STORE_BYTES: [&str; 2] = ["storageSize", "totalIndexSize"];

/// What a server said. What it refused to say, or does not know, is `None`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MongoServer {
    version: Option<String>,
    storage_engine: Option<String>,
    /// Largest size of the storage engine's cache.
    cache_bytes: Option<f64>,
    /// Whether it keeps a journal.
    journal: Option<bool>,
    /// Processor time of the server before the checkpoint, user and system.
    pub(crate) cpu_seconds: Option<f64>,
    /// The same after the checkpoint.
    pub(crate) cpu_seconds_after_checkpoint: Option<f64>,
    /// Bytes on disk of the collection's data and indexes, compressed as they are.
    pub(crate) store_bytes: Option<f64>,
}

impl MongoServer {
    /// Reads the answers, each a list of what stands at which path.
    ///
    /// `extra_info` is what `getrusage` says of the server, on Linux. A journal cannot be switched off since 6.1, and
    /// before it is on unless the configuration says otherwise.
    pub(crate) fn of(answers: &Value) -> Self {
        let at = |command: &str, path: &str| answers.get(command)?.get(path);
        let text = |command, path| at(command, path).and_then(Value::as_str).map(str::to_owned);
        let number = |command, path| at(command, path).and_then(Value::as_f64);
        let sum = |command: &'static str, [one, other]: [&'static str; 2]| {
            Some(number(command, one)? + number(command, other)?)
        };
        let cpu_seconds = |command: &'static str| Some(sum(command, CPU_MICROSECONDS)? / 1e6);
        let options = answers.get("getCmdLineOpts").filter(|options| options.is_object());
        let journal = options.map(|options| options.get("parsed.storage.journal.enabled").and_then(Value::as_bool));
        Self {
            version: text("buildInfo", "version"),
            storage_engine: text("serverStatus", "storageEngine.name"),
            cache_bytes: number("serverStatus", "wiredTiger.cache.maximum bytes configured"),
            journal: journal.map(|enabled| enabled.unwrap_or(true)),
            cpu_seconds: cpu_seconds("serverStatus"),
            cpu_seconds_after_checkpoint: cpu_seconds("serverStatus after fsync"),
            store_bytes: sum("collStats", STORE_BYTES),
        }
    }
}

/// Its version and settings, in a line for the record.
impl Display for MongoServer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let cache = self.cache_bytes.map_or_else(|| "unknown".to_owned(), |n| format!("{:.0} MiB", n / MEBIBYTE));
        let journal = self.journal.map_or("unknown", |on| if on { "on" } else { "off" });
        let (version, engine) = (unknown(&self.version), unknown(&self.storage_engine));
        write!(f, "MongoDB {version}; storage engine {engine}, cache {cache}, journal {journal}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answers() -> Value {
        json!({
            "buildInfo": {"version": "8.0.4"},
            "getCmdLineOpts": {"parsed.storage.journal.enabled": null},
            "serverStatus": {
                "storageEngine.name": "wiredTiger",
                "wiredTiger.cache.maximum bytes configured": 1_073_741_824_u64,
                "extra_info.user_time_us": 1_500_000,
                "extra_info.system_time_us": 250_000,
            },
            "collStats": {"storageSize": 4096, "totalIndexSize": 1024},
            "serverStatus after fsync": {"extra_info.user_time_us": 2_000_000, "extra_info.system_time_us": 500_000},
        })
    }

    #[test]
    fn a_server_that_answers_is_described() {
        let server = MongoServer::of(&answers());
        let line = "MongoDB 8.0.4; storage engine wiredTiger, cache 1024 MiB, journal on";
        assert_eq!(server.to_string(), line);
        assert_eq!((server.cpu_seconds, server.cpu_seconds_after_checkpoint), (Some(1.75), Some(2.5)));
        assert_eq!(server.store_bytes, Some(5_120.0));
        let mut old = answers();
        old["getCmdLineOpts"]["parsed.storage.journal.enabled"] = false.into();
        assert!(MongoServer::of(&old).to_string().ends_with("journal off"));
    }

    #[test]
    fn what_a_server_refuses_is_unknown() {
        let mut some = answers();
        for command in ["serverStatus", "getCmdLineOpts", "collStats"] {
            some[command] = Value::Null;
        }
        let server = MongoServer::of(&some);
        let line = "MongoDB 8.0.4; storage engine unknown, cache unknown, journal unknown";
        assert_eq!(server.to_string(), line);
        assert_eq!((server.cpu_seconds, server.store_bytes), (None, None));
        let mut half = answers();
        half["serverStatus"]["extra_info.user_time_us"] = Value::Null;
        assert_eq!(MongoServer::of(&half).cpu_seconds, None, "half of it would be a wrong number");
    }
}
