//! A plan: the size of the experiments of a run.

use super::{Experiment, SCALES, Scale};
use crate::core::{DataSet, Keys};
use crate::error::Error;
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_BYTES_MIN, LANES_MAX, ROUNDS_MAX};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The size of the experiments of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Documents or rows of each scale, if a document has [`DOCUMENT_BYTES_MIN`] bytes. Data sets of larger documents
    /// have fewer, so that their bytes are about equal.
    pub rows: BTreeMap<Scale, u64>,
    /// Rounds: runs of each subject and phase.
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
        for scale in SCALES {
            scale.check(self.rows(*scale))?;
        }
        range("the number of rounds", self.rounds.into(), 1, ROUNDS_MAX.into())?;
        range("the number of lanes", self.lanes.into(), 1, LANES_MAX.into())?;
        for size in &self.sizes {
            range("a document's size", *size as u64, DOCUMENT_BYTES_MIN as u64, DOCUMENT_BYTES_MAX as u64)?;
        }
        Ok(())
    }

    /// Documents or rows of a scale.
    fn rows(&self, scale: Scale) -> u64 {
        self.rows.get(&scale).copied().unwrap_or_default()
    }

    /// The data sets of an experiment: every size with the first kind of key, and the smallest size with the other
    /// kinds.
    pub(crate) fn data_sets(&self, experiment: &Experiment) -> Vec<DataSet> {
        let or = |given: &[usize]| if given.is_empty() { experiment.sizes.to_vec() } else { given.to_vec() };
        let mut sizes = or(&self.sizes);
        sizes.sort_unstable();
        sizes.dedup();
        let keys = if self.keys.is_empty() { experiment.keys } else { &self.keys };
        let documents = experiment.scale.keys(self.rows(experiment.scale));
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
    use crate::core::KEYS;

    fn plan() -> Plan {
        Plan {
            rows: SCALES.iter().copied().zip([1_000_000, 20_000_000, 5_000_000, 10_000_000]).collect(),
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
        for scale in SCALES {
            let mut few = plan();
            few.rows.insert(*scale, 0);
            assert!(few.check().is_err(), "{scale:?}");
            few.rows.remove(scale);
            assert!(few.check().is_err(), "{scale:?} is missing");
        }
        assert!(Plan { rounds: 0, ..plan() }.check().is_err());
        assert!(Plan { lanes: 0, ..plan() }.check().is_err());
    }
}
