//! Experiments: the questions that the lab can ask, one file each.

mod course;
mod ingest;
mod rivals;

use crate::bench::Bench;
use crate::data_set::Keys;
use crate::durability::Durability;
use crate::error::Error;
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_BYTES_MIN, DOCUMENTS_MAX, LANES_MAX, ROUNDS_MAX};
use crate::record::Record;
use crate::subject::Subject;
use std::path::PathBuf;

/// A question and how it is answered.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// The question.
    pub about: &'static str,
    /// Names of the subjects, in the order of the report.
    pub subjects: &'static [&'static str],
    /// Waves of documents: new keys, and then the same keys with every document changed.
    pub waves: u32,
    /// What commits promise. Every subject takes a turn with each.
    pub durabilities: &'static [Durability],
    /// Kinds of keys where nothing else is asked for.
    pub keys: &'static [Keys],
    pub(crate) comparison: Comparison,
    /// What the columns of the report mean.
    pub(crate) legend: &'static [&'static str],
}

/// What the ratio of a report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// A subject's rate, divided by that of this one, which has one phase.
    Yardstick(&'static str),
    /// The rate of this subject, divided by the other's in the same phase.
    Leader(&'static str),
}

/// Takes lines about what is going on.
pub type Told<'a> = dyn FnMut(&str) + 'a;

/// Every experiment, by name.
pub const EXPERIMENTS: &[Experiment] = &[ingest::EXPERIMENT, rivals::EXPERIMENT];

/// How large an experiment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Documents of a wave of the smallest size.
    pub documents: u64,
    /// Rounds: samples of each subject and phase.
    pub rounds: u32,
    /// Lengths of documents in bytes; of a larger one there are fewer, so that bytes are about equal.
    pub sizes: Vec<usize>,
    /// Kinds of keys. Where there are several, all but the first are tried on the smallest size only.
    pub keys: Vec<Keys>,
    /// Names of the subjects to measure; empty: all that the experiment has.
    pub subjects: Vec<String>,
    /// Connections of Millstream and of COPY.
    pub lanes: u16,
    /// Seed of data and orders.
    pub seed: u64,
    /// Directory of the record; `None`: one named after day and machine.
    pub out: Option<PathBuf>,
    /// The command as typed, without directories and passwords.
    pub argv: Vec<String>,
}

/// A run that came to its end, and where its record is.
#[derive(Debug)]
pub struct Finished {
    /// Everything measured.
    pub record: Record,
    /// The file that holds it.
    pub path: PathBuf,
}

impl Experiment {
    /// The experiment of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|one| one.name == name)
    }

    /// Runs the experiment. It may be given up at any time by dropping the future; the record on the
    /// disk then holds the rounds that were finished. [`Bench::clear`] is for the caller to call, in
    /// both cases.
    ///
    /// # Errors
    /// What keeps the lab itself from working; a subject's failures are in the record.
    pub async fn run(&self, plan: &Plan, bench: &Bench, told: &mut Told<'_>) -> Result<Finished, Error> {
        plan.check()?;
        let _alive = bench.claim(told).await?;
        course::run(self, plan, bench, told).await
    }

    /// The subjects of these names, in the order of the report; all of them where none is named.
    ///
    /// # Errors
    /// [`Error::Subjects`] for a name that the experiment does not have.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<&'static Subject>, Error> {
        if let Some(other) = names.iter().find(|name| !self.subjects.contains(&name.as_str())) {
            let known = self.subjects.join(", ");
            return Err(Error::Subjects(format!("{} has no subject {other}, only {known}", self.name)));
        }
        let chosen = self.subjects.iter().filter(|name| names.is_empty() || names.iter().any(|one| one == *name));
        Ok(chosen.filter_map(|name| Subject::by_name(name)).collect())
    }
}

impl Plan {
    /// Refuses numbers out of their range.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn check(&self) -> Result<(), Error> {
        let range = |name, given, min, max| match (min..=max).contains(&given) {
            true => Ok(()),
            false => Err(Error::Range { name, given, min, max }),
        };
        range("the number of documents", self.documents, 1, DOCUMENTS_MAX)?;
        range("the number of rounds", self.rounds.into(), 1, ROUNDS_MAX.into())?;
        range("the number of lanes", self.lanes.into(), 1, LANES_MAX.into())?;
        range("the number of sizes", self.sizes.len() as u64, 1, u64::MAX)?;
        range("the number of kinds of keys", self.keys.len() as u64, 1, u64::MAX)?;
        for size in &self.sizes {
            range("a document's size", *size as u64, DOCUMENT_BYTES_MIN as u64, DOCUMENT_BYTES_MAX as u64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_names_of_their_own() {
        for one in EXPERIMENTS {
            assert_eq!(Experiment::by_name(one.name).unwrap().about, one.about);
            assert!(!one.about.is_empty());
            assert_eq!(one.chosen(&[]).unwrap().len(), one.subjects.len(), "{}: every subject is known", one.name);
            let (Comparison::Yardstick(base) | Comparison::Leader(base)) = one.comparison;
            assert!(one.subjects.contains(&base), "{}", one.name);
        }
        assert!(Experiment::by_name("nothing").is_none());
    }

    #[test]
    fn subjects_are_chosen_by_name_and_keep_their_order() {
        let rivals = Experiment::by_name("rivals").unwrap();
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let chosen = rivals.chosen(&names).map_err(|error| error.to_string())?;
            Ok::<_, String>(chosen.iter().map(|subject| subject.name).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&["merge", "millstream"]).unwrap(), ["millstream", "merge"]);
        assert!(chosen(&["merge", "oracle"]).unwrap_err().starts_with("rivals has no subject oracle, only copy, "));
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let plan = Plan {
            documents: 1_000,
            rounds: 1,
            sizes: vec![150],
            keys: vec![Keys::Random],
            subjects: Vec::new(),
            lanes: 2,
            seed: 1,
            out: None,
            argv: Vec::new(),
        };
        assert!(plan.check().is_ok());
        let small = Plan { sizes: vec![150, 20], ..plan.clone() };
        let error = small.check().unwrap_err().to_string();
        assert_eq!(error, format!("a document's size must be from 150 to {DOCUMENT_BYTES_MAX}, not 20"));
        assert!(Plan { documents: 0, ..plan.clone() }.check().is_err());
        assert!(Plan { rounds: 0, ..plan.clone() }.check().is_err());
        assert!(Plan { lanes: 0, ..plan.clone() }.check().is_err());
        assert!(Plan { keys: vec![], ..plan }.check().is_err());
    }
}
