//! A check: what it looks for, where it looks, and from which numbers on it reports.

use crate::host::Host;
use crate::refusal::Stop;
use crate::server::{Database, Server};
use crate::statement::Statements;
use millstream_model::{Class, Finding, Level};
use millstream_pg::Error;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A check of the doctor. It reads and changes nothing.
#[derive(Debug)]
pub struct Check {
    /// Its name: what is wrong.
    pub id: &'static str,
    /// What it looks for, as a sentence without a period.
    pub about: &'static str,
    /// How sure its findings are.
    pub class: Class,
    /// The numbers from which on it reports: the name of each, and its value unless the user sets another. The manual page
    /// says what it is, and where the value comes from.
    pub thresholds: &'static [(&'static str, f64)],
    /// Its manual page, as Markdown.
    pub manual: &'static str,
    /// How it looks.
    pub(crate) looks: &'static [Look],
}

/// What a look works for: its check, with the user's own thresholds.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    check: &'static Check,
    own: BTreeMap<String, f64>,
    /// What the look has kept. Clones of the task share it.
    kept: Arc<Mutex<Kept>>,
}

/// What a look has kept.
#[derive(Debug, Default)]
struct Kept {
    findings: Vec<Finding>,
    /// For how many seconds the counters have counted on which its findings rest.
    counted_seconds: Option<f64>,
}

impl Task {
    pub(crate) fn of(check: &'static Check, own: BTreeMap<String, f64>) -> Self {
        Self { check, own, kept: Arc::default() }
    }

    /// The value of a threshold that the check has.
    pub(crate) fn threshold(&self, name: &str) -> f64 {
        let default = || self.check.thresholds.iter().find(|(one, _)| *one == name).map(|(_, value)| *value);
        self.own.get(name).copied().or_else(default).unwrap_or(f64::INFINITY)
    }

    /// A finding of the check.
    pub(crate) fn finding(&self, level: Level, subject: impl Into<String>, sentence: impl Into<String>) -> Finding {
        Finding::new(self.check.id, self.check.class, level, subject, sentence)
    }

    /// Keeps a finding, whatever becomes of the rest of the look. A look that asks the server again and again keeps each
    /// finding as soon as it has it, because its time may end at each question.
    pub(crate) fn keep(&self, finding: Finding) {
        self.lock().findings.push(finding);
    }

    /// Takes what was kept.
    pub(crate) fn kept(&self) -> Vec<Finding> {
        std::mem::take(&mut self.lock().findings)
    }

    /// Says for how many seconds the counters have counted on which its findings rest, whether there are any or not. Of a
    /// look that does not say so, those of the database count, or of the server.
    pub(crate) fn counted(&self, seconds: f64) {
        self.lock().counted_seconds = Some(seconds);
    }

    /// The statements that took the most time in a database. The findings of the look rest on how they were counted.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn statements<'a>(&self, database: &'a Database) -> Result<&'a Statements, Error> {
        let statements = database.statements().await?;
        if let Some(seconds) = statements.counted_seconds {
            self.counted(seconds);
        }
        Ok(statements)
    }

    /// What was said of the counters.
    pub(crate) fn counted_seconds(&self) -> Option<f64> {
        self.lock().counted_seconds
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a check looks.
#[derive(Debug)]
pub(crate) enum Look {
    /// Once, at the server as a whole.
    Server(for<'a> fn(&'a Server, Task) -> Looking<'a>),
    /// In each database.
    Database(for<'a> fn(&'a Server, &'a Database, Task) -> Looking<'a>),
    /// At the server's machine, if the doctor runs there.
    Host(fn(&Host, &Task) -> Looked),
    /// The same, by a measurement: what contradicts it is true of this machine, and not of most of its kind.
    Measured(fn(&Host, &Task) -> Looked),
    /// Once, at the server, and at its machine too if the doctor runs there.
    Anywhere(for<'a> fn(&'a Server, Option<&'a Host>, Task) -> Looking<'a>),
    /// At both: what the server is set to, and what the machine has.
    Machine(for<'a> fn(&'a Server, &'a Host, Task) -> Looking<'a>),
    /// At its machine once more, at the end of the examination: counters can be compared with those of the beginning.
    Later(fn(&Host, &Task) -> Looked),
}

impl Check {
    /// Whether it looks at how the machine is set, and not at what the server does: most machines of a kind give the same
    /// notes.
    pub(crate) fn is_of_machine(&self) -> bool {
        self.looks.iter().all(|look| matches!(look, Look::Host(_) | Look::Machine(_) | Look::Later(_)))
    }
}

impl Look {
    /// Whether it sees the counters of the machine alone, and not the server's.
    pub(crate) fn is_of_machine(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Measured(_) | Self::Later(_))
    }
}

/// A look at work.
pub(crate) type Looking<'a> = Pin<Box<dyn Future<Output = Looked> + Send + 'a>>;

/// What a look comes to: what it saw, or why it ended before its end.
pub(crate) type Looked = Result<Seen, Stop>;

/// What a look saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What is wrong, besides what was kept. The worst comes first.
    pub(crate) findings: Vec<Finding>,
    /// What it could not look at, and what would allow it.
    pub(crate) unseen: Option<String>,
}

impl Seen {
    /// The same, but something more could not be looked at.
    pub(crate) fn but(self, unseen: Option<String>) -> Self {
        let all: Vec<String> = self.unseen.into_iter().chain(unseen).collect();
        Self { unseen: (!all.is_empty()).then(|| all.join("; ")), findings: self.findings }
    }
}

impl From<Finding> for Seen {
    fn from(finding: Finding) -> Self {
        Self { findings: vec![finding], unseen: None }
    }
}

impl FromIterator<Finding> for Seen {
    fn from_iter<I: IntoIterator<Item = Finding>>(findings: I) -> Self {
        Self { findings: findings.into_iter().collect(), unseen: None }
    }
}
