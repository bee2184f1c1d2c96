//! Arms: what an experiment compares, and how each is run.

use super::disk::{self, Disk};
use super::plain_text;
use super::via::Via;
use super::words::words;
use crate::core::{Factors, Limiter};
use crate::limits::{CLIENTS_MAX, MEMORY_MB_MIN, PAUSE_SECONDS_MAX, WAL_SEGMENT_MB_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One of the things that are compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// What it is, as a phrase; empty if that is not said.
    pub about: String,
    /// Arms of a group do the same work.
    pub group: String,
    /// What a crash loses that it does not lose of others, if the lab cannot see that in the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// What limits it, if it was made to be limited: a report says whether that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limiter: Option<Limiter>,
    /// Arms that it is compared with. If none is named: the first of its group. An empty name: with none.
    pub against: Vec<String>,
    /// The arm that it continues: it runs right after that one in each block, without a reset in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How it differs from the experiment's `run`.
    pub run: Setup,
    /// Values that replace `{NAME}` in the arm's name and in the texts of its run: one arm for each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "plain_text::lists")]
    pub sweep: BTreeMap<String, Vec<String>>,
    /// Values that replace `{NAME}` together: one arm for each of these sets, and for each value of the sweep.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "plain_text::maps")]
    pub each: Vec<BTreeMap<String, String>>,
}

/// How a run is made. What is absent is as in the experiment's `run`, and there as in pgbench.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Scripts: files beside the experiment or `builtin:NAME`, each with `@WEIGHT` if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scripts: Option<Vec<String>>,
    /// Sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<Number>,
    /// Threads of pgbench.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Number>,
    /// How statements are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// A new session for each transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<bool>,
    /// The way to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// Milliseconds that a proxy adds to each round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<Number>,
    /// A run counts although pgbench itself had no time left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_may_limit: Option<bool>,
    /// Scheduled transactions per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Number>,
    /// Transactions that take longer are late; with a rate, those that cannot be in time are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_limit_ms: Option<Number>,
    /// Variables of the scripts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Number>,
    /// Rows that a transaction or a command writes; then the metric `rows_per_second` is measured. 0: there are none to count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Number>,
    /// Tables without WAL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlogged: Option<bool>,
    /// Fillfactor of the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fillfactor: Option<u8>,
    /// The server: a major version, or the directory of its programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgres: Option<String>,
    /// Settings of the server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "plain_text::map")]
    pub settings: BTreeMap<String, String>,
    /// Settings of the host, by the name of `sysctl`, or `disk.` and a name of the queue of the data's disk.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "plain_text::map")]
    pub host: BTreeMap<String, String>,
    /// Megabytes that the server and the page cache that it fills may use.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "plain_text::whole_if_there")]
    pub memory_mb: Option<u32>,
    /// The WAL on a device of its own: the one of `--wal-dir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_apart: Option<bool>,
    /// The disk of the server's data: a name, or words with their values.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "disk::text_if_there")]
    pub disk: Option<String>,
    /// Megabytes of a segment of the WAL.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "plain_text::whole_if_there")]
    pub wal_segment_mb: Option<u32>,
    /// A shell command that runs again and again beside the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// SQL statements before each run of this arm, after `reset`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// A query that must answer true after each run; or, after `!`, a shell command that must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// A command line to measure instead of pgbench. It finds the server in libpq's variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Whether a shell runs `command`, as if this is absent. Otherwise it is a program with its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<bool>,
    /// A shell command that prints the version of what `command` runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How statements are sent: `-M` of pgbench.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// As text.
    #[default]
    Simple,
    /// With parameters, parsed each time.
    Extended,
    /// With parameters, parsed once per session.
    Prepared,
}

/// A number, or a text in which a sweep puts one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or a text in which a sweep puts one")]
pub enum Number {
    /// The number.
    Plain(f64),
    /// A text such as `{clients}`.
    Text(String),
}

