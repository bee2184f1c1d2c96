//! A record of an experiment: its conditions and every run, as a file.

use super::arm::Arm;
use super::conditions::{Conditions, Request};
use super::experiment::{AGAIN, Experiment};
use super::files::Source;
use crate::core::{Disk, Machine, Outcome, Run, record_file};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the format. Only this one is read.
const FORMAT: u32 = 4;

/// An experiment, as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the format.
    pub format: u32,
    /// When it began, UTC, RFC 3339.
    pub date: String,
    /// The command, without directories and passwords.
    pub argv: Vec<String>,
    /// The version of Millstream that ran it.
    pub version: String,
    /// The machine of the clients, and of the server if that is the lab's own.
    pub machine: Machine,
    /// What was asked, and how it was run.
    pub conditions: Conditions,
    /// Every run, in chronological order.
    pub runs: Vec<Run>,
}

impl Record {
    /// Reads a record: a file, plain or compressed with zstd, or the directory that holds it.
    ///
    /// # Errors
    /// Errors of the disk; [`Error::Record`] if it is no record, another version wrote it, or it is damaged.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let path = record_file::file_of(path);
        let text = record_file::read(&path)?;
        let wrong = |why: String| Error::Record { path: path.clone(), why };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {
                serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
            }
            Some(format) => Err(wrong(format!("its format is {format}, this version reads format {FORMAT}"))),
            None => Err(wrong("it has no format".to_owned())),
        }
    }

    /// Whether an arm has a second turn in each block. Records of earlier versions have none.
    pub(crate) fn has_noise(&self) -> bool {
        let is_first = |arm: &str| self.runs.iter().any(|run| run.arm == arm);
        is_first(AGAIN) || !self.conditions.experiment.arms.iter().all(|arm| is_first(&arm.name))
    }

    /// Blocks in which every arm had its turn.
    pub fn finished_blocks(&self) -> u32 {
        let turns = self.conditions.experiment.arms.len() + usize::from(self.has_noise());
        let runs = |block: u32| self.runs.iter().filter(|run| run.block == block).count();
        (1..).take_while(|block| runs(*block) >= turns).last().unwrap_or(0)
    }

    /// The disk that numbers depend on: that of the lab's own server, else that of the temporary directory.
    pub fn disk(&self) -> &Disk {
        self.conditions.disk.as_ref().unwrap_or(&self.machine.disk)
    }

    /// Writes the record into a directory. A reader sees the old file or the new one, never a part of one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Wrong(error.to_string()))?;
        record_file::write(&(text + "\n"), dir)
    }

    /// The directory and the record of a new run; or those of an earlier one of the same experiment, which may have been
    /// interrupted, or gets more blocks.
    ///
    /// # Errors
    /// The directory holds another run, or cannot be made; the runs are too short for their warm-up.
    pub fn open(
        source: &Source,
        request: &Request,
        conditions: Conditions,
        out: Option<&Path>,
        argv: Vec<String>,
    ) -> Result<(PathBuf, Self), Error> {
        if !conditions.quick {
            source.experiment.check_warm_up(conditions.seconds).map_err(Error::Asked)?;
        }
        let machine = Machine::look(None, &std::env::temp_dir());
        if let Some(dir) = out.filter(|dir| record_file::file_of(dir).exists()) {
            let path = record_file::file_of(dir);
            let taken = |why: &str| Error::Taken { path: path.clone(), why: why.to_owned() };
            let mut found = Self::read(dir)?;
            let earlier = &found.conditions;
            let same = [
                (earlier.experiment.name == source.experiment.name, "another experiment"),
                (earlier.experiment.values == source.experiment.values, "another --set"),
                (names(&earlier.experiment) == names(&source.experiment), "other --arms"),
                (earlier.experiment.data == source.experiment.data, "another --scale-max"),
                (earlier.seed == request.seed, "another --seed"),
                (earlier.experiment == source.experiment, "the experiment's file was different"),
                (earlier.files == source.files, "the scripts were different"),
                (earlier.seconds == conditions.seconds, "runs of another length"),
                (earlier.quick == conditions.quick, "one of them is quick, and no evidence"),
                (earlier.postgres == conditions.postgres, "another --postgres"),
                (earlier.foreign == conditions.foreign, "another --db"),
                (found.machine.kernel == machine.kernel, "another kernel"),
                (found.machine.processor == machine.processor, "another machine"),
            ];
            if let Some((_, why)) = same.iter().find(|(same, _)| !same) {
                return Err(taken(why));
            }
            // Runs that an earlier command accepted stay.
            found.conditions.steal_percent_max = earlier.steal_percent_max.max(conditions.steal_percent_max);
            found.conditions.blocks = found.finished_blocks().max(conditions.blocks);
            // What could not be run may be possible now, for example with another option.
            let chains = source.experiment.chains();
            let good = found.runs.iter().filter(|run| run.measures().is_some());
            let measured: Vec<(u32, String)> = good.map(|run| (run.block, run.arm.clone())).collect();
            found.runs.retain(|run| {
                let holds = |chain: &&Vec<&Arm>, name: &String| chain.iter().any(|arm| arm.name == *name);
                let chain = chains.iter().find(|chain| holds(chain, &run.arm));
                let is_with =
                    |(block, arm): &(u32, String)| *block == run.block && chain.is_some_and(|all| holds(&all, arm));
                !matches!(run.outcome, Outcome::Skipped(_)) || measured.iter().any(is_with)
            });
            return Ok((dir.to_owned(), found));
        }
        let date = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let slug = format!("{}-{}", machine.slug(), source.experiment.name);
        let dir = record_file::new_dir(out, &date, &slug)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let record = Self { format: FORMAT, date, argv, version, machine, conditions, runs: Vec::new() };
        Ok((dir, record))
    }
}

