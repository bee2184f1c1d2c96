//! The order of an experiment's runs: who runs when, what runs again, and when the machine is too noisy. It runs nothing.

use crate::core::{Outcome, Run, blocks};
use crate::error::Error;
use crate::experiments::arm::Arm;
use crate::experiments::conditions::Conditions;
use crate::experiments::experiment::{AGAIN, Experiment};
use crate::limits::TRIES_MAX;

/// Why the numbers of a run are worthless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Void {
    /// Something else used the machine.
    Disturbed(String),
    /// The arm asks for more than pgbench or the server can do.
    Unfit(String),
}

/// A turn of an arm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn<'a> {
    /// Its name in the record.
    pub(super) name: &'a str,
    pub(super) arm: &'a Arm,
    pub(super) block: u32,
    pub(super) turn: u32,
    /// Which try it is, from 1.
    pub(super) tries: u32,
}

/// An arm and those that continue it, each with its name in the record.
type Chain<'a> = Vec<(&'a str, &'a Arm)>;

/// The place of a chain in a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    chain: usize,
    block: u32,
    /// The turn of its first arm.
    turn: u32,
}

/// The order of an experiment: its chains in each block.
#[derive(Debug)]
pub(super) struct Order<'a> {
    experiment: &'a Experiment,
    chains: Vec<Chain<'a>>,
    blocks: Vec<Vec<usize>>,
    /// How many more runs something else may disturb before the machine is too noisy: as many as are planned.
    repeats: usize,
}

impl<'a> Order<'a> {
    /// The same seed gives the same order.
    pub(super) fn new(experiment: &'a Experiment, count: u32, seed: u64) -> Self {
        let named = |arm: &'a Arm| (arm.name.as_str(), arm);
        let mut chains: Vec<Chain<'a>> =
            experiment.chains().into_iter().map(|chain| chain.into_iter().map(named).collect()).collect();
        // The noise floor: the same arm twice in each block.
        chains.push(vec![(AGAIN, experiment.twice())]);
        let blocks = blocks(chains.len(), count, seed);
        let mut order = Self { experiment, chains, blocks, repeats: 0 };
        order.repeats = order.planned();
        order
    }

    /// How many runs there are in all.
    pub(super) fn planned(&self) -> usize {
        (self.experiment.arms.len() + 1) * self.blocks.len()
    }

    /// How many runs are left, after those that are recorded and those that a chain has made.
    pub(super) fn left(&self, recorded: &[Run], tries: &Tries<'a>) -> usize {
        self.planned().saturating_sub(recorded.len() + tries.made.len())
    }

    /// Turns before the first block, which do not count: so many of each arm.
    pub(super) fn warm_up(&self, count: u32) -> Vec<Turn<'a>> {
        let arms = || self.chains.iter().flatten().copied().filter(|(name, _)| *name != AGAIN);
        let turns = |turn| arms().map(move |(name, arm)| Turn { name, arm, block: 0, turn, tries: 1 });
        (1..=count).flat_map(turns).collect()
    }

    /// Where each chain has its turn, block by block.
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (block, chains) in (1..).zip(&self.blocks) {
            let mut turn = 1;
            for chain in chains.iter().copied() {
                places.push(Place { chain, block, turn });
                turn += u32::try_from(self.chains[chain].len()).unwrap_or(1);
            }
        }
        places
    }

    /// Begins with a chain in its place; `None` if it was there already. What an interrupted run has made of it is
    /// removed: it cannot be continued.
    pub(super) fn begin(&self, place: Place, recorded: &mut Vec<Run>) -> Option<Tries<'a>> {
        let chain = self.chains[place.chain].clone();
        let is_of = |run: &Run| run.block == place.block && chain.iter().any(|(name, _)| *name == run.arm);
        if recorded.iter().filter(|run| is_of(run)).count() >= chain.len() {
            return None;
        }
        recorded.retain(|run| !is_of(run));
        Some(Tries { experiment: self.experiment, chain, place, tries: 1, made: Vec::new() })
    }

    /// Takes what the turn of a chain came to. If that is void, the whole chain runs again, and this is why: without a
    /// reset in between, none of its arms can run by itself.
    ///
    /// # Errors
    /// [`Error::Noisy`] if something else disturbs more runs than are planned.
    pub(super) fn take(
        &mut self,
        tries: &mut Tries<'a>,
        result: Result<Outcome, Void>,
        conditions: &mut Conditions,
    ) -> Result<Option<String>, Error> {
        let (counted, why) = match result {
            Ok(outcome) => {
                tries.push(outcome);
                return Ok(None);
            }
            // What lies in the arm itself comes again.
            Err(Void::Unfit(why)) if tries.tries > TRIES_MAX => {
                tries.push(Outcome::Void(why));
                return Ok(None);
            }
            Err(Void::Unfit(why)) => (&mut conditions.saturated, why),
            Err(Void::Disturbed(why)) if self.repeats == 0 => return Err(Error::Noisy(why)),
            Err(Void::Disturbed(why)) => {
                self.repeats -= 1;
                (&mut conditions.voids, why)
            }
        };
        *counted += 1;
        tries.tries += 1;
        tries.made.clear();
        Ok(Some(why))
    }
}