impl Arm {
    /// As [`Arm::swept`], without the combinations of a grid that pgbench cannot run: more threads than clients. If it can
    /// run none, all stay, so that they are refused. `base` is what all arms inherit.
    pub(crate) fn made(&self, base: &Setup) -> Vec<Self> {
        let arms = self.swept();
        let fits = |arm: &Self| {
            let setup = arm.run.over(base);
            setup.threads() <= setup.clients()
        };
        let is_grid = self.sweep.len() > 1 && arms.iter().any(fits);
        arms.into_iter().filter(|arm| !is_grid || fits(arm)).collect()
    }

    /// One arm for each set of values and each combination of the sweep's.
    pub(crate) fn swept(&self) -> Vec<Self> {
        let mut arms = vec![Self { sweep: BTreeMap::new(), each: Vec::new(), ..self.clone() }];
        if !self.each.is_empty() {
            let with_all = |set: &BTreeMap<String, String>| {
                set.iter().fold(arms[0].clone(), |arm, (name, value)| arm.with(name, value))
            };
            arms = self.each.iter().map(with_all).collect();
        }
        for (name, values) in &self.sweep {
            let each = |value: &String| arms.iter().map(|arm| arm.with(name, value)).collect::<Vec<_>>();
            arms = values.iter().flat_map(each).collect();
        }
        for arm in &mut arms {
            // A word that some of these arms do not have is empty in theirs.
            // One empty name says that an arm is compared with none.
            if !arm.against.iter().all(String::is_empty) {
                arm.against.retain(|name| !name.is_empty());
            }
            arm.after = arm.after.take().filter(|name| !name.is_empty());
            arm.promise = arm.promise.take().filter(|promise| !promise.is_empty());
        }
        arms
    }

    fn with(&self, name: &str, value: &str) -> Self {
        let mut arm = Self { run: self.run.with(name, value), ..self.clone() };
        let named = [&mut arm.name, &mut arm.about, &mut arm.group].into_iter();
        for text in named.chain(&mut arm.against).chain(&mut arm.after).chain(&mut arm.promise) {
            *text = text.replace(&format!("{{{name}}}"), value);
        }
        arm
    }
}

/// How a script of pgbench itself is named.
pub(crate) const BUILTIN: &str = "builtin:";

impl Setup {
    /// These words, and for those that are absent the ones of `base`.
    pub(crate) fn over(&self, base: &Self) -> Self {
        let own = self.clone();
        let mut variables = base.variables.clone();
        variables.extend(own.variables);
        let mut settings = base.settings.clone();
        settings.extend(own.settings);
        let mut host = base.host.clone();
        host.extend(own.host);
        Self {
            scripts: own.scripts.or_else(|| base.scripts.clone().filter(|_| own.command.is_none())),
            clients: own.clients.or_else(|| base.clients.clone()),
            threads: own.threads.or_else(|| base.threads.clone()),
            protocol: own.protocol.or(base.protocol),
            connect: own.connect.or(base.connect),
            via: own.via.or(base.via),
            delay_ms: own.delay_ms.or_else(|| base.delay_ms.clone()),
            client_may_limit: own.client_may_limit.or(base.client_may_limit),
            rate: own.rate.or_else(|| base.rate.clone()),
            latency_limit_ms: own.latency_limit_ms.or_else(|| base.latency_limit_ms.clone()),
            variables,
            rows: own.rows.or_else(|| base.rows.clone()),
            unlogged: own.unlogged.or(base.unlogged),
            fillfactor: own.fillfactor.or(base.fillfactor),
            postgres: own.postgres.or_else(|| base.postgres.clone()),
            settings,
            host,
            memory_mb: own.memory_mb.or(base.memory_mb),
            wal_apart: own.wal_apart.or(base.wal_apart),
            disk: own.disk.or_else(|| base.disk.clone()),
            wal_segment_mb: own.wal_segment_mb.or(base.wal_segment_mb),
            beside: own.beside.or_else(|| base.beside.clone()),
            before: [base.before.clone(), own.before].concat(),
            check: own.check.or_else(|| base.check.clone()),
            command: own.command.or_else(|| base.command.clone()),
            shell: own.shell.or(base.shell),
            version: own.version.or_else(|| base.version.clone()),
        }
    }

