//! What is refused in an experiment although each of its words can be read.

use super::arm::{Arm, Setup};
use super::experiment::{AGAIN, Experiment, WarmUp};
use super::mistakes::{Cause, Place, Refusal};
use crate::core::word::unknown;
use crate::limits::{ARMS_MAX, BLOCKS_MAX, RUN_SECONDS_MAX, WARM_UP_RUNS_MAX};
use std::collections::{BTreeMap, BTreeSet};

impl Experiment {
    /// Values of an arm do not reach the words that all arms inherit.
    pub(super) fn refused_values(&self) -> Vec<Refusal> {
        let inherited = serde_json::to_string(&self.run).unwrap_or_default();
        let names = self.arms.iter().flat_map(|arm| arm.sweep.keys().chain(arm.each.iter().flat_map(BTreeMap::keys)));
        let found = names.into_iter().find(|name| inherited.contains(&format!("{{{name}}}")));
        let why =
            |name| format!("[run] has {{{name}}}, a value that only arms have: write that word into their [arm.run]");
        found.into_iter().map(|name| Refusal::of(Place::Key("run"), why(name))).collect()
    }

    /// All that is refused, once sweeps have made their arms.
    pub(super) fn refusals(&self) -> Vec<Refusal> {
        let mut refused = self.refused_numbers();
        if self.question.is_empty() {
            let why = "the key \"question\" is missing";
            refused.push(Refusal { cause: Cause::Missing, ..Refusal::of(Place::Key("question"), why) });
        }
        if self.arms.is_empty() || self.arms.len() > ARMS_MAX {
            let why = format!("there must be from 1 to {ARMS_MAX} arms, not {}", self.arms.len());
            refused.push(Refusal { cause: Cause::Missing, ..Refusal::of(Place::Key("arm"), why) });
        }
        if self.arms.is_empty() {
            return refused;
        }
        let mut names = BTreeSet::new();
        for (at, arm) in self.arms.iter().enumerate() {
            self.refuse_arm(at, arm, names.insert(&arm.name), &mut refused);
        }
        if let Some(why) = self.unknown_arm(self.again.as_slice()) {
            refused.push(Refusal::of_name(Place::Key("again"), format!("again: {why}")));
        } else if let Some(before) = &self.twice().after {
            let why = format!("again: {} continues {before}, so it has no turn of its own", self.twice().name);
            refused.push(Refusal::of(Place::Key("again"), why));
        }
        if !self.server {
            self.refuse_without_server(&mut refused);
        }
        for (at, split) in self.splits.iter().enumerate() {
            let arms: Vec<String> = [Some(&split.of), split.without.as_ref()].into_iter().flatten().cloned().collect();
            if let Some(why) = self.unknown_arm(&arms) {
                refused.push(Refusal::of_name(Place::Split(at), format!("split {}: {why}", split.name)));
            }
        }
        refused
    }

