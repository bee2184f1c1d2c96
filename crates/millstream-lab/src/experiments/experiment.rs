//! An experiment as a file: its question, its arms, and how each is run.

use super::arm::{Arm, BUILTIN, Setup};
use super::values::Selection;
use crate::core::word::{complaint, unknown};
use crate::core::{Factors, Metric};
use crate::error::Error;
use crate::limits::{ARMS_MAX, BLOCKS_MAX, RUN_SECONDS_MAX};
use millstream_model::line_of;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Name of the second turn of an arm: both are the same, so their difference is noise.
pub const AGAIN: &str = "again";

/// A question, and how it is answered. Field names are the words of the file; `docs/lab.md` describes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name: that of its file.
    #[serde(default)]
    pub name: String,
    /// What is asked, as a sentence.
    pub question: String,
    /// What the author expects, and why.
    pub expected: String,
    /// How to read the result.
    pub read: String,
    /// The metric that decides.
    #[serde(default = "tps")]
    pub metric: MetricName,
    /// The smallest difference that matters, in percent.
    #[serde(default = "five")]
    pub matters_percent: f64,
    /// Planned blocks. In a block every arm runs once.
    #[serde(default = "ten")]
    pub blocks: u32,
    /// Seconds of a run, with its warm-up.
    pub seconds: u32,
    /// The first seconds of a run that do not count.
    #[serde(default)]
    pub warm_up: WarmUp,
    /// The arm that has a second turn in each block, to see the noise. Absent: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
    /// Whether the runs need a PostgreSQL. Commands may not.
    #[serde(default = "yes")]
    pub server: bool,
    /// Values that a user may choose, by their names: `{NAME}` in the file stands for one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Those of them that are others in a quick run.
    #[serde(default, skip_serializing)]
    pub quick: BTreeMap<String, String>,
    /// Files beside the experiment that its commands find in `LAB_DIR`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The data that pgbench makes.
    #[serde(default)]
    pub data: Data,
    /// SQL statements before every run, after the tables are vacuumed. A line that begins with `!` is a shell command.
    #[serde(default)]
    pub reset: Vec<String>,
    /// As `reset`, once before the first run, in each database.
    #[serde(default)]
    pub setup: Vec<String>,
    /// As `reset`, once after the last run.
    #[serde(default)]
    pub cleanup: Vec<String>,
    /// A query that every arm of a group must answer alike after the same transactions from the same start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal: Option<Equal>,
    /// Also measure the mean time of each statement, in runs of their own.
    #[serde(default)]
    pub statements: bool,
    /// Whether values of the metric add up, as the times of a packet do. Then a report shows by how much an arm differs
    /// from the first of its group, not how many times the first it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adds_up: bool,
    /// Metrics that a report shows besides the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub show: Vec<MetricName>,
    /// Series of the recorder that the record keeps besides the usual ones, by the beginning of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record: Vec<String>,
    /// What a guest needs, if the experiment runs in a guest alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestNeeds>,
    /// How every arm is run, unless it says otherwise.
    #[serde(default)]
    pub run: Setup,
    /// What is compared.
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
    /// Times that are differences of two arms.
    #[serde(default, rename = "split", skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<Split>,
}

/// The data that `pgbench -i` makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Scale factor: 100,000 accounts each. 0: no tables of pgbench.
    #[serde(default)]
    pub scale: u32,
    /// SQL files beside the experiment that are run after the tables are made, before the first run.
    #[serde(default)]
    pub files: Vec<String>,
}

/// What a guest needs for an experiment that would change the machine on which it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestNeeds {
    /// Modules of the kernel in the order in which they are loaded, each with its parameters.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Programs, with their libraries, and other files.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Shell lines that come before the experiment.
    #[serde(default)]
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
#[serde(untagged)]
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

/// The name of a metric that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MetricName(String);

