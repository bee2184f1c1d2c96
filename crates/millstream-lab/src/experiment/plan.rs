//! A plan: the size of the experiments of a run.

use super::{Experiment, Scale, growth};
use crate::data_set::{DataSet, Keys};
use crate::error::Error;
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_BYTES_MIN, DOCUMENTS_MAX, GROWN_ROWS_MIN, LANES_MAX, ROUNDS_MAX};
use std::path::PathBuf;

/// The size of the experiments of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Documents of a wave, if they have [`DOCUMENT_BYTES_MIN`] bytes each. Data sets of larger documents have fewer,
    /// so that their bytes are about equal.
    pub documents: u64,
    /// Rows to which the table of `growth` grows.
    pub grown_rows: u64,
    /// Rows of the read models of `refresh`.
    pub read_rows: u64,
    /// Rows of the larger table of `distinct`.
    pub walked_rows: u64,
    /// Rounds: samples of each subject and phase.
    pub rounds: u32,
    /// Lengths of documents in bytes; if empty, those of the experiment.
    pub sizes: Vec<usize>,
    /// Kinds of keys; if empty, those of the experiment. All but the first are measured with the smallest size only.
    pub keys: Vec<Keys>,
    /// Names of the subjects to measure; if empty, all that the experiments have.
    pub subjects: Vec<String>,
    /// Connections of Millstream and of COPY.
    pub lanes: u16,
    /// Seed of data and orders.
    pub seed: u64,
    /// Directory of the record; `None` for one named after day and machine.
    pub out: Option<PathBuf>,
    /// The command as typed, without directories and passwords.
    pub argv: Vec<String>,
}

impl Plan {
    /// Checks that all numbers are in their range.
    ///
    /// # Errors
    /// [`Error::Range`] for the first number that is not.
    pub fn check(&self) -> Result<(), Error> {
        let range = |name, given, min, max| match (min..=max).contains(&given) {
            true => Ok(()),
            false => Err(Error::Range { name, given, min, max }),
        };
        range("the number of documents", self.documents, 1, DOCUMENTS_MAX)?;
        range("the number of rows to grow to", self.grown_rows, GROWN_ROWS_MIN, DOCUMENTS_MAX / 2)?;
        range("the number of rows of a read model", self.read_rows, GROWN_ROWS_MIN, DOCUMENTS_MAX)?;
        range("the number of rows to walk", self.walked_rows, GROWN_ROWS_MIN, DOCUMENTS_MAX)?;
        range("the number of rounds", self.rounds.into(), 1, ROUNDS_MAX.into())?;
        range("the number of lanes", self.lanes.into(), 1, LANES_MAX.into())?;
        for size in &self.sizes {
            range("a document's size", *size as u64, DOCUMENT_BYTES_MIN as u64, DOCUMENT_BYTES_MAX as u64)?;
        }
        Ok(())
    }

    /// The data sets of an experiment: every size with the first kind of key, and the smallest size with the other
    /// kinds.
    pub(crate) fn data_sets(&self, experiment: &Experiment) -> Vec<DataSet> {
        let or = |given: &[usize]| if given.is_empty() { experiment.sizes.to_vec() } else { given.to_vec() };
        let mut sizes = or(&self.sizes);
        sizes.sort_unstable();
        sizes.dedup();
        let keys = if self.keys.is_empty() { experiment.keys } else { &self.keys };
        let documents = match experiment.scale {
            Scale::Documents => self.documents,
            Scale::Read => self.read_rows,
            Scale::Walked => self.walked_rows,
            Scale::Grown => self.grown_rows * growth::PIECES / growth::GROWN,
        };
        let rounds = Some(experiment.rounds(self.rounds));
        let make = |keys, bytes| DataSet {
            rounds,
            ..DataSet::new(experiment.name, keys, bytes, documents, DOCUMENT_BYTES_MIN, self.seed)
        };
        let smallest = keys.iter().map(|keys| make(*keys, sizes[0]));
        let larger = sizes[1..].iter().map(|bytes| make(keys[0], *bytes));
        smallest.chain(larger).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_set::KEYS;

    fn plan() -> Plan {
        Plan {
            documents: 1_000_000,
            grown_rows: 20_000_000,
            read_rows: 5_000_000,
            walked_rows: 10_000_000,
            rounds: 1,
            sizes: Vec::new(),
            keys: Vec::new(),
            subjects: Vec::new(),
            lanes: 2,
            seed: 1,
            out: None,
            argv: Vec::new(),
        }
    }

    #[test]
    fn the_smallest_size_has_every_kind_of_key_and_larger_ones_the_first() {
        let names = |plan: &Plan, experiment: &str| -> Vec<String> {
            let sets = plan.data_sets(Experiment::by_name(experiment).unwrap());
            sets.into_iter().map(|set| set.name).collect()
        };
        assert_eq!(names(&plan(), "ingest"), ["random-150", "sequential-150", "random-2048", "random-20480"]);
        assert_eq!(names(&plan(), "hot"), ["random-150"]);
        let other = Plan { sizes: vec![2_048, 150, 150], keys: KEYS.to_vec(), ..plan() };
        assert_eq!(names(&other, "hot"), ["random-150", "sequential-150", "random-2048"]);
    }

    #[test]
    fn large_documents_stay_few_without_smaller_ones() {
        for sizes in [vec![16 << 20], vec![150, 16 << 20]] {
            let sets = Plan { sizes, ..plan() }.data_sets(Experiment::by_name("memory").unwrap());
            let largest = sets.last().unwrap();
            assert!(largest.documents < 40 && largest.source_bytes() < 700_000_000, "{largest:?}");
        }
    }

    #[test]
    fn a_table_that_grows_has_room_for_its_last_phase() {
        let sets = plan().data_sets(Experiment::by_name("growth").unwrap());
        assert_eq!((sets.len(), sets[0].documents), (1, 22_000_000));
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        assert!(plan().check().is_ok());
        let small = Plan { sizes: vec![150, 20], ..plan() };
        let error = small.check().unwrap_err().to_string();
        assert_eq!(error, format!("a document's size must be from 150 to {DOCUMENT_BYTES_MAX}, not 20"));
        assert!(Plan { documents: 0, ..plan() }.check().is_err());
        assert!(Plan { read_rows: 10, ..plan() }.check().is_err());
        assert!(Plan { walked_rows: 10, ..plan() }.check().is_err());
        assert!(Plan { grown_rows: 10, ..plan() }.check().is_err());
        assert!(Plan { rounds: 0, ..plan() }.check().is_err());
        assert!(Plan { lanes: 0, ..plan() }.check().is_err());
    }
}
