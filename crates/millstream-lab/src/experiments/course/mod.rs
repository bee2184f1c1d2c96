//! The course of an experiment: its arms take turns in random order, block by block.

mod aside;
mod equal;
mod order;
mod stage;
mod trial;
mod wrong;

pub(super) use wrong::is_wrong;

use self::order::{Order, Tries, Turn, Void};
use self::stage::Stage;
use self::trial::Trial;
use super::arm::{Arm, Setup};
use super::cluster::Trouble;
use super::conditions::Request;
use super::experiment::{WarmUp, WarmUpWord};
use super::files::Source;
use super::own_metric::void_the_silent;
use super::program::Length;
use super::record::Record;
use super::versions::Versions;
use crate::core::{Build, Outcome, Run};
use crate::error::Error;
use millstream_local::Progress;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// How an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended<S> {
    /// All planned runs are there.
    Finished,
    /// It was asked to stop, in this way. Finished runs are kept.
    Stopped(S),
}

/// Runs an experiment until it is finished or `stop` resolves. The record may be that of an earlier run: what it has
/// measured is not repeated. It is written to `dir` after every arm with those that continue it, so that nothing is lost.
/// In both cases the servers of the lab get back their own settings. `say` gets lines for the user.
///
/// # Errors
/// Whatever prevents the lab itself from working. What fails in an arm is in its runs.
pub async fn run<S>(
    source: &Source,
    request: &Request,
    record: &mut Record,
    dir: &Path,
    say: Progress<'_>,
    stop: impl Future<Output = S>,
) -> Result<Ended<S>, Error> {
    let mut course = Course::new(source, request, record, dir);
    let result = tokio::select! {
        result = course.all(say) => result.map(|()| Ended::Finished),
        stopped = stop => Ok(Ended::Stopped(stopped)),
    };
    let put_back = course.stage.put_back(say).await;
    result.and_then(|ended| put_back.map(|()| ended))
}

struct Course<'a> {
    source: &'a Source,
    request: &'a Request,
    record: &'a mut Record,
    /// Where the record is written.
    dir: &'a Path,
    stage: Stage<'a>,
    versions: Versions,
    /// Arms that cannot be run here, or whose result is wrong.
    out: BTreeMap<String, Outcome>,
    begun: Instant,
    /// Runs since then, also void ones.
    made: u32,
}

impl<'a> Course<'a> {
    fn new(source: &'a Source, request: &'a Request, record: &'a mut Record, dir: &'a Path) -> Self {
        let (stage, versions, out) = (Stage::new(source, request), Versions::default(), BTreeMap::new());
        Self { source, request, record, dir, stage, versions, out, begun: Instant::now(), made: 0 }
    }

    async fn all(&mut self, say: Progress<'_>) -> Result<(), Error> {
        self.ask_build().await?;
        self.stage.recover(say).await;
        self.compare_results(say).await?;
        let experiment = &self.source.experiment;
        let mut order = Order::new(experiment, self.record.conditions.blocks, self.record.conditions.seed);
        if self.record.runs.len() < order.planned() {
            for turn in order.warm_up(experiment.warm_up_runs) {
                say(&format!("warm-up {} of {}: {}", turn.turn, experiment.warm_up_runs, turn.name));
                // What is wrong shows again in the runs that count.
                let _ = self.one(turn, say).await?;
            }
        }
        self.begun = Instant::now();
        for place in order.places() {
            let Some(mut tries) = order.begin(place, &mut self.record.runs) else { continue };
            while let Some(turn) = tries.turn() {
                self.take(turn, &mut order, &mut tries, say).await?;
            }
            self.keep(tries.into_runs(), say);
            self.record.write(self.dir)?;
        }
        self.log_cost(say).await;
        self.statements(say).await;
        self.stage.clean(say).await;
        let finished = self.record.conditions.blocks;
        if self.record.conditions.looks.last().is_none_or(|last| *last < finished) {
            self.record.conditions.looks.push(finished);
        }
        self.record.write(self.dir)
    }

    /// Asks this program for its build. A record is of one build.
    async fn ask_build(&mut self) -> Result<(), Error> {
        let Some(program) = &self.request.program else { return Ok(()) };
        let build = Build::ask(program, Some(cfg!(debug_assertions))).await?;
        let earlier = self.record.conditions.build.replace(build.clone());
        if earlier.is_some_and(|earlier| earlier.commit != build.commit) {
            let why = "the record was begun with another build of Millstream; choose another --out";
            return Err(Error::Asked(why.to_owned()));
        }
        Ok(())
    }

