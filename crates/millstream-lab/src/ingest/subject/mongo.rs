//! The same documents into MongoDB, if one is named: by `mongoimport`, and by bulk writes through pymongo.

use super::{Store, Subject, Trait, Trial};
use crate::error::Error;
use crate::ingest::bench::State;
use crate::ingest::durability::Durability;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use crate::ingest::tool::{MONGOIMPORT, PYMONGO};
use millstream_host::Command;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The start of every document, and its replacement for MongoDB: the key becomes `_id`, the only index.
const KEY: (&[u8], &[u8]) = (b"{\"id\":", b"{\"_id\":");

pub(crate) const IMPORT: Subject = Subject {
    name: "mongoimport",
    about: "mongoimport --mode upsert: one worker, batches of 1000",
    store: Store::Mongo,
    traits: &[Trait::Optional],
    tools: &[&PYMONGO, &MONGOIMPORT],
    run: |trial, phase, table| Box::pin(import(trial, phase, table)),
};

pub(crate) const BULK_WRITE: Subject = Subject {
    name: "bulkwrite",
    about: "Python, pymongo: unordered bulk_write of 1000 upserts each, 8 processes with a connection each",
    tools: &[&PYMONGO],
    run: |trial, phase, table| Box::pin(bulk_write(trial, phase, table)),
    ..IMPORT
};

async fn import(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let file = converted(trial, &IMPORT, phase)?;
    let uri = trial.bench.ground.mongo_uri.as_deref().unwrap_or_default();
    // Not as an argument, because other users can read those. JSON is YAML.
    let config = trial.bench.script("mongoimport.yaml", &format!("uri: {}\n", serde_json::Value::from(uri)))?;
    let journal = trial.durability == Durability::Durable;
    let mut command = Command::new(trial.tools.program(&MONGOIMPORT)?);
    command.arg("--config").arg(config).args(["--db", &trial.bench.schema, "--collection", table]);
    command.arg("--file").arg(&file).args(["--type", "json", "--mode", "upsert", "--quiet"]);
    command.args(["--writeConcern", &format!("{{\"w\":1,\"j\":{journal}}}")]);
    let timing = trial.bench.run(IMPORT.name, &mut command).await;
    std::fs::remove_file(&file).map_err(Error::io("remove", &file))?;
    timing
}

async fn bulk_write(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let file = converted(trial, &BULK_WRITE, phase)?;
    let mut command = trial.bench.mongo_script(trial.tools.program(&PYMONGO)?, "bulkwrite")?;
    command.args([table, trial.durability.name()]).arg(&file);
    let timing = trial.bench.run(BULK_WRITE.name, &mut command).await;
    std::fs::remove_file(&file).map_err(Error::io("remove", &file))?;
    timing
}

/// What a collection holds. A document's key is its `_id`, so no document can be under another key.
pub(super) async fn state(trial: &Trial<'_>, table: &str) -> Result<State, Error> {
    let mut command = trial.bench.mongo_script(trial.tools.program(&PYMONGO)?, "state")?;
    let timing = trial.bench.run(BULK_WRITE.name, command.arg(table)).await?;
    let state = timing.receipt.and_then(|state| {
        let rows = state.get("rows")?.as_u64()?;
        Some(State { rows, sum: state.get("sum")?.as_str()?.to_owned(), misplaced: 0 })
    });
    state.ok_or_else(|| Error::Wrong("MongoDB did not say what it holds".to_owned()))
}

/// Writes the documents of a phase with their key as `_id`.
fn converted(trial: &Trial<'_>, subject: &Subject, phase: &Phase) -> Result<PathBuf, Error> {
    let (from, _) = trial.input(subject, phase);
    let to = trial.bench.file("mongo.ndjson");
    convert(from, &to)?;
    Ok(to)
}

fn convert(from: &Path, to: &Path) -> Result<(), Error> {
    let mut reader = BufReader::new(File::open(from).map_err(Error::io("read", from))?);
    let mut writer = BufWriter::new(File::create(to).map_err(Error::io("write", to))?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(Error::io("read", from))? > 0 {
        let rest = line.strip_prefix(KEY.0).ok_or_else(|| Error::Wrong("a document without key".to_owned()))?;
        writer.write_all(KEY.1).and_then(|()| writer.write_all(rest)).map_err(Error::io("write", to))?;
        line.clear();
    }
    writer.flush().map_err(Error::io("write", to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{DataSet, Keys};
    use crate::ingest::stream::{Ledger, Stream};

    #[test]
    fn conversion_only_renames_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let set = DataSet::new("x", Keys::Random, 150, 100, 150, 1);
        Stream::wave(1).write(&set, &mut Ledger::default(), &from).unwrap();
        convert(&from, &to).unwrap();
        let values = |path: &Path| -> Vec<serde_json::Value> {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let mut expected = values(&from);
        assert_eq!(expected.len(), 100);
        for one in &mut expected {
            let id = one.as_object_mut().unwrap().remove("id").unwrap();
            one["_id"] = id;
        }
        assert_eq!(values(&to), expected);
    }
}
