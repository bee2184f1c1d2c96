//! Findings: what is wrong, how that is known, and the way back.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It is so.
    Fact,
    /// It follows from this server's own counters.
    Arithmetic,
    /// It is likely. Measure before and after.
    Hypothesis,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// It costs something, or will.
    Warning,
    /// Data are in danger, or the server will stop.
    Critical,
}

/// What a finding endangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Danger {
    /// The server may stop, or refuse connections or writes.
    Service,
    /// Data may be lost or wrong, or a backup of them incomplete.
    Data,
}

/// What is wrong with a server or its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// By this it is recognised in another report, and silenced: `CHECK`, `CHECK:SUBJECT` or `CHECK:DATABASE:SUBJECT`.
    pub key: String,
    /// Name of the check that found it.
    #[serde(rename = "id")]
    pub check: String,
    /// How sure it is.
    pub class: Class,
    /// How much it matters.
    pub level: Level,
    /// The database, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// What it is about, such as a table or a setting. Empty for the server or the machine as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// What is wrong, as a sentence without a period.
    pub sentence: String,
    /// How that is known.
    pub evidence: Vec<Evidence>,
    /// Those of these numbers that a page draws beside each other, because their sizes say more than the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bar>,
    /// Seconds for which the server has counted, if the finding rests on its counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_seconds: Option<f64>,
    /// Share of the time of all statements that it costs, in percent, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_percent: Option<f64>,
    /// Bytes of the disk or of memory that it takes for nothing, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waste_bytes: Option<u64>,
    /// What it endangers, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub danger: Option<Danger>,
    /// What else could explain the evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<String>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// A change whose effect an experiment of the lab can show before it is made. It may be one that the repair leaves to
    /// you, because it needs a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Change>,
}

/// A number or a word that shows something, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is.
    pub name: String,
    /// Its value, as a person reads it.
    pub value: String,
    /// The view, file or command that shows it.
    pub source: String,
}

/// A number that is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// What it is.
    pub name: String,
    /// Its size, in the unit that all of the finding have.
    pub value: f64,
    /// It, as a person reads it.
    pub shown: String,
}

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// What to do, as a sentence without a period.
    pub sentence: String,
    /// SQL statements in their order. One that begins with `$ ` is a shell command, one with `-- ` a remark.
    pub commands: Vec<String>,
    /// What may go wrong, or what it costs.
    pub risk: String,
    /// What must be restarted before it takes effect.
    pub restart: Restart,
    /// The same as a change that can be applied and taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// A change of a server or a machine that can be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The kind of change, such as `setting`.
    pub kind: String,
    /// What it changes, as the kind writes it.
    pub target: String,
    /// The new value; `None` takes the target's own value away.
    pub value: Option<String>,
}

impl Change {
    /// The change that gives a target another value.
    pub fn new(kind: &str, target: impl Into<String>, value: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), target: target.into(), value: Some(value.into()) }
    }
}

/// What must be restarted before a repair takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Nothing.
    Nothing,
    /// The server reads its configuration again.
    Reload,
    /// The server.
    Server,
    /// The machine, or a file system is mounted again.
    Machine,
}

impl Finding {
    /// A finding with a sentence alone.
    pub fn new(
        check: &str,
        class: Class,
        level: Level,
        subject: impl Into<String>,
        sentence: impl Into<String>,
    ) -> Self {
        let subject = subject.into();
        Self {
            key: key(&[check, &subject]),
            check: check.to_owned(),
            class,
            level,
            database: None,
            subject,
            sentence: sentence.into(),
            evidence: Vec::new(),
            bars: Vec::new(),
            counted_seconds: None,
            time_percent: None,
            waste_bytes: None,
            danger: None,
            alternative: None,
            repair: None,
            experiment: None,
        }
    }

