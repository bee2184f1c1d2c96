//! Experiments: the questions that the lab can answer, one file each.

mod comparison;
mod course;
mod distinct;
mod durability;
mod growth;
mod hot;
mod ingest;
mod latency;
mod log;
mod memory;
mod mixed;
mod order;
mod plan;
mod published;
mod refresh;
mod refused;
mod rivals;
mod scale;
mod wal;

pub(crate) use comparison::Comparison;
pub use plan::Plan;
pub use scale::{SCALES, Scale};

use crate::core::{Keys, Record};
use crate::error::Error;
use crate::ingest::bench::Bench;
use crate::ingest::column::Column;
use crate::ingest::durability::Durability;
use crate::ingest::phase::Phase;
use crate::ingest::subject::Subject;
use std::path::PathBuf;

/// A question and how it is answered: subjects take turns through phases, with each durability and over each network.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// The question.
    pub about: &'static str,
    /// Names of the subjects, in the order of the report.
    pub subjects: &'static [&'static str],
    /// What each subject does to its table, in this order.
    pub phases: &'static [Phase],
    /// Durabilities of the commits. Every subject takes a turn with each.
    pub durabilities: &'static [Durability],
    /// Round trips to the server through a proxy, in milliseconds; `None` for a direct connection. Every subject takes
    /// a turn with each.
    pub round_trips_ms: &'static [Option<u32>],
    /// Kinds of keys, if no others are requested.
    pub keys: &'static [Keys],
    /// Lengths of documents in bytes, if no others are requested.
    pub sizes: &'static [usize],
    /// How many keys it needs.
    pub scale: Scale,
    /// Rounds for each requested round. There are more if a difference is small compared with the noise of the machine.
    pub(crate) rounds_each: u32,
    /// Whether to look for full-page images in the WAL after each phase.
    pub(crate) page_images: bool,
    /// What the ratio of the report is.
    pub(crate) comparison: Option<Comparison>,
    /// What the report shows next to the rate.
    pub(crate) columns: &'static [Column],
    /// What the columns of the report mean here.
    pub(crate) legend: &'static [&'static str],
}

/// Receives each line of progress.
pub type Progress<'a> = dyn FnMut(&str) + 'a;

/// Every experiment, in the order of a run.
pub const EXPERIMENTS: &[Experiment] = &[
    ingest::EXPERIMENT,
    order::EXPERIMENT,
    durability::EXPERIMENT,
    hot::EXPERIMENT,
    wal::EXPERIMENT,
    memory::EXPERIMENT,
    mixed::EXPERIMENT,
    latency::EXPERIMENT,
    growth::EXPERIMENT,
    refused::EXPERIMENT,
    log::EXPERIMENT,
    published::EXPERIMENT,
    refresh::EXPERIMENT,
    distinct::EXPERIMENT,
    rivals::EXPERIMENT,
];

/// The name that stands for all experiments.
pub const ALL: &str = "all";

/// Lengths of documents: small ones, ones of about a quarter of a page, and ones that are stored out of line.
const SIZES: &[usize] = &[150, 2_048, 20_480];

/// A finished run and its record.
#[derive(Debug)]
pub struct Finished {
    /// Everything measured.
    pub record: Record,
    /// The file that holds it.
    pub path: PathBuf,
}

impl Experiment {
    /// What most experiments have in common: the smallest documents, random keys, durable commits, no proxy.
    const PLAIN: Self = Self {
        name: "",
        about: "",
        subjects: &[],
        phases: &[],
        durabilities: &[Durability::Durable],
        round_trips_ms: &[None],
        keys: &[Keys::Random],
        sizes: &[150],
        scale: Scale::Documents,
        rounds_each: 1,
        page_images: false,
        comparison: None,
        columns: &[],
        legend: &[],
    };

    /// Number of rounds to run if `asked` rounds are requested. One round stays one: it only shows that the experiment
    /// works.
    pub(crate) fn rounds(&self, asked: u32) -> u32 {
        if asked == 1 { 1 } else { asked * self.rounds_each }
    }