    fn refused_numbers(&self) -> Vec<Refusal> {
        let range = |key: &'static str, given: u32, min: u32, max: u32| {
            let why = || format!("{key} must be from {min} to {max}, not {given}");
            (!(min..=max).contains(&given)).then(|| Refusal::of(Place::Key(key), why()))
        };
        let seconds = range("seconds", self.seconds, 1, RUN_SECONDS_MAX);
        let seconds = seconds.map(|refusal| Refusal { cause: Cause::Missing, ..refusal });
        let warm_up = self.check_warm_up(self.seconds).err().filter(|_| seconds.is_none());
        let matters = (!(0.1..=100.0).contains(&self.matters_percent))
            .then(|| Refusal::of(Place::Key("matters_percent"), "matters_percent must be from 0.1 to 100"));
        let numbers = [
            range("blocks", self.blocks, 1, BLOCKS_MAX),
            seconds,
            warm_up.map(|why| Refusal::of(Place::Key("warm_up"), why)),
            range("warm_up_runs", self.warm_up_runs, 0, WARM_UP_RUNS_MAX),
            matters,
        ];
        numbers.into_iter().flatten().collect()
    }

    fn refuse_arm(&self, at: usize, arm: &Arm, is_new: bool, refused: &mut Vec<Refusal>) {
        let place = |key| Place::Arm(at, key);
        let of = |why: String| format!("arm {}: {why}", arm.name);
        if arm.name.is_empty() || !is_new {
            let why = format!("two arms are named {:?}, or one has no name", arm.name);
            refused.push(Refusal::of_name(place("name"), why));
        }
        if arm.name == AGAIN {
            let why = format!("no arm can be named {AGAIN}: that is the second turn of one of them");
            refused.push(Refusal::of(place("name"), why));
        }
        if let Some(why) = self.unknown_arm(&arm.against) {
            refused.push(Refusal::of_name(place("against"), of(why)));
        }
        if let Err(why) = self.check_after(arm) {
            refused.push(Refusal::of_name(place("after"), why));
        }
        let of_run = self.setup(arm).refused(self.metric.as_str()).into_iter();
        refused.extend(of_run.map(|(key, why)| Refusal::of(place(key), of(why))));
    }

    /// Refuses an arm that continues one which is not above it, or which another arm continues already.
    fn check_after(&self, arm: &Arm) -> Result<(), String> {
        let Some(before) = &arm.after else { return Ok(()) };
        let above = self.arms.iter().take_while(|one| one.name != arm.name);
        let Some(first) = above.clone().find(|one| one.name == *before) else {
            return Err(format!("{} continues {before}, which is not there or below it", arm.name));
        };
        let place = |arm: &Arm| {
            let Setup { postgres, unlogged, fillfactor, .. } = self.setup(arm);
            (postgres, unlogged, fillfactor)
        };
        if place(first) != place(arm) {
            return Err(format!("{} continues {before}, which is in another database", arm.name));
        }
        match above.into_iter().find(|one| one.after.as_ref() == Some(before)) {
            Some(other) => Err(format!("{} and {} continue {before}; only one can", other.name, arm.name)),
            None => Ok(()),
        }
    }

    /// Refuses a warm-up that leaves less than half of a run.
    pub(crate) fn check_warm_up(&self, seconds: u32) -> Result<(), String> {
        match self.warm_up {
            WarmUp::Seconds(warm_up) if !(0.0..=f64::from(seconds) / 2.0).contains(&warm_up) => {
                Err(format!("warm_up, {warm_up} s, must be at most half of the {seconds} s of a run"))
            }
            WarmUp::Seconds(_) | WarmUp::Word(_) => Ok(()),
        }
    }

    /// Without a server there are only commands, and nothing that is done to a server.
    fn refuse_without_server(&self, refused: &mut Vec<Refusal>) {
        for (at, arm) in self.arms.iter().enumerate() {
            let setup = self.setup(arm);
            if let Some(word) = setup.word_for_a_server() {
                refused.push(Refusal::of(Place::Arm(at, word), format!("{word} needs a server, and server = false")));
            }
            if setup.command.is_none() && setup.scripts.is_some() {
                let why = "pgbench needs a server; every arm without one needs a command";
                refused.push(Refusal::of(Place::Arm(at, "scripts"), why));
            }
            refused.extend(sql(&setup.before).map(|why| Refusal::of(Place::Arm(at, "before"), why)));
        }
        let lines = [("setup", &self.setup), ("reset", &self.reset), ("cleanup", &self.cleanup)];
        refused.extend(lines.into_iter().filter_map(|(key, lines)| Some(Refusal::of(Place::Key(key), sql(lines)?))));
    }

    /// Why a name is that of no arm, if one of these is.
    fn unknown_arm(&self, names: &[String]) -> Option<String> {
        let other = names.iter().find(|name| !name.is_empty() && self.arm(name).is_none())?;
        let known: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        Some(unknown("arm", other, &known))
    }
}

/// Why one of these lines needs a server, if one does.
fn sql(lines: &[String]) -> Option<String> {
    let line = lines.iter().find(|line| !line.starts_with('!'))?;
    Some(format!("SQL needs a server, and server = false; a shell command begins with !: {line}"))
}