impl Experiment {
    /// Parses and checks the text of a file.
    ///
    /// # Errors
    /// [`Error::Experiment`] with the line, and the nearest known word for an unknown one.
    pub fn parse(name: &str, text: &str, selection: &Selection) -> Result<Self, Error> {
        let wrong = |why: String| Error::Experiment { name: name.to_owned(), why };
        let (text, values) = selection.fill(text).map_err(wrong)?;
        let mut parsed: Self = toml::from_str(&text).map_err(|error| wrong(located(&error, &text)))?;
        name.clone_into(&mut parsed.name);
        (parsed.values, parsed.quick) = (values, BTreeMap::new());
        parsed.check_values().map_err(wrong)?;
        parsed.arms = parsed.arms.iter().flat_map(Arm::swept).collect();
        parsed.check().map_err(wrong)?;
        selection.keep_arms(&mut parsed).map_err(wrong)?;
        Ok(parsed)
    }

    /// Values of an arm do not reach the words that all arms inherit.
    fn check_values(&self) -> Result<(), String> {
        let inherited = serde_json::to_string(&self.run).map_err(|error| error.to_string())?;
        let names = self.arms.iter().flat_map(|arm| arm.sweep.keys().chain(arm.each.iter().flat_map(BTreeMap::keys)));
        match names.into_iter().find(|name| inherited.contains(&format!("{{{name}}}"))) {
            Some(name) => {
                Err(format!("[run] has {{{name}}}, a value that only arms have: write that word into their [arm.run]"))
            }
            None => Ok(()),
        }
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

    /// The arms that an arm is compared with.
    pub fn against(&self, arm: &Arm) -> Vec<&Arm> {
        let first = || self.arms.iter().find(|one| one.group == arm.group && one.name != arm.name);
        match arm.against.is_empty() {
            true => first().filter(|first| self.position(first) < self.position(arm)).into_iter().collect(),
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

    /// Two command lines, to be compared by the time they take.
    ///
    /// # Errors
    /// [`Error::Experiment`] if a number is out of its range.
    pub fn of_commands(a: &str, b: &str) -> Result<Self, Error> {
        let arm = |name: &str, command: &str| Arm {
            name: name.to_owned(),
            about: command.to_owned(),
            group: String::new(),
            promise: None,
            limiter: None,
            against: Vec::new(),
            after: None,
            run: Setup { command: Some(command.to_owned()), ..Setup::default() },
            sweep: BTreeMap::new(),
            each: Vec::new(),
        };
        let one = Self {
            name: "commands".to_owned(),
            question: "Which of two commands takes less time?".to_owned(),
            expected: "nothing".to_owned(),
            read: "A run is one process, from its start to its exit; the shell's start is in it.".to_owned(),
            metric: MetricName("wall_seconds".to_owned()),
            matters_percent: five(),
            blocks: ten(),
            seconds: 1,
            warm_up: WarmUp::default(),
            again: None,
            server: false,
            values: BTreeMap::new(),
            quick: BTreeMap::new(),
            files: Vec::new(),
            data: Data::default(),
            reset: Vec::new(),
            setup: Vec::new(),
            cleanup: Vec::new(),
            equal: None,
            statements: false,
            adds_up: false,
            show: Vec::new(),
            record: Vec::new(),
            guest: None,
            run: Setup::default(),
            arms: vec![arm("a", a), arm("b", b)],
            splits: Vec::new(),
        };
        one.check().map_err(|why| Error::Experiment { name: one.name.clone(), why })?;
        Ok(one)
    }

    fn position(&self, arm: &Arm) -> usize {
        self.arms.iter().position(|one| one.name == arm.name).unwrap_or(usize::MAX)
    }

    fn check(&self) -> Result<(), String> {
        let range = |what: &str, given: u32, min: u32, max: u32| match (min..=max).contains(&given) {
            true => Ok(()),
            false => Err(format!("{what} must be from {min} to {max}, not {given}")),
        };
        range("blocks", self.blocks, 1, BLOCKS_MAX)?;
        range("seconds", self.seconds, 1, RUN_SECONDS_MAX)?;
        self.check_warm_up(self.seconds)?;
        if !(0.1..=100.0).contains(&self.matters_percent) {
            return Err("matters_percent must be from 0.1 to 100".to_owned());
        }
        if self.arms.is_empty() || self.arms.len() > ARMS_MAX {
            return Err(format!("there must be from 1 to {ARMS_MAX} arms, not {}", self.arms.len()));
        }
        let mut names = BTreeSet::new();
        for arm in &self.arms {
            let of = |why: String| format!("arm {}: {why}", arm.name);
            if arm.name.is_empty() || !names.insert(&arm.name) {
                return Err(format!("two arms are named {:?}, or one has no name", arm.name));
            }
            if arm.name == AGAIN {
                return Err(format!("no arm can be named {AGAIN}: that is the second turn of one of them"));
            }
            self.known(&arm.against).map_err(of)?;
            self.check_after(arm)?;
            self.setup(arm).check(self.metric.as_str()).map_err(of)?;
        }
        self.known(self.again.as_slice()).map_err(|why| format!("again: {why}"))?;
        if let Some(before) = &self.twice().after {
            return Err(format!("again: {} continues {before}, so it has no turn of its own", self.twice().name));
        }
        if !self.server {
            self.check_without_server()?;
        }
        for split in &self.splits {
            let arms = [Some(&split.of), split.without.as_ref()];
            let arms: Vec<String> = arms.into_iter().flatten().cloned().collect();
            self.known(&arms).map_err(|why| format!("split {}: {why}", split.name))?;
        }
        Ok(())
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
    fn check_without_server(&self) -> Result<(), String> {
        if let Some(word) = self.arms.iter().find_map(|arm| self.setup(arm).word_for_a_server()) {
            return Err(format!("{word} needs a server, and server = false"));
        }
        if self.arms.iter().any(|arm| self.setup(arm).command.is_none()) {
            return Err("pgbench needs a server; every arm without one needs a command".to_owned());
        }
        let before = self.arms.iter().flat_map(|arm| self.setup(arm).before);
        let lines = [&self.setup, &self.reset, &self.cleanup].into_iter().flatten().cloned().chain(before);
        match lines.into_iter().find(|line| !line.starts_with('!')) {
            Some(line) => Err(format!("SQL needs a server, and server = false; a shell command begins with !: {line}")),
            None => Ok(()),
        }
    }

    fn known(&self, names: &[String]) -> Result<(), String> {
        match names.iter().find(|name| !name.is_empty() && self.arm(name).is_none()) {
            None => Ok(()),
            Some(other) => {
                let known: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
                Err(unknown("arm", other, &known))
            }
        }
    }
}

impl MetricName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The metric.
    pub fn metric(&self) -> &'static Metric {
        Metric::by_name(&self.0).unwrap_or(&crate::core::METRICS[0])
    }
}

impl TryFrom<String> for MetricName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match Metric::by_name(&name) {
            Some(_) => Ok(Self(name)),
            None => {
                let known: Vec<&str> = crate::core::METRICS.iter().map(|one| one.name).collect();
                Err(unknown("metric", &name, &known))
            }
        }
    }
}

