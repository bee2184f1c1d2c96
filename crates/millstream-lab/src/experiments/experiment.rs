//! An experiment as a file: its question, its arms, and how each is run.

use super::arm::{Arm, BUILTIN, Setup};
use super::article::Article;
use super::chosen_metric::ChosenMetric;
use super::dial::Dial;
use super::mistakes::Mistakes;
use super::plain_text;
use super::values::Selection;
use crate::core::word::unknown;
use crate::core::{Factors, METRICS, Metric};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Name of the second turn of an arm: both are the same, so their difference is noise.
pub const AGAIN: &str = "again";

/// Words that say nothing of an arm by themselves, even if all arms have them in common.
const NOT_COMMON: [&str; 2] = ["command", "shell"];

/// A question, and how it is answered. Field names are the words of the file; `docs/reference/experiments.md` describes them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Experiment {
    /// Its name: that of its file.
    pub name: String,
    /// What is asked, as a sentence.
    pub question: String,
    /// What the author expects, and why; empty if that is not said.
    pub expected: String,
    /// How to read the result; empty if that is not said.
    pub read: String,
    /// The metric that decides.
    pub metric: ChosenMetric,
    /// The smallest difference that matters, in percent.
    #[serde(default = "five")]
    pub matters_percent: f64,
    /// Planned blocks. In a block every arm runs once.
    #[serde(default = "ten")]
    pub blocks: u32,
    /// Seconds of a run, with its warm-up.
    #[serde(deserialize_with = "plain_text::whole")]
    pub seconds: u32,
    /// The first seconds of a run that do not count.
    pub warm_up: WarmUp,
    /// Runs of each arm before the first block, which do not count.
    #[serde(skip_serializing_if = "is_zero")]
    pub warm_up_runs: u32,
    /// The arm that has a second turn in each block, to see the noise. Absent: the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
    /// Whether the runs need a PostgreSQL. Commands may not.
    #[serde(default = "yes")]
    pub server: bool,
    /// Values that a user may choose, by their names: `{NAME}` in the file stands for one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Dial>,
    /// Those of them that are others in a quick run.
    #[serde(skip_serializing, deserialize_with = "plain_text::map")]
    pub quick: BTreeMap<String, String>,
    /// Files beside the experiment that its commands find in `LAB_DIR`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The data that pgbench makes.
    pub data: Data,
    /// SQL statements before every run, after the tables are vacuumed. A line that begins with `!` is a shell command.
    pub reset: Vec<String>,
    /// As `reset`, once before the first run, in each database.
    pub setup: Vec<String>,
    /// As `reset`, once after the last run.
    pub cleanup: Vec<String>,
    /// A query that every arm of a group must answer alike after the same transactions from the same start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal: Option<Equal>,
    /// Also measure the mean time of each statement, in runs of their own.
    pub statements: bool,
    /// The published table that arms repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub article: Option<Article>,
    /// Whether values of the metric add up, as the times of a packet do. Then a report shows by how much an arm differs
    /// from the first of its group, not how many times the first it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adds_up: bool,
    /// Metrics that a report shows besides the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub show: Vec<ChosenMetric>,
    /// Series of the recorder that the record keeps besides the usual ones, by the beginning of their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub record: Vec<String>,
    /// What a guest needs, if the experiment runs in a guest alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestNeeds>,
    /// How every arm is run, unless it says otherwise.
    pub run: Setup,
    /// What is compared.
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
    /// Times that are differences of two arms.
    #[serde(rename = "split", skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<Split>,
}

/// The data that `pgbench -i` makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// Scale factor: 100,000 accounts each. 0: no tables of pgbench.
    #[serde(deserialize_with = "plain_text::whole")]
    pub scale: u32,
    /// SQL files beside the experiment that are run after the tables are made, before the first run.
    pub files: Vec<String>,
}

/// What a guest needs for an experiment that would change the machine on which it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuestNeeds {
    /// Modules of the kernel in the order in which they are loaded, each with its parameters.
    pub modules: Vec<String>,
    /// Programs, with their libraries, and other files.
    pub files: Vec<PathBuf>,
    /// Packages of Debian that hold these files: an error names them.
    pub packages: Vec<String>,
    /// Shell lines that come before the experiment.
    pub setup: String,
}

/// Proof that the arms of a group do the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equal {
    /// Transactions that each arm runs, with one client and the same seed.
    pub transactions: u32,
    /// SQL statements that bring the tables to the same start.
    pub start: Vec<String>,
    /// The query. Its first column is compared as text.
    pub query: String,
}