    /// A turn of a chain.
    async fn take(
        &mut self,
        turn: Turn<'a>,
        order: &mut Order<'a>,
        tries: &mut Tries<'a>,
        say: Progress<'_>,
    ) -> Result<(), Error> {
        self.made += 1;
        let result = match tries.known() {
            Some(outcome) => Ok(outcome),
            None => self.one(turn, say).await?,
        };
        if let Some(why) = order.take(tries, result, &mut self.record.conditions)? {
            say(&format!("{}: void, run again: {why}", turn.name));
        } else if let Some(run) = tries.last() {
            say(&self.progress(run, order.left(&self.record.runs, tries)));
        }
        Ok(())
    }

    /// Adds runs to the record. They may show that others measured something else.
    fn keep(&mut self, runs: Vec<Run>, say: Progress<'_>) {
        for run in runs {
            self.record.runs.push(run);
            let last = self.record.runs.len() - 1;
            for at in void_the_silent(&self.source.experiment, &mut self.record.runs) {
                let after_all = if at == last { "" } else { "void after all: " };
                say(&format!("{after_all}{}", self.progress(&self.record.runs[at], 0)));
            }
        }
    }

    /// One run of an arm.
    async fn one(&mut self, turn: Turn<'_>, say: Progress<'_>) -> Result<Result<Outcome, Void>, Error> {
        let Turn { name, arm, block, turn, tries } = turn;
        if let Some(outcome) = self.out.get(&arm.name) {
            return Ok(Ok(outcome.clone()));
        }
        let source = self.source;
        let setup = source.experiment.setup(arm);
        self.version(arm, &setup).await;
        // Another try has other random numbers, the arms of a block have the same.
        let seed = self.record.conditions.seed ^ u64::from(block) ^ (u64::from(tries - 1) << 32);
        let length = Length { seed, ..self.length() };
        let trial = Trial { source, request: self.request, arm, setup: &setup, length };
        let measured = if source.experiment.server {
            match self.stage.ready(&arm.name, &setup, &mut self.record.conditions, say).await {
                Err(trouble) => Err(trouble),
                Ok(ready) => trial.on_server(&ready).await,
            }
        } else {
            match self.stage.files().await {
                Err(trouble) => Err(trouble),
                Ok(files) => trial.with_files(files).await,
            }
        };
        match measured {
            // A quick run is not evidence, so that nothing can make it void.
            Ok((measures, void)) => match void.filter(|_| !self.record.conditions.quick) {
                Some(void) => Ok(Err(void)),
                None => Ok(Ok(Outcome::Measured(measures))),
            },
            Err(Trouble::Unfit(why)) => {
                let outcome = Outcome::Skipped(why);
                self.out.insert(arm.name.clone(), outcome.clone());
                Ok(Ok(outcome))
            }
            // A failed run is a result of the arm; the others are measured.
            Err(Trouble::Error(error @ (Error::Program { .. } | Error::Wrong(_)))) => {
                say(&format!("{name}, turn {turn} of block {block}: {}", error.chain()));
                Ok(Ok(Outcome::Error(error.chain())))
            }
            Err(Trouble::Error(error)) => Err(error),
        }
    }

    /// Asks a command for its version, once.
    async fn version(&mut self, arm: &Arm, setup: &Setup) {
        let Some(ask) = &setup.version else { return };
        if !self.record.conditions.versions.contains_key(&arm.name) {
            self.record.conditions.versions.insert(arm.name.clone(), self.versions.of(ask).await);
        }
    }

    fn length(&self) -> Length {
        let seconds = self.record.conditions.seconds;
        let warm_up = match self.source.experiment.warm_up {
            WarmUp::Seconds(warm_up) => Some(if self.record.conditions.quick { 0.0 } else { warm_up }),
            WarmUp::Word(WarmUpWord::NeverSteady) => Some(0.0),
            WarmUp::Word(WarmUpWord::Detect) => None,
        };
        Length { seconds, warm_up, seed: self.record.conditions.seed }
    }