/// A chain in its place, until each of its arms has a run.
#[derive(Debug)]
pub(super) struct Tries<'a> {
    experiment: &'a Experiment,
    chain: Chain<'a>,
    place: Place,
    tries: u32,
    /// What this try has made so far.
    made: Vec<Run>,
}

impl<'a> Tries<'a> {
    /// Whose turn it is; `None` if all have a run.
    pub(super) fn turn(&self) -> Option<Turn<'a>> {
        let (name, arm) = *self.chain.get(self.made.len())?;
        let turn = self.place.turn + u32::try_from(self.made.len()).unwrap_or(0);
        Some(Turn { name, arm, block: self.place.block, turn, tries: self.tries })
    }

    /// What becomes of the next arm without a run, because it continues one without a result.
    pub(super) fn known(&self) -> Option<Outcome> {
        let before = self.made.last()?;
        let why = || format!("not run, because {} has no result", before.arm);
        match &before.outcome {
            Outcome::Measured(_) => None,
            Outcome::Void(_) => Some(Outcome::Void(why())),
            Outcome::Skipped(_) => Some(Outcome::Skipped(why())),
            Outcome::Error(_) => Some(Outcome::Error(why())),
        }
    }

    /// The newest run.
    pub(super) fn last(&self) -> Option<&Run> {
        self.made.last()
    }

    /// The runs of the last try.
    pub(super) fn into_runs(self) -> Vec<Run> {
        self.made
    }

    fn push(&mut self, outcome: Outcome) {
        let Some(Turn { name, arm, block, turn, .. }) = self.turn() else { return };
        let (experiment, factors) = (self.experiment.name.clone(), self.experiment.factors(arm));
        self.made.push(Run { experiment, arm: name.to_owned(), factors, block, turn, outcome });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Measures;
    use crate::experiments::Selection;

    /// An arm `a` that `a2` and then `a3` continue, and an arm `b`.
    fn experiment() -> Experiment {
        let arm = |name: &str, after: &str| format!("[[arm]]\nname = '{name}'\n{after}");
        let arms = [arm("a", ""), arm("a2", "after = 'a'\n"), arm("a3", "after = 'a2'\n"), arm("b", "")].concat();
        let text = format!("question = 'q?'\nseconds = 5\nrun = {{ scripts = ['a.sql'] }}\n{arms}");
        Experiment::parse("x", &text, &Selection::default()).unwrap()
    }

    fn good() -> Result<Outcome, Void> {
        Ok(Outcome::Measured(Measures::default()))
    }

    fn disturbed() -> Result<Outcome, Void> {
        Err(Void::Disturbed("steal".to_owned()))
    }

    /// A course in which nothing runs: turns come to what the test says.
    #[derive(Debug, Default)]
    struct Played {
        /// Turns that ran, each as `NAME/TRY`.
        turns: Vec<String>,
        runs: Vec<Run>,
        conditions: Conditions,
    }

    impl Played {
        fn play(
            &mut self,
            experiment: &Experiment,
            blocks: u32,
            mut result: impl FnMut(Turn<'_>) -> Result<Outcome, Void>,
        ) -> Result<(), Error> {
            let mut order = Order::new(experiment, blocks, 1);
            for place in order.places() {
                let Some(mut tries) = order.begin(place, &mut self.runs) else { continue };
                while let Some(turn) = tries.turn() {
                    let made = match tries.known() {
                        Some(outcome) => Ok(outcome),
                        None => {
                            self.turns.push(format!("{}/{}", turn.name, turn.tries));
                            result(turn)
                        }
                    };
                    order.take(&mut tries, made, &mut self.conditions)?;
                }
                self.runs.extend(tries.into_runs());
            }
            Ok(())
        }

        fn of(&self, block: u32) -> Vec<&str> {
            self.runs.iter().filter(|run| run.block == block).map(|run| run.arm.as_str()).collect()
        }
    }

    fn played(blocks: u32, result: impl FnMut(Turn<'_>) -> Result<Outcome, Void>) -> Played {
        let mut played = Played::default();
        played.play(&experiment(), blocks, result).unwrap();
        played
    }

    #[test]
    fn in_each_block_every_arm_runs_once_behind_the_one_that_it_continues_and_one_runs_again() {
        let played = played(8, |_| good());
        assert_eq!(played.runs.len(), 5 * 8);
        for block in 1..=8 {
            let order = played.of(block);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, ["a", "a2", "a3", AGAIN, "b"]);
            assert!(order.windows(3).any(|three| three == ["a", "a2", "a3"]), "{order:?}");
            let turns = played.runs.iter().filter(|run| run.block == block).map(|run| run.turn);
            assert!(turns.eq(1..=5), "{order:?}");
        }
        assert!((2..=8).any(|block| played.of(block) != played.of(1)), "blocks differ");
        let again = played.runs.iter().find(|run| run.arm == AGAIN).unwrap();
        let first = played.runs.iter().find(|run| run.arm == "a").unwrap();
        assert_eq!(again.factors, first.factors);
    }

    #[test]
    fn the_seed_decides_the_order() {
        let experiment = experiment();
        let order = |seed| format!("{:?}", Order::new(&experiment, 20, seed).places());
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn warm_up_runs_are_of_every_arm_in_its_order_and_of_no_block() {
        let experiment = experiment();
        let turns = Order::new(&experiment, 1, 1).warm_up(2);
        let names: Vec<&str> = turns.iter().map(|turn| turn.name).collect();
        assert_eq!(names, ["a", "a2", "a3", "b", "a", "a2", "a3", "b"]);
        assert!(turns.iter().all(|turn| turn.block == 0) && turns[0].turn == 1 && turns[7].turn == 2);
        assert!(Order::new(&experiment, 1, 1).warm_up(0).is_empty());
    }

    #[test]
    fn a_disturbed_run_runs_again_with_its_whole_chain() {
        let mut disturbances = 1;
        let played = played(1, |turn| {
            let is_disturbed = turn.name == "a2" && disturbances > 0;
            disturbances -= u32::from(is_disturbed);
            if is_disturbed { disturbed() } else { good() }
        });
        assert_eq!((played.runs.len(), played.conditions.voids, played.conditions.saturated), (5, 1, 0));
        let chain: Vec<&str> = played.turns.iter().map(String::as_str).filter(|turn| turn.starts_with('a')).collect();
        let chain: Vec<&str> = chain.into_iter().filter(|turn| !turn.starts_with(AGAIN)).collect();
        assert_eq!(chain, ["a/1", "a2/1", "a/2", "a2/2", "a3/2"]);
    }

    #[test]
    fn a_machine_that_disturbs_more_runs_than_are_planned_is_too_noisy() {
        let mut played = Played::default();
        let ended = played.play(&experiment(), 2, |_| disturbed());
        assert!(matches!(ended, Err(Error::Noisy(why)) if why == "steal"));
        assert_eq!((played.runs.len(), played.conditions.voids, played.turns.len()), (0, 10, 11));

        // As many as are planned are not too many.
        let (mut left, mut played) = (10, Played::default());
        let sometimes = |_: Turn<'_>| {
            let is_disturbed = left > 0;
            left -= u32::from(is_disturbed);
            if is_disturbed { disturbed() } else { good() }
        };
        played.play(&experiment(), 2, sometimes).unwrap();
        assert_eq!((played.runs.len(), played.conditions.voids), (10, 10));
    }

    #[test]
    fn a_run_that_its_arm_makes_void_is_repeated_twice_and_left_out() {
        let unfit = |turn: Turn<'_>| match turn.name {
            "b" => Err(Void::Unfit("slow client".to_owned())),
            _ => good(),
        };
        let played = played(2, unfit);
        assert_eq!((played.conditions.voids, played.conditions.saturated), (0, 2 * TRIES_MAX));
        let of_b: Vec<&Outcome> = played.runs.iter().filter(|run| run.arm == "b").map(|run| &run.outcome).collect();
        let void = Outcome::Void("slow client".to_owned());
        assert_eq!(of_b, [&void, &void]);
        assert_eq!(played.turns.iter().filter(|turn| turn.starts_with("b/")).count(), 6);
    }

    #[test]
    fn what_continues_an_arm_without_a_result_is_not_run() {
        let why = |before: &str| format!("not run, because {before} has no result");
        for outcome in [Outcome::Skipped as fn(String) -> Outcome, Outcome::Error] {
            let played = played(1, |turn| if turn.name == "a" { Ok(outcome("w".to_owned())) } else { good() });
            assert!(!played.turns.iter().any(|turn| turn.starts_with("a2") || turn.starts_with("a3")));
            let of = |arm: &str| played.runs.iter().find(|run| run.arm == arm).unwrap().outcome.clone();
            assert_eq!(["a2", "a3"].map(of), [outcome(why("a")), outcome(why("a2"))]);
            assert!(matches!(of("b"), Outcome::Measured(_)));
        }
        let unfit = |turn: Turn<'_>| if turn.name == "a2" { Err(Void::Unfit("w".to_owned())) } else { good() };
        let last = played(1, unfit).runs.into_iter().find(|run| run.arm == "a3").unwrap();
        assert_eq!(last.outcome, Outcome::Void(why("a2")));
    }

    #[test]
    fn an_interrupted_course_resumes_with_the_chain_that_it_had_begun() {
        let whole = played(2, |_| good());
        for kept in 0..=whole.runs.len() {
            let mut resumed = Played { runs: whole.runs[..kept].to_vec(), ..Played::default() };
            resumed.play(&experiment(), 2, |_| good()).unwrap();
            let sorted = |played: &Played| {
                let mut all: Vec<(u32, u32, String)> =
                    played.runs.iter().map(|run| (run.block, run.turn, run.arm.clone())).collect();
                all.sort();
                all
            };
            assert_eq!(sorted(&resumed), sorted(&whole), "{kept}");
            let repeated = resumed.turns.len() + kept - whole.runs.len();
            assert!(repeated <= 2, "only the chain that was begun: {kept}");
        }
    }

    #[test]
    fn what_is_left_counts_recorded_runs_and_those_of_the_chain() {
        let experiment = experiment();
        let mut order = Order::new(&experiment, 2, 1);
        let place = order.places().into_iter().find(|place| order.chains[place.chain].len() == 3).unwrap();
        let mut tries = order.begin(place, &mut Vec::new()).unwrap();
        assert_eq!(order.left(&[], &tries), 10);
        order.take(&mut tries, good(), &mut Conditions::default()).unwrap();
        let run = tries.last().unwrap().clone();
        assert_eq!((order.left(&[], &tries), order.left(&[run], &tries)), (9, 8));
    }
}