/// A time that is the difference between the mean latencies of two arms, block by block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// What takes this time.
    pub name: String,
    /// The arm whose latency includes it.
    pub of: String,
    /// The arm whose latency does not. Absent: the whole latency.
    #[serde(default)]
    pub without: Option<String>,
}

/// The first seconds of a run, which do not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected seconds, \"detect\" or \"never-steady\"")]
pub enum WarmUp {
    /// This many.
    Seconds(f64),
    /// As a word.
    Word(WarmUpWord),
}

/// How the end of the warm-up is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarmUpWord {
    /// Where the transactions per second change most.
    Detect,
    /// The run is never steady: all of it counts.
    NeverSteady,
}

impl Experiment {
    /// Parses and checks the text of a file.
    ///
    /// # Errors
    /// [`Error::Experiment`] with every mistake and its line, and the nearest known word for an unknown one; or for a chosen
    /// value that changes nothing.
    pub fn parse(name: &str, text: &str, selection: &Selection) -> Result<Self, Error> {
        let parsed = Self::read(name, text, selection)?;
        for (dial, value) in &selection.values {
            let mut without = selection.clone();
            without.values.remove(dial);
            // Without the value there may be no such arms.
            let Ok(other) = Self::read(name, text, &without) else { continue };
            if other.values.get(dial).is_some_and(|usual| usual.value != *value) && other.work() == parsed.work() {
                let why = format!("the value {dial}={value} changes nothing: no chosen arm uses it");
                return Err(Error::Experiment { name: name.to_owned(), why });
            }
        }
        Ok(parsed)
    }

    /// What is done, without what is only said of it.
    fn work(&self) -> Self {
        let mut work = self.clone();
        let abouts = work.arms.iter_mut().map(|arm| &mut arm.about);
        for said in [&mut work.question, &mut work.expected, &mut work.read].into_iter().chain(abouts) {
            said.clear();
        }
        work.values.clear();
        work
    }

    fn read(name: &str, text: &str, selection: &Selection) -> Result<Self, Error> {
        let wrong = |why: String| Error::Experiment { name: name.to_owned(), why };
        let (text, values) = selection.fill(text).map_err(wrong)?;
        let (parsed, mut mistakes) = Mistakes::read::<Self>(&text);
        let Some(mut parsed) = parsed else { return Err(wrong(mistakes.to_string())) };
        name.clone_into(&mut parsed.name);
        (parsed.values, parsed.quick) = (values, BTreeMap::new());
        let mut refusals = parsed.refused_values();
        let base = &parsed.run;
        let made =
            parsed.arms.iter().enumerate().flat_map(|(at, arm)| arm.made(base).into_iter().map(move |arm| (at, arm)));
        let (origins, arms): (Vec<usize>, Vec<Arm>) = made.unzip();
        parsed.arms = arms;
        refusals.extend(parsed.refusals());
        mistakes.refuse(refusals, &origins);
        if !mistakes.is_empty() {
            return Err(wrong(mistakes.to_string()));
        }
        let dials = parsed.values.clone();
        for (dial, value) in &dials {
            let chosen = value.chosen_arms(dial).map_err(wrong)?;
            chosen.map_or(Ok(()), |arms| parsed.keep_arms(arms)).map_err(wrong)?;
        }
        parsed.keep_arms(&selection.arms).map_err(wrong)?;
        Ok(parsed)
    }

    /// Leaves only the chosen arms, or all if none is chosen.
    fn keep_arms(&mut self, chosen: &[String]) -> Result<(), String> {
        if chosen.is_empty() {
            return Ok(());
        }
        let is_chosen = |wanted: &String, name: &str| name == wanted || name.starts_with(&format!("{wanted}/"));
        let is_missing = |wanted: &&String| !self.arms.iter().any(|arm| is_chosen(wanted, &arm.name));
        if let Some(other) = chosen.iter().find(is_missing) {
            let known: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
            return Err(unknown("arm", other, &known));
        }
        self.arms.retain(|arm| chosen.iter().any(|wanted| is_chosen(wanted, &arm.name)));
        // What the others are compared with stays named, so that they are not compared with anything else.
        let names: Vec<String> = self.arms.iter().map(|arm| arm.name.clone()).collect();
        let is_there = |name: &String| names.contains(name);
        self.again = self.again.take().filter(is_there);
        if let Some(arm) = self.arms.iter().find(|arm| arm.after.as_ref().is_some_and(|name| !names.contains(name))) {
            let before = arm.after.as_deref().unwrap_or_default();
            return Err(format!("{} continues {before}, which is not chosen", arm.name));
        }
        self.splits.retain(|split| is_there(&split.of) && split.without.as_ref().is_none_or(is_there));
        Ok(())
    }