    fn progress(&self, run: &Run, left: usize) -> String {
        let metric = self.source.experiment.metric.metric();
        let result = match (run.outcome.reason(), run.value(&metric.name)) {
            (Some((word, why)), _) => format!("{word}: {why}"),
            (None, Some(value)) => format!("{} {value:.1}", metric.name),
            (None, None) => format!("no {}", metric.name),
        };
        let each = self.begun.elapsed().as_secs_f64() / f64::from(self.made.max(1));
        let seconds = each * f64::from(u32::try_from(left).unwrap_or(u32::MAX));
        let left = match left {
            0 => String::new(),
            _ if seconds < 90.0 => format!("; {seconds:.0} s left"),
            _ => format!("; {:.0} min left", seconds / 60.0),
        };
        format!("block {} of {}: {}: {result}{left}", run.block, self.record.conditions.blocks, run.arm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::commands::Commands;
    use crate::experiments::conditions::Conditions;
    use tempfile::TempDir;

    /// A record that nothing was measured for, and its directory.
    fn planned(source: &Source, request: &Request) -> (TempDir, Record) {
        let dir = tempfile::tempdir().unwrap();
        let conditions = Conditions::planned(source, request);
        let (_, record) = Record::open(source, request, conditions, Some(dir.path()), Vec::new()).unwrap();
        (dir, record)
    }

    /// Runs two commands for one block each. Returns what the course has said, too.
    async fn course(a: &str, b: &str) -> (Record, Vec<String>) {
        let source = Source::of_commands(&Commands { shell: true, ..Commands::new(a, b) }).unwrap();
        let request = Request { blocks: Some(1), ..Request::default() };
        let (dir, mut record) = planned(&source, &request);
        let mut course = Course::new(&source, &request, &mut record, dir.path());
        let mut said = Vec::new();
        Box::pin(course.all(&mut |line| said.push(line.to_owned()))).await.unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), record, "what is kept");
        (record, said)
    }

    #[tokio::test]
    async fn a_command_that_prints_no_metric_is_not_compared_with_one_that_does() {
        // In two courses, so that it has its turn before the other and after it.
        let says = "echo '{\"wall_seconds\": 5.0}'";
        for (a, b) in [(says, "true"), ("true", says)] {
            let (Record { runs, .. }, said) = course(a, b).await;
            let values = |arm: &str| runs.iter().find(|run| run.arm == arm).unwrap().value("wall_seconds");
            let of = |command: &str| (command == says).then_some(5.0);
            assert_eq!(["a", "b", "again"].map(values), [of(a), of(b), of(a)], "{runs:?}");
            assert!(said.iter().any(|line| line.contains("void: the last line of its output")), "{:?}", said);
        }
    }

    #[tokio::test]
    async fn what_prepares_a_run_and_warm_up_runs_come_before_the_runs_that_count() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let write = |word: &str| format!("echo {word} >>{}", log.display());
        let commands = Commands {
            prepare: Some(write("prepare")),
            warm_up_runs: 2,
            shell: true,
            ..Commands::new(&write("a"), &write("b"))
        };
        let source = Source::of_commands(&commands).unwrap();
        let request = Request { blocks: Some(1), ..Request::default() };
        let (records, mut record) = planned(&source, &request);
        Box::pin(Course::new(&source, &request, &mut record, records.path()).all(&mut |_| {})).await.unwrap();
        assert_eq!(record.runs.len(), 3, "{record:?}");
        let words = std::fs::read_to_string(&log).unwrap();
        let words: Vec<&str> = words.lines().collect();
        assert!(words.chunks(2).all(|pair| pair[0] == "prepare" && pair[1] != "prepare"), "{words:?}");
        assert_eq!(words.len(), 2 * (4 + 3), "{words:?}");
        assert_eq!([words[1], words[3], words[5], words[7]], ["a", "b", "a", "b"]);
        let failing = Commands { prepare: Some("exit 3".to_owned()), ..Commands::new("true", "true") };
        let source = Source::of_commands(&failing).unwrap();
        let (records, mut record) = planned(&source, &request);
        Box::pin(Course::new(&source, &request, &mut record, records.path()).all(&mut |_| {})).await.unwrap();
        let Outcome::Error(why) = &record.runs[0].outcome else { panic!("{record:?}") };
        assert_eq!(why, "the preparation of the run failed: it ended with exit status: 3");
    }
}