impl From<MetricName> for String {
    fn from(name: MetricName) -> Self {
        name.0
    }
}

impl Default for WarmUp {
    fn default() -> Self {
        Self::Seconds(0.0)
    }
}

/// What is wrong in a file, with its line.
fn located(error: &toml::de::Error, text: &str) -> String {
    match error.span() {
        Some(span) => format!("line {}: {}", line_of(text, span.start), complaint(error)),
        None => complaint(error),
    }
}

fn tps() -> MetricName {
    MetricName("tps".to_owned())
}

fn yes() -> bool {
    true
}

fn five() -> f64 {
    5.0
}

fn ten() -> u32 {
    10
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Protocol;

    const HEAD: &str = "question = 'q?'\nexpected = 'e'\nread = 'r'\nseconds = 5\nrun = { scripts = ['a.sql'] }\n";

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
            ("bloks = 3\n", "line 6: unknown key \"bloks\": did you mean \"blocks\"?"),
            ("metric = 'tsp'\n", "line 6: unknown metric \"tsp\": did you mean \"tps\"?"),
            (
                "[[arm]]\nname = 'a'\nabout = ''\nrun = { protocol = 'prepare' }\n",
                "line 9: unknown word \"prepare\": did you mean \"prepared\"?",
            ),
            ("blocks = 0\n", "blocks must be from 1"),
            ("warm_up = 3\n", "warm_up, 3 s, must be at most half of the 5 s of a run"),
            ("seconds = 5\n", "line 6: duplicate key"),
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
            ("run = { command = 'true', scripts = ['b.sql'] }\n", "either scripts or a command"),
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
        assert!(parse("").unwrap_err().contains("the key \"arm\" is missing"));
    }
}