    /// Every metric that its runs may have: those that the lab knows, and its own.
    pub fn metrics(&self) -> impl Iterator<Item = &Metric> {
        METRICS.iter().chain(self.own_metrics())
    }

    /// Its own metrics, which its commands print.
    pub(crate) fn own_metrics(&self) -> impl Iterator<Item = &Metric> {
        std::iter::once(&self.metric).chain(&self.show).filter(|one| one.is_own()).map(ChosenMetric::metric)
    }

    /// Whether an arm is a run of pgbench, and not a command.
    pub(crate) fn has_pgbench(&self) -> bool {
        self.arms.iter().any(|arm| self.setup(arm).scripts.is_some())
    }

    /// How an arm is run.
    pub fn setup(&self, arm: &Arm) -> Setup {
        let setup = arm.run.over(&self.run);
        let phase = arm.name.rsplit('/').next().unwrap_or_default();
        setup.with("arm", &arm.name).with("phase", phase)
    }

    /// What distinguishes an arm from a plain run.
    pub fn factors(&self, arm: &Arm) -> Factors {
        self.setup(arm).factors()
    }

    /// What all arms have in common, by the words of the file: said once, it need not be said of each.
    pub fn common(&self) -> Factors {
        let mut all = self.arms.iter().map(|arm| self.factors(arm));
        let mut common = all.next().unwrap_or_default();
        for other in all {
            common.retain(|name, value| other.get(name) == Some(value));
        }
        common.retain(|name, _| !NOT_COMMON.contains(&name.as_str()));
        if self.data.scale > 0 {
            common.insert("scale".to_owned(), self.data.scale.to_string());
        }
        common
    }

    /// The arms that an arm is compared with: those that it names, or the first of its group, unless that one names it.
    pub fn against(&self, arm: &Arm) -> Vec<&Arm> {
        let first = || self.arms.iter().find(|one| one.group == arm.group && one.name != arm.name);
        let is_compared = |first: &&Arm| first.against.contains(&arm.name);
        match arm.against.is_empty() {
            true => first()
                .filter(|first| self.position(first) < self.position(arm) && !is_compared(first))
                .into_iter()
                .collect(),
            false => arm.against.iter().filter_map(|name| self.arm(name)).collect(),
        }
    }

    /// The arm of that name.
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|one| one.name == name)
    }

    /// Names of the script files that arms use.
    pub(crate) fn script_files(&self) -> BTreeSet<String> {
        let setups = self.arms.iter().map(|arm| self.setup(arm));
        let scripts = setups.flat_map(|setup| setup.scripts.unwrap_or_default());
        let files = scripts.filter(|script| !script.starts_with(BUILTIN));
        files.map(|script| script.split('@').next().unwrap_or_default().to_owned()).collect()
    }

    /// The arms that are run one after the other: each first one with those that continue it.
    pub(crate) fn chains(&self) -> Vec<Vec<&Arm>> {
        let first = self.arms.iter().filter(|arm| arm.after.is_none());
        let next = |arm: &&Arm| self.arms.iter().find(|one| one.after.as_ref() == Some(&arm.name));
        first.map(|arm| std::iter::successors(Some(arm), next).collect()).collect()
    }

    /// The arm that has two turns in each block.
    pub fn twice(&self) -> &Arm {
        let named = self.again.as_ref().and_then(|name| self.arm(name));
        named.unwrap_or(&self.arms[0])
    }

    pub(super) fn position(&self, arm: &Arm) -> usize {
        self.arms.iter().position(|one| one.name == arm.name).unwrap_or(usize::MAX)
    }
}