    /// Adds evidence.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString, source: &str) -> Self {
        self.evidence.push(Evidence { name: name.to_owned(), value: value.to_string(), source: source.to_owned() });
        self
    }

    /// Adds evidence, if its value is known.
    #[must_use]
    pub fn with_known(self, name: &str, value: Option<impl ToString>, source: &str) -> Self {
        match value {
            Some(value) => self.with(name, value, source),
            None => self,
        }
    }

    /// Adds a number that is drawn beside the others.
    #[must_use]
    pub fn drawn(mut self, name: &str, value: u64, shown: impl ToString) -> Self {
        self.bars.push(Bar { name: name.to_owned(), value: value as f64, shown: shown.to_string() });
        self
    }

    /// Says for how many seconds the server has counted, if that is known.
    #[must_use]
    pub fn counted(self, seconds: impl Into<Option<f64>>) -> Self {
        Self { counted_seconds: seconds.into(), ..self }
    }

    /// Says which share of the time of all statements it costs, in percent.
    #[must_use]
    pub fn costs(self, percent: f64) -> Self {
        Self { time_percent: Some(percent), ..self }
    }

    /// Says how many bytes it takes for nothing.
    #[must_use]
    pub fn wastes(self, bytes: u64) -> Self {
        Self { waste_bytes: Some(bytes), ..self }
    }

    /// Says what it endangers.
    #[must_use]
    pub fn endangers(self, danger: Danger) -> Self {
        Self { danger: Some(danger), ..self }
    }

    /// Compares how much two findings matter: by level, then by the share of the time, then by the bytes. A danger counts as
    /// a share of the time: our own choice.
    pub fn cmp_severity(&self, other: &Self) -> Ordering {
        let weight = |one: &Self| {
            let danger = match one.danger {
                Some(Danger::Data) => 20.0,
                Some(Danger::Service) => 10.0,
                None => 0.0,
            };
            one.time_percent.unwrap_or(0.0).max(danger)
        };
        let order = self.level.cmp(&other.level).then(weight(self).total_cmp(&weight(other)));
        order.then(self.waste_bytes.cmp(&other.waste_bytes))
    }

    /// Says what else could explain the evidence.
    #[must_use]
    pub fn unless(self, alternative: impl Into<String>) -> Self {
        Self { alternative: Some(alternative.into()), ..self }
    }

    /// Says what to do, and what may go wrong. [`run`](Self::run), [`needs`](Self::needs) and [`changes`](Self::changes)
    /// say more about it.
    #[must_use]
    pub fn repaired(self, sentence: impl Into<String>, risk: impl Into<String>) -> Self {
        self.repaired_by(Repair::new(sentence, risk))
    }

    /// Says what to do.
    #[must_use]
    pub fn repaired_by(self, repair: impl Into<Option<Repair>>) -> Self {
        Self { repair: repair.into(), ..self }
    }

    /// Says what to do, if it takes effect when the server starts. Its change is then one for an experiment alone: the lab
    /// may restart its own server, and the doctor no other one.
    #[must_use]
    pub fn repaired_at_start(self, mut repair: Repair) -> Self {
        let experiment = repair.change.take();
        Self { experiment, ..self.repaired_by(repair.needs(Restart::Server)) }
    }

    /// Adds commands to the repair.
    #[must_use]
    pub fn run<C: Into<String>>(self, commands: impl IntoIterator<Item = C>) -> Self {
        Self { repair: self.repair.map(|repair| repair.run(commands)), ..self }
    }

    /// Says what must be restarted before the repair takes effect.
    #[must_use]
    pub fn needs(self, restart: Restart) -> Self {
        Self { repair: self.repair.map(|repair| repair.needs(restart)), ..self }
    }

    /// Says which change the repair is.
    #[must_use]
    pub fn changes(self, change: impl Into<Option<Change>>) -> Self {
        Self { repair: self.repair.map(|repair| repair.changes(change)), ..self }
    }

    /// Says that it is about a database.
    #[must_use]
    pub fn of_database(self, name: &str) -> Self {
        Self { key: key(&[&self.check, name, &self.subject]), database: Some(name.to_owned()), ..self }
    }
}

impl Repair {
    /// A repair without commands, that needs no restart.
    pub fn new(sentence: impl Into<String>, risk: impl Into<String>) -> Self {
        let (sentence, risk) = (sentence.into(), risk.into());
        Self { sentence, commands: Vec::new(), risk, restart: Restart::Nothing, change: None }
    }

    /// Adds commands: SQL statements, shell commands after `$ `, remarks after `-- `.
    #[must_use]
    pub fn run<C: Into<String>>(mut self, commands: impl IntoIterator<Item = C>) -> Self {
        self.commands.extend(commands.into_iter().map(Into::into));
        self
    }

    /// Says what must be restarted before it takes effect.
    #[must_use]
    pub fn needs(self, restart: Restart) -> Self {
        Self { restart, ..self }
    }

    /// Says which change it is.
    #[must_use]
    pub fn changes(self, change: impl Into<Option<Change>>) -> Self {
        Self { change: change.into(), ..self }
    }
}

fn key(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_check_database_and_subject() {
        let finding = Finding::new("invalid-index", Class::Fact, Level::Warning, "public.i", "it is invalid");
        assert_eq!(finding.key, "invalid-index:public.i");
        assert_eq!(finding.of_database("shop").key, "invalid-index:shop:public.i");
        assert_eq!(Finding::new("a", Class::Fact, Level::Info, "", "b").key, "a");
    }

    #[test]
    fn a_finding_survives_json() {
        let finding = Finding::new("a", Class::Hypothesis, Level::Critical, "s", "it is so").with("n", 5, "pg_x");
        let text = serde_json::to_string(&finding).unwrap();
        assert!(text.contains("\"hypothesis\"") && text.contains("\"id\":\"a\"") && !text.contains("repair"), "{text}");
        assert_eq!(serde_json::from_str::<Finding>(&text).unwrap(), finding);
    }
}