    /// These words, with a value in place of `{NAME}`.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mark = format!("{{{name}}}");
        let mut new = self.clone();
        let of_load = [&mut new.clients, &mut new.threads, &mut new.rate, &mut new.latency_limit_ms];
        let numbers = of_load.into_iter().chain([&mut new.rows, &mut new.delay_ms]);
        for number in numbers.flatten().chain(new.variables.values_mut()) {
            *number = number.with(&mark, value);
        }
        let said = [&mut new.command, &mut new.version, &mut new.beside, &mut new.check];
        let words = said.into_iter().chain([&mut new.postgres, &mut new.disk]);
        let lists = new.before.iter_mut().chain(new.scripts.iter_mut().flatten());
        let settings = new.settings.values_mut().chain(new.host.values_mut());
        for text in words.flatten().chain(lists).chain(settings) {
            *text = text.replace(&mark, value);
        }
        new
    }

    /// Every word that is there, as text.
    pub(crate) fn factors(&self) -> Factors {
        let words = [
            ("scripts", self.scripts.as_ref().map(|scripts| scripts.join(" "))),
            ("clients", self.clients.as_ref().map(Number::to_string)),
            ("threads", self.threads.as_ref().map(Number::to_string)),
            ("protocol", self.protocol.map(word)),
            ("connect", self.connect.map(|connect| connect.to_string())),
            ("via", self.via.map(word)),
            ("delay_ms", self.delay_ms.as_ref().map(Number::to_string)),
            ("rate", self.rate.as_ref().map(Number::to_string)),
            ("latency_limit_ms", self.latency_limit_ms.as_ref().map(Number::to_string)),
            ("unlogged", self.unlogged.map(|unlogged| unlogged.to_string())),
            ("fillfactor", self.fillfactor.map(|percent| percent.to_string())),
            ("postgres", self.postgres.clone()),
            ("command", self.command.clone()),
            ("shell", self.shell.map(|shell| shell.to_string())),
            ("memory_mb", self.memory_mb.map(|mb| mb.to_string())),
            ("wal_apart", self.wal_apart.map(|apart| apart.to_string())),
            ("disk", self.disk.clone().filter(|disk| disk != disk::OWN)),
            ("wal_segment_mb", self.wal_segment_mb.map(|mb| mb.to_string())),
            ("beside", self.beside.clone()),
        ];
        let there = words.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let variables = self.variables.iter().map(|(name, value)| (name.clone(), value.to_string()));
        there.chain(variables).chain(self.settings.clone()).chain(self.host.clone()).collect()
    }

    /// The first of these words that means something only for a server.
    pub(crate) fn word_for_a_server(&self) -> Option<&'static str> {
        let given = [
            ("host", !self.host.is_empty()),
            ("memory_mb", self.memory_mb.is_some()),
            ("wal_apart", self.wal_apart.is_some()),
            ("disk", self.disk.is_some()),
            ("wal_segment_mb", self.wal_segment_mb.is_some()),
            ("beside", self.beside.is_some()),
            ("check", self.check.is_some()),
            ("settings", !self.settings.is_empty()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(word, _)| word)
    }

    /// Sessions.
    pub(crate) fn clients(&self) -> u32 {
        self.clients.as_ref().and_then(Number::whole).unwrap_or(1)
    }

    /// Threads of pgbench.
    pub(crate) fn threads(&self) -> u32 {
        self.threads.as_ref().and_then(Number::whole).unwrap_or(1)
    }

    /// Rows that a transaction or a command writes. `None` also for 0, which says that there are none to count.
    pub(crate) fn rows(&self) -> Option<f64> {
        self.rows.as_ref().and_then(Number::value).filter(|rows| *rows > 0.0)
    }

    /// The slow disk of its server, if it is to have one.
    pub(crate) fn slow_disk(&self) -> Option<Disk> {
        Disk::parsed(self.disk.as_deref()?).ok().flatten()
    }

    /// Milliseconds that a proxy adds to each round trip.
    pub(crate) fn delay_ms(&self) -> Option<f64> {
        self.delay_ms.as_ref().and_then(Number::value)
    }

    /// Scheduled transactions per second.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate.as_ref().and_then(Number::value)
    }

    /// The latency in milliseconds above which a transaction is late.
    pub(crate) fn latency_limit_ms(&self) -> Option<f64> {
        self.latency_limit_ms.as_ref().and_then(Number::value)
    }

    /// What is wrong in these words, each with why, for an experiment that this metric decides.
    pub(crate) fn refused(&self, metric: &str) -> Vec<(&'static str, String)> {
        let mut refused = Vec::new();
        let mut refuse = |key: &'static str, why: String| refused.push((key, why));
        for (name, number) in [("clients", &self.clients), ("threads", &self.threads)] {
            let whole = number.as_ref().map_or(Some(1), Number::whole);
            if !whole.is_some_and(|whole| (1..=CLIENTS_MAX).contains(&whole)) {
                refuse(name, format!("{name} must be a number from 1 to {CLIENTS_MAX}"));
            }
        }
        if self.threads() > self.clients() {
            refuse("threads", format!("{} threads are more than {} clients", self.threads(), self.clients()));
        }
        if self.rate.is_some() && !self.rate().is_some_and(|rate| rate > 0.0) {
            refuse("rate", "rate must be a positive number".to_owned());
        }
        if self.latency_limit_ms.is_some() && !self.latency_limit_ms().is_some_and(|ms| ms > 0.0) {
            refuse("latency_limit_ms", "latency_limit_ms must be a positive number".to_owned());
        }
        if self.scripts.is_none() && self.command.is_none() {
            refuse("scripts", "it needs either scripts or a command".to_owned());
        }
        if self.scripts.is_some() && self.command.is_some() {
            refuse("scripts", "it has both scripts and a command: it can run only one of them".to_owned());
        }
        if let Some(Err(why)) = self.command.as_ref().filter(|_| self.shell == Some(false)).map(|text| words(text)) {
            refuse("command", format!("{why}, and shell = false"));
        }
        if self.fillfactor.is_some_and(|percent| !(10..=100).contains(&percent)) {
            refuse("fillfactor", "fillfactor must be from 10 to 100".to_owned());
        }
        if self.delay_ms.is_some() && !self.delay_ms().is_some_and(|ms| (0.0..=1e3 * PAUSE_SECONDS_MAX).contains(&ms)) {
            refuse("delay_ms", format!("delay_ms must be from 0 to {}", 1e3 * PAUSE_SECONDS_MAX));
        }
        if self.via == Some(Via::Veth) && self.delay_ms.is_some() {
            refuse("via", "via = \"veth\" has no delay".to_owned());
        }
        if self.memory_mb.is_some_and(|mb| mb < MEMORY_MB_MIN) {
            refuse("memory_mb", format!("memory_mb must be at least {MEMORY_MB_MIN}, or the server may not start"));
        }
        if let Some(Err(why)) = self.disk.as_deref().map(Disk::parsed) {
            refuse("disk", why);
        }
        if self.wal_segment_mb.is_some_and(|mb| !mb.is_power_of_two() || mb > WAL_SEGMENT_MB_MAX) {
            refuse("wal_segment_mb", format!("wal_segment_mb must be 1, 2, 4 and so on, up to {WAL_SEGMENT_MB_MAX}"));
        }
        if self.delay_ms.is_some() && self.via == Some(Via::Socket) {
            refuse("via", "a delay needs via = \"tcp\"".to_owned());
        }
        if self.rows.as_ref().is_some_and(|rows| rows.value().is_none_or(|rows| rows < 0.0)) {
            refuse("rows", "rows must be a number".to_owned());
        }
        if metric == "rows_per_second" && self.rows.is_none() {
            let why = "the metric rows_per_second needs rows, the number that a transaction or a command writes";
            refuse("rows", why.to_owned());
        }
        refused
    }
}

/// A protocol or a way, as a file names it.
pub(crate) fn word(value: impl fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

impl Number {
    fn value(&self) -> Option<f64> {
        match self {
            Self::Plain(value) => Some(*value),
            Self::Text(text) => text.parse().ok(),
        }
        .filter(|value| value.is_finite())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
    fn whole(&self) -> Option<u32> {
        let value = self.value()?;
        (value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value)).then_some(value as u32)
    }

    /// The number, with a value in place of a mark.
    pub(crate) fn with(&self, mark: &str, value: &str) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.replace(mark, value)),
            Self::Plain(_) => self.clone(),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