impl Default for WarmUp {
    fn default() -> Self {
        Self::Seconds(0.0)
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn yes() -> bool {
    true
}

pub(super) fn five() -> f64 {
    5.0
}

pub(super) fn ten() -> u32 {
    10
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Protocol;

    const HEAD: &str = "question = 'q?'\nseconds = 5\nrun = { scripts = ['a.sql'] }\n";

    fn parse(rest: &str) -> Result<Experiment, String> {
        Experiment::parse("x", &format!("{HEAD}{rest}"), &Selection::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_arm_inherits_what_it_does_not_say() {
        let text = "[data]\nscale = 3\n[[arm]]\nname = 'a'\nabout = ''\n[[arm]]\nname = 'b'\nabout = ''\n\
            run = { protocol = 'prepared', via = 'tcp', settings = { work_mem = '1MB' } }\n";
        let one = parse(text).unwrap();
        assert_eq!((one.blocks, one.metric.as_str(), one.matters_percent), (10, "tps", 5.0));
        let setup = one.setup(&one.arms[1]);
        assert_eq!(setup.scripts.unwrap(), ["a.sql"]);
        assert_eq!(setup.protocol, Some(Protocol::Prepared));
        let factors = one.factors(&one.arms[1]);
        let factors: Vec<String> = factors.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(factors, ["protocol=prepared", "scripts=a.sql", "via=tcp", "work_mem=1MB"]);
        assert_eq!(one.against(&one.arms[1])[0].name, "a");
        assert!(one.against(&one.arms[0]).is_empty());
        let text = "[[arm]]\nname = 'a'\nagainst = ['b']\nrun = { command = 'x' }\n\
            [[arm]]\nname = 'b'\nrun = { command = 'y' }\n";
        let one = parse(text).unwrap();
        assert_eq!(one.against(&one.arms[0])[0].name, "b");
        assert!(one.against(&one.arms[1]).is_empty(), "compared already");
    }

    #[test]
    fn what_all_arms_have_in_common_is_said_once() {
        let arms = "[data]\nscale = 3\n[[arm]]\nname = 'a'\nrun = { clients = 4, via = 'tcp' }\n\
            [[arm]]\nname = 'b'\nrun = { clients = 4, via = 'ssl' }\n";
        let common: Vec<String> =
            parse(arms).unwrap().common().iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(common, ["clients=4", "scale=3", "scripts=a.sql"]);
        let commands = "[[arm]]\nname = 'a'\nrun = { command = 'x' }\n";
        assert!(parse(commands).unwrap().common().is_empty(), "a command is what an arm does");
    }

    #[test]
    fn a_sweep_makes_one_arm_for_each_combination() {
        let text = "[[arm]]\nname = 'c{clients}-{mode}'\nabout = '{clients} clients'\n\
            sweep = { clients = ['1', '4'], mode = ['on', 'off'] }\n\
            run = { clients = '{clients}', settings = { synchronous_commit = '{mode}' } }\n";
        let one = parse(text).unwrap();
        let names: Vec<&str> = one.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["c1-on", "c4-on", "c1-off", "c4-off"]);
        let setup = one.setup(&one.arms[3]);
        assert_eq!((setup.clients(), setup.settings["synchronous_commit"].as_str()), (4, "off"));
    }

    #[test]
    fn a_sweep_reaches_the_words_of_a_disk() {
        let text = "[[arm]]\nname = 'f{ms}'\nsweep = { ms = [1, 8] }\nrun = { disk = { flush_ms = '{ms}', iops = 200 } }\n\
            [[arm]]\nname = 'own'\nrun = { disk = 'own' }\n";
        let one = parse(text).unwrap();
        let flush = |at: usize| one.setup(&one.arms[at]).slow_disk().map(|disk| disk.slowness.flush_ms);
        assert_eq!([0, 1, 2].map(flush), [Some(1.0), Some(8.0), None]);
        assert_eq!(one.factors(&one.arms[1])["disk"], "flush_ms=8,iops=200");
        assert!(!one.factors(&one.arms[2]).contains_key("disk"), "as without the word");
    }

    #[test]
    fn values_of_a_sweep_may_be_numbers() {
        let arm = |values: &str| {
            format!(
                "[[arm]]\nname = 'c{{n}}'\n{values}\nrun = {{ clients = '{{n}}', settings = {{ work_mem = 64 }} }}\n"
            )
        };
        let one = parse(&arm("sweep = { n = [1, 8] }")).unwrap();
        let names: Vec<&str> = one.arms.iter().map(|arm| arm.name.as_str()).collect();
        let setup = one.setup(&one.arms[1]);
        assert_eq!((names, setup.clients(), setup.settings["work_mem"].as_str()), (vec!["c1", "c8"], 8, "64"));
        assert_eq!(one, parse(&arm("each = [{ n = '1' }, { n = 8 }]")).unwrap());
        assert!(one.expected.is_empty() && one.read.is_empty() && one.arms[0].about.is_empty());
        let refused = parse(&arm("sweep = { n = [[1]] }")).unwrap_err();
        assert!(refused.contains("line 6: invalid type: sequence, expected a text or a number"), "{refused}");
    }

    #[test]
    fn arms_that_continue_another_are_run_after_it() {
        let arm = |name: &str, after: &str| format!("[[arm]]\nname = '{name}'\nabout = ''\n{after}");
        let text = [arm("a", ""), arm("b", ""), arm("a2", "after = 'a'\n"), arm("a3", "after = 'a2'\n")].concat();
        let one = parse(&text).unwrap();
        let chains = one.chains();
        let names: Vec<Vec<&str>> =
            chains.iter().map(|chain| chain.iter().map(|arm| arm.name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["a", "a2", "a3"], vec!["b"]]);
        let again = parse(&format!("again = 'a2'\n{text}")).unwrap_err();
        assert!(again.contains("again: a2 continues a, so it has no turn of its own"), "{again}");
    }

    #[test]
    fn sets_of_values_make_an_arm_each_and_an_empty_word_is_none() {
        let text = "[[arm]]\nname = '{who}/{wave}'\nabout = ''\nafter = '{earlier}'\nagainst = ['{earlier}']\n\
            sweep = { who = ['a', 'b'] }\nrun = { command = 'load {arm} {phase}', scripts = [] }\n\
            each = [ { wave = 'fresh', earlier = '' }, { wave = 'changed', earlier = '{who}/fresh' } ]\n";
        let one = parse(&text.replace(", scripts = []", "")).unwrap();
        let names: Vec<&str> = one.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["a/fresh", "a/changed", "b/fresh", "b/changed"]);
        assert_eq!((&one.arms[0].after, one.arms[3].after.as_deref()), (&None, Some("b/fresh")));
        assert!(one.against(&one.arms[0]).is_empty() && one.against(&one.arms[2]).is_empty(), "an empty name");
        assert_eq!(one.setup(&one.arms[3]).command.unwrap(), "load b/changed changed");
    }

    #[test]
    fn a_value_of_arms_in_what_all_inherit_is_refused() {
        for values in ["each = [ { who = 'a' } ]", "sweep = { who = ['a'] }"] {
            let arm = format!("[[arm]]\nname = '{{who}}'\nabout = ''\n{values}\n");
            assert_eq!(parse(&arm).unwrap().arms[0].name, "a");
            let text = format!("{}{arm}", HEAD.replace("a.sql", "{who}.sql"));
            let refused = Experiment::parse("x", &text, &Selection::default()).unwrap_err().to_string();
            assert!(refused.contains("[run] has {who}, a value that only arms have"), "{refused}");
        }
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named_with_its_line_and_the_nearest_word() {
        let arm = "[[arm]]\nname = 'a'\nabout = ''\n";
        for (rest, said) in [
            ("bloks = 3\n", "line 4: unknown key \"bloks\": did you mean \"blocks\"?"),
            ("metric = 'tsp'\n", "line 4: unknown metric \"tsp\": did you mean \"tps\"?"),
            (
                "[[arm]]\nname = 'a'\nabout = ''\nrun = { protocol = 'prepare' }\n",
                "line 7: unknown word \"prepare\": did you mean \"prepared\"?",
            ),
            ("blocks = 0\n", "blocks must be from 1"),
            ("warm_up = 3\n", "warm_up, 3 s, must be at most half of the 5 s of a run"),
            ("seconds = 5\n", "line 4: duplicate key"),
        ] {
            let text = if rest.starts_with('[') { rest.to_owned() } else { format!("{rest}{arm}") };
            let error = parse(&text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        for (rest, said) in [
            ("against = ['b']\n", "arm a: unknown arm \"b\": expected one of a"),
            ("run = { threads = 2 }\n", "arm a: 2 threads are more than 1 clients"),
            ("run = { clients = 'x' }\n", "clients must be a number from 1 to"),
            ("run = { rate = 0 }\n", "rate must be a positive number"),
            ("run = { delay_ms = 1, via = 'socket' }\n", "a delay needs via"),
            ("run = { disk = 'hd' }\n", "unknown disk \"hd\": did you mean \"hdd\"?"),
            (
                "run = { disk = { flush_mss = 8 } }\n",
                "unknown word of a disk \"flush_mss\": did you mean \"flush_ms\"?",
            ),
            ("run = { wal_segment_mb = 3 }\n", "wal_segment_mb must be 1, 2, 4 and so on, up to 1024"),
            ("run = { command = 'true', scripts = ['b.sql'] }\n", "it has both scripts and a command"),
            ("[[arm]]\nname = 'a'\nabout = ''\n", "two arms are named \"a\""),
            ("after = 'c'\n", "a continues c, which is not there or below it"),
            (
                "[[arm]]\nname = 'b'\nabout = ''\nafter = 'a'\n[[arm]]\nname = 'c'\nabout = ''\nafter = 'a'\n",
                "b and c continue a; only one can",
            ),
        ] {
            let error = parse(&format!("{arm}{rest}")).unwrap_err();
            assert!(error.contains(said), "{rest}: {error}");
        }
        assert!(parse("").unwrap_err().contains("line 1: there must be from 1 to 200 arms, not 0"));
    }
}