/// The names of an experiment's arms.
fn names(experiment: &Experiment) -> Vec<&str> {
    experiment.arms.iter().map(|arm| arm.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Measures;
    use crate::experiments::{Commands, WarmUp};
    use std::collections::BTreeMap;

    #[test]
    fn every_digit_of_a_number_is_read_as_it_was_written() {
        let mut measures = Measures::default();
        for n in 1..=1_000 {
            measures.set(&n.to_string(), Some(f64::from(n).sqrt() * 1e3));
        }
        measures.set("no number", Some(f64::NAN));
        let read: Measures = serde_json::from_str(&serde_json::to_string(&measures).unwrap()).unwrap();
        assert_eq!((read.values.len(), read), (1_000, measures));
    }

    #[test]
    fn a_finished_record_gets_more_blocks_and_never_fewer() {
        let dir = tempfile::tempdir().unwrap();
        let experiment = Commands::new("true", "false").experiment().unwrap();
        let source = Source { experiment, files: BTreeMap::new() };
        let open = |blocks: u32| {
            let request = Request { blocks: Some(blocks), ..Request::default() };
            Record::open(&source, &request, Conditions::planned(&source, &request), Some(dir.path()), Vec::new())
        };
        let (_, mut record) = open(2).unwrap();
        for (block, arm) in [(1, "a"), (1, "b"), (1, "again"), (2, "a"), (2, "again"), (2, "b"), (3, "a")] {
            let (experiment, factors, arm) = ("commands".to_owned(), BTreeMap::new(), arm.to_owned());
            let outcome = Outcome::Measured(Measures::default());
            record.runs.push(Run { experiment, arm, factors, block, turn: 1, outcome });
        }
        assert_eq!(record.finished_blocks(), 2);
        record.conditions.voids = 7;
        record.conditions.steal_percent_max = 5.0;
        record.write(dir.path()).unwrap();
        let (_, more) = open(5).unwrap();
        assert_eq!((more.conditions.blocks, more.conditions.voids, more.runs.len()), (5, 7, 7));
        assert!(more.conditions.steal_percent_max > 4.9, "runs that were accepted stay");
        assert_eq!(open(1).unwrap().1.conditions.blocks, 2);
        for run in record.runs.iter_mut().filter(|run| run.arm == "b") {
            run.outcome = Outcome::Skipped("not here".to_owned());
        }
        record.write(dir.path()).unwrap();
        let (_, resumed) = open(1).unwrap();
        assert_eq!((resumed.conditions.blocks, resumed.runs.len()), (2, 5), "skipped runs are tried again");
        let other = Request { seconds: Some(9), ..Request::default() };
        let refused = Record::open(&source, &other, Conditions::planned(&source, &other), Some(dir.path()), Vec::new());
        assert!(refused.unwrap_err().to_string().contains("runs of another length"));
        let mut source = source.clone();
        source.experiment.warm_up = WarmUp::Seconds(2.0);
        for (seconds, quick, fits) in [(4, false, true), (3, false, false), (3, true, true)] {
            let (dir, request) =
                (tempfile::tempdir().unwrap(), Request { seconds: Some(seconds), quick, ..Request::default() });
            let conditions = Conditions::planned(&source, &request);
            let opened = Record::open(&source, &request, conditions, Some(&dir.path().join("new")), Vec::new());
            assert_eq!(opened.is_ok(), fits, "{seconds}");
        }
    }
}