    /// The experiment of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|one| one.name == name)
    }

    /// The experiments with these names, except those in `without`. [`ALL`] stands for every one.
    ///
    /// # Errors
    /// [`Error::Asked`] for an unknown name, and if no experiment is left.
    pub fn named(names: &[String], without: &[String]) -> Result<Vec<&'static Self>, Error> {
        let known = |name: &&String| name.as_str() != ALL && Self::by_name(name).is_none();
        if let Some(other) = names.iter().chain(without).find(known) {
            return Err(Error::Asked(format!("there is no experiment {other}")));
        }
        let has = |names: &[String], name: &str| names.iter().any(|one| one == name || one == ALL);
        let chosen = EXPERIMENTS.iter().filter(|one| has(names, one.name) && !has(without, one.name));
        let chosen: Vec<&'static Self> = chosen.collect();
        if chosen.is_empty() {
            return Err(Error::Asked("no experiment is left to run".to_owned()));
        }
        Ok(chosen)
    }

    /// Runs experiments one after the other, into one record. Dropping the future abandons the run at any time; the
    /// record on the disk then holds the finished rounds. In both cases the caller must call [`Bench::clear`].
    ///
    /// # Errors
    /// Whatever prevents the lab itself from working. A subject's failures are in the record.
    pub async fn run(
        experiments: &[&'static Self],
        plan: &Plan,
        bench: &Bench,
        progress: &mut Progress<'_>,
    ) -> Result<Finished, Error> {
        plan.check()?;
        let _alive = bench.claim(progress).await?;
        course::run(experiments, plan, bench, progress).await
    }

    /// Whether one subject is compared with each of the others, phase by phase.
    pub(crate) fn has_leader(&self) -> bool {
        self.comparison.is_some_and(|comparison| comparison.is_lead)
    }

    /// The subjects with these names, in the report's order; all subjects if `names` is empty.
    pub fn chosen(&self, names: &[String]) -> Vec<&'static Subject> {
        let chosen = self.subjects.iter().filter(|name| names.is_empty() || names.iter().any(|one| one == *name));
        chosen.filter_map(|name| Subject::by_name(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_names_of_their_own_and_known_subjects() {
        for one in EXPERIMENTS {
            assert_eq!(Experiment::by_name(one.name).unwrap().about, one.about);
            assert!(!one.about.is_empty() && one.name != ALL);
            assert_eq!(one.chosen(&[]).len(), one.subjects.len(), "{}: every subject is known", one.name);
            if let Some(base) = one.comparison.and_then(|comparison| comparison.subject) {
                assert!(one.subjects.contains(&base), "{}", one.name);
            }
            let names: std::collections::BTreeSet<&str> = one.phases.iter().map(|phase| phase.name).collect();
            assert_eq!(names.len(), one.phases.len(), "{}: phases have names of their own", one.name);
            if let Some(base) = one.comparison.and_then(|comparison| comparison.phase) {
                assert!(names.contains(base), "{}", one.name);
            }
        }
        assert!(Experiment::by_name("nothing").is_none());
    }

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn experiments_are_named_one_by_one_or_together() {
        let named = |names: &[&str], without: &[&str]| {
            let named = Experiment::named(&strings(names), &strings(without)).map_err(|error| error.to_string())?;
            Ok::<_, String>(named.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(named(&["hot", "ingest", "hot"], &[]).unwrap(), ["ingest", "hot"]);
        assert_eq!(named(&["all"], &[]).unwrap().len(), EXPERIMENTS.len());
        let some = named(&["all"], &["growth", "rivals"]).unwrap();
        assert!(some.len() == EXPERIMENTS.len() - 2 && !some.contains(&"growth"));
        assert_eq!(named(&["all"], &["grow"]).unwrap_err(), "there is no experiment grow");
        assert_eq!(named(&["hot"], &["hot"]).unwrap_err(), "no experiment is left to run");
    }

    #[test]
    fn subjects_are_chosen_by_name_and_keep_their_order() {
        let rivals = Experiment::by_name("rivals").unwrap();
        let chosen = rivals.chosen(&strings(&["merge", "millstream"]));
        assert_eq!(chosen.iter().map(|subject| subject.name).collect::<Vec<_>>(), ["millstream", "merge"]);
    }
}
