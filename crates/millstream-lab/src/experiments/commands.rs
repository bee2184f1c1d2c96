//! Two command lines as an experiment of their own.

use super::arm::{Arm, Setup};
use super::chosen_metric::ChosenMetric;
use super::experiment::{Experiment, five, ten};
use super::words::words;
use crate::error::Error;
use crate::limits::WARM_UP_RUNS_MAX;
use millstream_host::in_path;

/// Two command lines that are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commands {
    /// The first.
    pub a: String,
    /// The second.
    pub b: String,
    /// What is compared; `None`: the time that a command takes.
    pub metric: Option<ChosenMetric>,
    /// A shell command before each run, which is not measured.
    pub prepare: Option<String>,
    /// Runs of each before the first block, which do not count.
    pub warm_up_runs: u32,
    /// Whether a shell runs them. Otherwise each is a program with its arguments.
    pub shell: bool,
}

impl Commands {
    /// These two, by the time they take, without a shell.
    pub fn new(a: &str, b: &str) -> Self {
        Self { a: a.to_owned(), b: b.to_owned(), ..Self::default() }
    }

    /// A program of theirs that PATH does not have. A path, and what a shell runs, is not looked for.
    pub fn missing_program(&self) -> Option<String> {
        let is_missing = |name: &String| !name.contains('/') && in_path(name).is_none();
        let first = |command: &String| words(command).ok()?.into_iter().next();
        [&self.a, &self.b].into_iter().filter(|_| !self.shell).filter_map(first).find(is_missing)
    }

    /// The experiment that compares them.
    ///
    /// # Errors
    /// [`Error::Asked`] if a command needs a shell, and none is asked for; if the warm-up has too many runs.
    pub fn experiment(&self) -> Result<Experiment, Error> {
        for command in [&self.a, &self.b] {
            if let (false, Err(why)) = (self.shell, words(command)) {
                return Err(Error::Asked(format!("{command}: {why}; --shell runs it by a shell")));
            }
        }
        if self.warm_up_runs > WARM_UP_RUNS_MAX {
            return Err(Error::range("warm-up", self.warm_up_runs.into(), 0, WARM_UP_RUNS_MAX.into()));
        }
        let metric =
            self.metric.clone().map_or_else(|| ChosenMetric::known("wall_seconds"), Ok).map_err(Error::Asked)?;
        let question = match metric.as_str() {
            "wall_seconds" => "Which of two commands takes less time?".to_owned(),
            name => format!("Which of two commands has the better {name}?"),
        };
        let shell = if self.shell { "; the shell's start is in it" } else { "" };
        let read = format!("A run is one process, from its start to its exit{shell}.");
        let arm = |name: &str, command: &str| Arm {
            name: name.to_owned(),
            about: command.to_owned(),
            run: Setup { command: Some(command.to_owned()), shell: Some(self.shell), ..Setup::default() },
            ..Arm::default()
        };
        Ok(Experiment {
            name: "commands".to_owned(),
            question,
            read,
            metric,
            matters_percent: five(),
            blocks: ten(),
            seconds: 1,
            warm_up_runs: self.warm_up_runs,
            reset: self.prepare.iter().map(|command| format!("!{command}")).collect(),
            arms: vec![arm("a", &self.a), arm("b", &self.b)],
            ..Experiment::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_nowhere_is_named() {
        let missing = |a: &str| Commands::new(a, "true").missing_program();
        assert_eq!(missing("surely-no-such-program --x"), Some("surely-no-such-program".to_owned()));
        assert_eq!((missing("sh -c true"), missing("/nowhere/x")), (None, None));
        let by_shell = Commands { shell: true, ..Commands::new("surely-no-such-program", "true") };
        assert_eq!(by_shell.missing_program(), None);
    }
    use crate::core::Better;

    #[test]
    fn what_only_a_shell_understands_is_refused_without_one() {
        let refused = Commands::new("true", "sleep 1; exit").experiment().unwrap_err().to_string();
        assert_eq!(
            refused,
            "sleep 1; exit: only a shell understands ;, unless it is quoted; --shell runs it by a shell"
        );
        let with = Commands { shell: true, ..Commands::new("true", "sleep 1; exit") };
        assert!(with.experiment().unwrap().read.contains("the shell's start"));
        let many = Commands { warm_up_runs: WARM_UP_RUNS_MAX + 1, ..Commands::new("true", "false") };
        assert!(many.experiment().unwrap_err().to_string().starts_with("warm-up must be from 0 to 100"));
    }

    #[test]
    fn a_metric_of_their_own_decides() {
        let metric = ChosenMetric::own("requests", "req/s", Better::Higher, "").unwrap();
        let commands = Commands { metric: Some(metric), prepare: Some("sync".to_owned()), ..Commands::new("a", "b") };
        let one = commands.experiment().unwrap();
        assert_eq!(
            (one.question.as_str(), one.reset.as_slice()),
            ("Which of two commands has the better requests?", &["!sync".to_owned()][..])
        );
        assert!(one.own_metrics().map(|one| &one.unit).eq(["req/s"]));
    }
}
