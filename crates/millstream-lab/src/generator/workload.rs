//! A workload: classes of requests, each with its rate and its objective.

use super::goal::{LatencyGoal, Objective};
use super::pace::Pace;
use super::statement::Statement;
use super::value::Draw;

/// What to send to a server, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// What it asks, in one sentence.
    pub about: String,
    /// Sessions, which carry one request each at a time.
    pub connections: usize,
    /// Length of the schedule.
    pub seconds: u32,
    /// Most requests that wait for a free session. More are dropped, and counted.
    pub backlog: usize,
    /// After the end of the schedule, requests that wait or run have this long to finish. Then they are dropped, and
    /// their sessions are ended.
    pub finish_seconds: u32,
    /// What a search for the highest rate is to keep.
    pub search: Option<LatencyGoal>,
    /// Its classes; at least one.
    pub classes: Vec<Class>,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its rate over time.
    pub pace: Pace,
    /// Its objective.
    pub objective: Option<Objective>,
    /// What a request sends. Several statements are one transaction.
    pub statements: Vec<Statement>,
    /// The values that a request draws, by name.
    pub values: Vec<(String, Draw)>,
}

impl Class {
    /// Names of what a request does, in order: `begin` and `commit` are steps of a transaction.
    pub(super) fn steps(&self) -> Vec<String> {
        let statements = self.statements.iter().map(|statement| statement.text.clone());
        if self.is_transaction() {
            let begin = std::iter::once("begin".to_owned());
            begin.chain(statements).chain(std::iter::once("commit".to_owned())).collect()
        } else {
            statements.collect()
        }
    }

    /// Whether a request is a transaction of several statements.
    pub(super) fn is_transaction(&self) -> bool {
        self.statements.len() > 1
    }
}

impl Workload {
    /// Expected requests per second, as the mean over the schedule.
    pub fn rate(&self) -> f64 {
        self.classes.iter().map(|class| class.pace.requests()).sum::<f64>() / f64::from(self.seconds)
    }

    /// The same workload with all rates multiplied.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        for class in &mut scaled.classes {
            class.pace = class.pace.scaled(factor);
        }
        scaled
    }
}

/// What is wrong with a workload file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Line, from 1; `None` if the fault is that something is missing.
    pub line: Option<usize>,
    /// What is wrong, and if it is a word, which one is nearest.
    pub message: String,
}
