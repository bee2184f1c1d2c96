//! The course of an experiment: its arms take turns in random order, block by block.

use super::arm::{Arm, Setup, Via};
use super::client_limit::{behind, client_limit};
use super::cluster::{Cluster, Trouble};
use super::command::{self, CHECK_FAILED, COMMAND, Ground};
use super::conditions::Request;
use super::counted::Counted;
use super::data::Data;
use super::experiment::{AGAIN, WarmUp, WarmUpWord};
use super::files::Source;
use super::host::Host;
use super::own_metric::void_the_silent;
use super::program::{Length, Program};
use super::record::Record;
use super::scratch;
use super::versions::Versions;
use super::watch::Watch;
use crate::core::{Build, Environment, Factors, Machine, Measures, Outcome, Proxy, Run, blocks};
use crate::error::Error;
use crate::limits::{LOG_COST_PAIRS, LOG_COST_SECONDS, TRIES_MAX};
use millstream_local::Progress;
use millstream_model::words::option;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

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
    let put_back = course.put_back(say).await;
    result.and_then(|ended| put_back.map(|()| ended))
}

/// A turn of an arm.
#[derive(Clone, Copy)]
struct Turn<'a> {
    /// Its name in the record.
    name: &'a str,
    arm: &'a Arm,
    block: u32,
    turn: u32,
    /// Which try it is, from 1.
    tries: u32,
}

/// An arm and those that continue it, each with its name in the record.
type Chain<'a> = Vec<(String, &'a Arm)>;

/// What becomes of an arm that continues one without a result; `None` if that has one.
fn cannot_be_continued(before: &Run) -> Option<Outcome> {
    let why = || format!("not run, because {} has no result", before.arm);
    match &before.outcome {
        Outcome::Measured(_) => None,
        Outcome::Void(_) => Some(Outcome::Void(why())),
        Outcome::Skipped(_) => Some(Outcome::Skipped(why())),
        Outcome::Error(_) => Some(Outcome::Error(why())),
    }
}

/// Why the numbers of a run are worthless.
#[derive(Debug)]
enum Void {
    /// Something else used the machine.
    Disturbed(String),
    /// The arm asks for more than pgbench or the server can do.
    Unfit(String),
}

struct Course<'a> {
    source: &'a Source,
    request: &'a Request,
    record: &'a mut Record,
    /// Where the record is written.
    dir: &'a Path,
    /// Servers, by the name that arms give them.
    clusters: BTreeMap<String, (Cluster, Program)>,
    host: Host,
    /// The files of commands that need no server.
    files: Option<TempDir>,
    versions: Versions,
    /// Databases that were made or found complete, with their server.
    ready: Vec<(String, Data)>,
    /// Arms that cannot be run here, or whose result is wrong.
    out: BTreeMap<String, Outcome>,
    begun: Instant,
    /// Runs since then, also void ones.
    made: u32,
    /// What disturbs each of them, in tests.
    #[cfg(test)]
    disturb: Option<Box<dyn FnMut(u32) -> Option<Void> + Send>>,
}

impl<'a> Course<'a> {
    fn new(source: &'a Source, request: &'a Request, record: &'a mut Record, dir: &'a Path) -> Self {
        Self {
            source,
            request,
            record,
            dir,
            clusters: BTreeMap::new(),
            host: Host::default(),
            files: None,
            versions: Versions::default(),
            ready: Vec::new(),
            out: BTreeMap::new(),
            begun: Instant::now(),
            made: 0,
            #[cfg(test)]
            disturb: None,
        }
    }

    async fn all(&mut self, say: Progress<'_>) -> Result<(), Error> {
        let experiment = &self.source.experiment;
        if let Some(program) = &self.request.program {
            let build = Build::ask(program, Some(cfg!(debug_assertions))).await?;
            let earlier = self.record.conditions.build.replace(build.clone());
            if earlier.is_some_and(|earlier| earlier.commit != build.commit) {
                let why = "the record was begun with another build of Millstream; choose another";
                return Err(Error::Asked(format!("{why} {}", option("out"))));
            }
        }
        self.host.recover(say);
        scratch::remove_old();
        self.compare_results(say).await?;
        let named = |arm: &'a Arm| (arm.name.clone(), arm);
        let mut chains: Vec<Chain<'_>> =
            experiment.chains().into_iter().map(|chain| chain.into_iter().map(named).collect()).collect();
        // The noise floor: the same arm twice in each block.
        chains.push(vec![(AGAIN.to_owned(), experiment.twice())]);
        let order = blocks(chains.len(), self.record.conditions.blocks, self.record.conditions.seed);
        let planned = (experiment.arms.len() + 1) * order.len();
        let mut again = planned;
        if self.record.runs.len() < planned {
            self.warm_up_runs(&chains, say).await?;
        }
        self.begun = Instant::now();
        for (block, turns) in (1_u32..).zip(&order) {
            let mut turn = 1;
            for chain in turns.iter().map(|at| &chains[*at]) {
                let is_of = |run: &Run| run.block == block && chain.iter().any(|(name, _)| *name == run.arm);
                if self.record.runs.iter().filter(|run| is_of(run)).count() < chain.len() {
                    // What an interrupted run has made of its chain cannot be continued.
                    self.record.runs.retain(|run| !is_of(run));
                    let left = planned.saturating_sub(self.record.runs.len());
                    for run in self.chain(chain, (block, turn), left, &mut again, say).await? {
                        self.record.runs.push(run);
                        let last = self.record.runs.len() - 1;
                        for at in void_the_silent(experiment, &mut self.record.runs) {
                            let after_all = if at == last { "" } else { "void after all: " };
                            say(&format!("{after_all}{}", self.progress(&self.record.runs[at], 0)));
                        }
                    }
                    self.record.write(self.dir)?;
                }
                turn += u32::try_from(chain.len()).unwrap_or(1);
            }
        }
        self.log_cost(say).await?;
        self.statements(say).await?;
        self.clean(say).await?;
        let finished = self.record.conditions.blocks;
        if self.record.conditions.looks.last().is_none_or(|last| *last < finished) {
            self.record.conditions.looks.push(finished);
        }
        self.record.write(self.dir)
    }

    /// Runs the arms before the first block, in their order. Nothing of it counts.
    async fn warm_up_runs(&mut self, chains: &[Chain<'_>], say: Progress<'_>) -> Result<(), Error> {
        let count = self.source.experiment.warm_up_runs;
        for number in 1..=count {
            for (name, arm) in chains.iter().flatten().filter(|(name, _)| name != AGAIN) {
                say(&format!("warm-up {number} of {count}: {name}"));
                let place = Turn { name, arm, block: 0, turn: number, tries: 1 };
                // What is wrong shows again in the runs that count.
                let _ = self.one(place, say).await?;
            }
        }
        Ok(())
    }

    /// The turn of an arm, and of those that continue it. All are run again if something disturbs one of them: without a
    /// reset in between, none can be run by itself.
    async fn chain(
        &mut self,
        chain: &Chain<'_>,
        (block, first_turn): (u32, u32),
        left: usize,
        again: &mut usize,
        say: Progress<'_>,
    ) -> Result<Vec<Run>, Error> {
        let experiment = &self.source.experiment;
        let mut tries = 0;
        'tries: loop {
            tries += 1;
            let mut made: Vec<Run> = Vec::new();
            for (turn, (name, arm)) in (first_turn..).zip(chain) {
                self.made += 1;
                let outcome = match made.last().and_then(cannot_be_continued) {
                    Some(outcome) => outcome,
                    None => match self.one(Turn { name, arm, block, turn, tries }, say).await? {
                        Ok(outcome) => outcome,
                        Err(Void::Disturbed(why)) if *again == 0 => return Err(Error::Noisy(why)),
                        // What lies in the arm itself comes again.
                        Err(Void::Unfit(why)) if tries > TRIES_MAX => Outcome::Void(why),
                        Err(void) => {
                            let (counted, why) = match void {
                                Void::Disturbed(why) => {
                                    *again -= 1;
                                    (&mut self.record.conditions.voids, why)
                                }
                                Void::Unfit(why) => (&mut self.record.conditions.saturated, why),
                            };
                            *counted += 1;
                            say(&format!("{name}: void, run again: {why}"));
                            continue 'tries;
                        }
                    },
                };
                let factors: Factors = experiment.factors(arm);
                let run = Run { experiment: experiment.name.clone(), arm: name.clone(), factors, block, turn, outcome };
                say(&self.progress(&run, left.saturating_sub(made.len() + 1)));
                made.push(run);
            }
            return Ok(made);
        }
    }

    /// Checks that all arms of a group leave the same tables after the same transactions.
    async fn compare_results(&mut self, say: Progress<'_>) -> Result<(), Error> {
        let experiment = &self.source.experiment;
        let Some(equal) = &experiment.equal else { return Ok(()) };
        say("checking that the arms do the same");
        let mut first: BTreeMap<&str, (&str, String)> = BTreeMap::new();
        for arm in &experiment.arms {
            if self.out.contains_key(&arm.name) {
                continue;
            }
            let setup = experiment.setup(arm);
            let answer = match self.ready(&setup, say).await {
                Err(trouble) => Err(trouble),
                Ok((server, data)) => self.result_of(&server, &data, &setup, equal).await,
            };
            match answer {
                Ok(answer) => {
                    let (other, expected) = first.entry(&arm.group).or_insert((&arm.name, answer.clone()));
                    if *expected != answer {
                        let why = format!("{DIFFERS} that of {other}: {answer} instead of {expected}");
                        self.out.insert(arm.name.clone(), Outcome::Error(why));
                    }
                }
                Err(Trouble::Unfit(why)) => {
                    say(&format!("{}: skipped: {why}", arm.name));
                    self.out.insert(arm.name.clone(), Outcome::Skipped(why));
                }
                Err(Trouble::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    async fn result_of(
        &self,
        server: &str,
        data: &Data,
        setup: &Setup,
        equal: &super::experiment::Equal,
    ) -> Result<String, Trouble> {
        let (cluster, program) = self.cluster(server)?;
        data.execute(cluster, &equal.start).await?;
        let db = cluster.db(setup.via, &data.name)?;
        program.transactions((self.source, setup, &db), equal.transactions).await?;
        let session = cluster.session(&data.name).await?;
        let rows = session.client.simple_query(&equal.query).await.map_err(Error::from)?;
        let answer = rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        Ok(answer.unwrap_or_else(|| "no row".to_owned()))
    }

    /// One run of an arm.
    async fn one(&mut self, place: Turn<'_>, say: Progress<'_>) -> Result<Result<Outcome, Void>, Error> {
        let Turn { name, arm, block, turn, tries } = place;
        if let Some(outcome) = self.out.get(&arm.name) {
            return Ok(Ok(outcome.clone()));
        }
        #[cfg(test)]
        if let Some(void) = self.disturb.as_mut().and_then(|disturb| disturb(self.made)) {
            return Ok(Err(void));
        }
        let setup = self.source.experiment.setup(arm);
        self.version(arm, &setup).await;
        // Another try has other random numbers, the arms of a block have the same.
        let seed = self.record.conditions.seed ^ u64::from(block) ^ (u64::from(tries - 1) << 32);
        let length = Length { seed, ..self.length() };
        let measured = if self.source.experiment.server {
            match self.ready(&setup, say).await {
                Err(trouble) => Err(trouble),
                Ok((server, data)) => self.measure(&server, &data, arm, &setup, length).await,
            }
        } else {
            self.alone(arm, &setup).await
        };
        match measured {
            Ok(outcome) => Ok(outcome),
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

    async fn measure(
        &self,
        server: &str,
        data: &Data,
        arm: &Arm,
        setup: &Setup,
        length: Length,
    ) -> Result<Result<Outcome, Void>, Trouble> {
        let (cluster, program) = self.cluster(server)?;
        data.reset(cluster, &self.resets(arm, setup)).await?;
        let direct = cluster.db(setup.via, &data.name)?;
        let proxy = setup.delay_ms().map(|ms| Proxy::start(&direct, Duration::from_secs_f64(ms / 1e3))).transpose()?;
        let db = proxy.as_ref().map_or(&direct, |proxy| &proxy.db);
        let session = cluster.session(&data.name).await?;
        let counted = Counted::begin(&session, cluster.is_local()).await?;
        let control = cluster.db(None, &data.name)?;
        let watch = Watch::start(self.request.program.as_deref(), Some((cluster, &control))).await;
        let mut beside =
            setup.beside.as_ref().map(|text| command::again_and_again(text, cluster, &control)).transpose()?;
        let mut measures = match &setup.command {
            None => program.measure((self.source, setup, db), length).await?,
            Some(command) => {
                command::measure(command, setup, &self.source.experiment, Ground::Server(cluster, db)).await?
            }
        };
        if beside.as_mut().is_some_and(|beside| beside.ended().is_some()) {
            let why = "the command beside the run failed; try it by itself".to_owned();
            return Err(Error::Program { program: "beside", why }.into());
        }
        drop(beside);
        let recorded = watch.finish(&self.source.experiment.record).await;
        let disturbance = recorded.disturbance(self.request.steal_max());
        recorded.add_to(&mut measures);
        counted.end(&session, &mut measures).await?;
        if let Some(shell) = setup.check.as_ref().and_then(|check| check.strip_prefix('!')) {
            let ground = Ground::Server(cluster, &control);
            command::check(shell, &self.source.experiment, ground, &mut measures).await?;
        } else if let Some(check) = &setup.check {
            let row = session.client.query_one(check, &[]).await.map_err(Error::from)?;
            if !row.try_get::<_, bool>(0).map_err(Error::from)? {
                return Err(Error::Wrong(format!("{NOT_TRUE}: {check}")).into());
            }
        }
        session.close().await;
        let unfit = client_limit(&measures, setup).or_else(|| behind(&measures, setup)).map(Void::Unfit);
        Ok(self.judged(measures, disturbance.map(Void::Disturbed).or(unfit)))
    }

    /// A run of a command that needs no server.
    async fn alone(&mut self, arm: &Arm, setup: &Setup) -> Result<Result<Outcome, Void>, Trouble> {
        let source = self.source;
        let experiment = &source.experiment;
        let files = match &mut self.files {
            Some(files) => files,
            none => {
                let files = none.insert(scratch::for_a_run()?);
                self.source.put_files(files.path())?;
                let setup = lines(&experiment.setup, files.path()).await;
                setup.map_err(|trouble| source.failed_setup(trouble))?;
                files
            }
        };
        let files = files.path().to_owned();
        for resets in self.resets(arm, setup) {
            lines(resets, &files).await.map_err(|trouble| match trouble {
                Trouble::Error(Error::Program { why, .. }) => Error::Program { program: PREPARES, why }.into(),
                trouble => trouble,
            })?;
        }
        let command = setup.command.as_deref().unwrap_or_default();
        let ground = Ground::Files(&files);
        let watch = Watch::start(self.request.program.as_deref(), None).await;
        let mut measures = command::measure(command, setup, experiment, ground).await?;
        let recorded = watch.finish(&self.source.experiment.record).await;
        let why = recorded.disturbance(self.request.steal_max()).map(Void::Disturbed);
        recorded.add_to(&mut measures);
        let metric = experiment.metric.as_str();
        if !measures.values.contains_key(metric) {
            let why = format!("the last line of its output is no JSON such as {{\"{metric}\": 1.5}}");
            return Err(Error::Program { program: COMMAND, why }.into());
        }
        Ok(self.judged(measures, why))
    }

    /// What is done before a run: nothing of the experiment's own, if the arm continues another.
    fn resets<'s>(&'s self, arm: &Arm, setup: &'s Setup) -> Vec<&'s [String]> {
        let reset = arm.after.is_none().then_some(&*self.source.experiment.reset);
        reset.into_iter().chain([&*setup.before]).collect()
    }

    /// A quick run is not evidence, so that nothing can make it void.
    fn judged(&self, measures: Measures, why: Option<Void>) -> Result<Outcome, Void> {
        match why.filter(|_| !self.record.conditions.quick) {
            Some(why) => Err(why),
            None => Ok(Outcome::Measured(measures)),
        }
    }

    /// The server and the database of a setup, ready for a run.
    async fn ready(&mut self, setup: &Setup, say: Progress<'_>) -> Result<(String, Data), Trouble> {
        if let Some(why) = setup.unfit(self.request) {
            return Err(Trouble::Unfit(why));
        }
        let postgres = setup.postgres.as_ref().or(self.request.postgres.as_ref());
        let server = postgres.cloned().unwrap_or_default();
        if !self.clusters.contains_key(&server) {
            let cluster = match &self.request.db {
                Some(db) => Cluster::foreign(db.clone(), self.request.may_change)?,
                None => Cluster::own(postgres.map(String::as_str), say).await?,
            };
            let program = Program::find(cluster.own_program(command::PGBENCH)?).await?;
            let control = cluster.control().await?;
            let version: String = control.client.query_one("select pg_catalog.version()", &[]).await?.get(0);
            let earlier = self.record.conditions.servers.insert(server.clone(), version.clone());
            if let Some(earlier) = earlier.filter(|earlier| *earlier != version) {
                let why = format!("the record was begun with {earlier}, and this is {version}; choose another");
                return Err(Error::Asked(format!("{why} {}", option("out"))).into());
            }
            // Of a machine as it is by itself, and not as the arm before has set it.
            self.host.set(&BTreeMap::new(), None, self.request.change_host)?;
            let environment = match cluster.is_local() {
                true => Environment::look(cluster.data(), &control.client).await?,
                false => Environment::of_server(&control.client).await?,
            };
            self.record.conditions.environments.insert(server.clone(), environment);
            let data = cluster.data();
            let disk = data.map(|data| Machine::look(Some(data), &std::env::temp_dir()).disk);
            self.record.conditions.disk = self.record.conditions.disk.take().or(disk);
            if !self.record.conditions.pgbench.contains(&program.version) {
                let both = [self.record.conditions.pgbench.as_str(), &program.version];
                let there: Vec<&str> = both.into_iter().filter(|text| !text.is_empty()).collect();
                self.record.conditions.pgbench = there.join("; ");
            }
            self.clusters.insert(server.clone(), (cluster, program));
        }
        let data = Data::of(self.source, setup);
        let Some((cluster, program)) = self.clusters.get_mut(&server) else {
            return Err(Trouble::Unfit("its server is gone".to_owned()));
        };
        if setup.via == Some(Via::Ssl) {
            cluster.allow_ssl().await?;
        }
        if setup.via == Some(Via::Veth) || setup.memory_mb.is_some() {
            self.host.claim(self.request.change_host)?;
        }
        if setup.via == Some(Via::Veth) {
            cluster.allow_veth(say).await?;
            program.second_network = cluster.second_network();
        }
        let wal_dir = self.request.wal_dir.as_deref().filter(|_| setup.wal_apart == Some(true));
        cluster.place_wal(wal_dir, say).await?;
        // A server takes pages that the host sets aside only when it starts.
        if !setup.host.is_empty() && !cluster.is_local() {
            let db = option("db");
            let why = format!("it changes the machine of the server, and {db} names a server on another one");
            return Err(Trouble::Unfit(why));
        }
        self.host.set(&setup.host, cluster.data(), self.request.change_host)?;
        cluster.set(&setup.settings, say).await?;
        let key = (server.clone(), data.clone());
        if !self.ready.contains(&key) {
            // Making the data may need more memory than a run.
            cluster.limit_memory(None, say).await?;
            self.source.put_files(cluster.files())?;
            data.make(cluster, program, self.source, say).await?;
            self.ready.push(key);
        }
        cluster.limit_memory(setup.memory_mb, say).await?;
        Ok((server, data))
    }

    fn cluster(&self, server: &str) -> Result<&(Cluster, Program), Trouble> {
        self.clusters.get(server).ok_or_else(|| Trouble::Unfit("its server is gone".to_owned()))
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

    /// Measures once how much pgbench's log takes.
    async fn log_cost(&mut self, say: Progress<'_>) -> Result<(), Error> {
        let arm = self.source.experiment.twice();
        let setup = self.source.experiment.setup(arm);
        let known = !self.record.conditions.log_ratios.is_empty();
        if known || self.record.conditions.quick || setup.scripts.is_none() || self.out.contains_key(&arm.name) {
            return Ok(());
        }
        say("measuring what the log of pgbench takes");
        let Ok((server, data)) = self.ready(&setup, say).await else { return Ok(()) };
        let Ok((cluster, program)) = self.cluster(&server) else { return Ok(()) };
        let Ok(db) = cluster.db(setup.via, &data.name) else { return Ok(()) };
        let mut ratios = Vec::new();
        for pair in 0..LOG_COST_PAIRS {
            // In every other pair the run with the log comes first.
            let mut rates = [0.0; 2];
            for with_log in [pair % 2 == 1, pair % 2 == 0] {
                match program.count((self.source, &setup, &db), LOG_COST_SECONDS, with_log).await {
                    Ok(Some(tps)) => rates[usize::from(with_log)] = tps,
                    Ok(None) | Err(_) => return Ok(()),
                }
            }
            ratios.push(rates[1] / rates[0]);
        }
        self.record.conditions.log_ratios = ratios;
        Ok(())
    }

    /// Measures the mean time of each statement, in runs of their own, because `-r` itself takes time.
    async fn statements(&mut self, say: Progress<'_>) -> Result<(), Error> {
        if !self.source.experiment.statements {
            return Ok(());
        }
        for arm in &self.source.experiment.arms {
            let setup = self.source.experiment.setup(arm);
            let known = self.record.conditions.statements.contains_key(&arm.name);
            if known || self.out.contains_key(&arm.name) || setup.scripts.is_none() {
                continue;
            }
            say(&format!("{}: measuring its statements", arm.name));
            let Ok((server, data)) = self.ready(&setup, say).await else { continue };
            let Ok((cluster, program)) = self.cluster(&server) else { continue };
            let Ok(db) = cluster.db(setup.via, &data.name) else { continue };
            if let Ok(summary) = program.statements((self.source, &setup, &db), self.record.conditions.seconds).await {
                self.record.conditions.statements.insert(arm.name.clone(), summary.statements);
            }
        }
        Ok(())
    }

    async fn clean(&mut self, say: Progress<'_>) -> Result<(), Error> {
        if let Some(files) = self.files.take()
            && let Err(Trouble::Error(error)) = lines(&self.source.experiment.cleanup, files.path()).await
        {
            say(&format!("cleanup: {}", error.chain()));
        }
        for (server, data) in &self.ready {
            let Some((cluster, _)) = self.clusters.get(server) else { continue };
            if let Err(Trouble::Error(error)) = data.execute(cluster, &self.source.experiment.cleanup).await {
                say(&format!("cleanup: {}", error.chain()));
            }
        }
        Ok(())
    }

    /// Gives servers and host back what is theirs: all of it, also if a part fails.
    async fn put_back(&mut self, say: Progress<'_>) -> Result<(), Error> {
        let mut first = self.host.restore().err();
        for (cluster, _) in self.clusters.values_mut() {
            let failed = match cluster.reset(say).await {
                Ok(()) => continue,
                Err(Trouble::Error(error)) => error,
                Err(Trouble::Unfit(why)) => Error::Asked(format!("the server has not got back its settings: {why}")),
            };
            say(&failed.chain());
            first = first.or(Some(failed));
        }
        first.map_or(Ok(()), Err)
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

/// Runs shell commands of an experiment that needs no server. Each begins with `!`.
async fn lines(lines: &[String], files: &Path) -> Result<(), Trouble> {
    for line in lines {
        command::shell(line.strip_prefix('!').unwrap_or(line), Ground::Files(files)).await?;
    }
    Ok(())
}

/// What errors call the commands before a run.
const PREPARES: &str = "the preparation of the run";

/// How the reason begins of a run after which the arm's check is not true.
const NOT_TRUE: &str = "after the run this is not true";

/// How the reason begins of an arm whose result is not that of its group.
const DIFFERS: &str = "its result differs from";

/// Whether the reason of a failure is a wrong result.
pub(super) fn is_wrong(why: &str) -> bool {
    [NOT_TRUE, DIFFERS, CHECK_FAILED].iter().any(|beginning| why.contains(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::commands::Commands;
    use crate::experiments::conditions::Conditions;

    #[test]
    fn a_wrong_result_is_told_from_other_failures() {
        assert!(is_wrong(&Error::Wrong(format!("{NOT_TRUE}: select false")).chain()));
        assert!(is_wrong(&format!("{DIFFERS} that of a: 1 instead of 2")));
        assert!(!is_wrong("pgbench failed: it ended with exit status: 2"));
    }

    /// A record that nothing was measured for, and its directory.
    fn planned(source: &Source, request: &Request) -> (TempDir, Record) {
        let dir = tempfile::tempdir().unwrap();
        let conditions = Conditions::planned(source, request);
        let (_, record) = Record::open(source, request, conditions, Some(dir.path()), Vec::new()).unwrap();
        (dir, record)
    }

    /// Runs two commands for one block each, in a course that `void` disturbs. Returns what it has said, too.
    async fn course(
        void: impl FnMut(u32) -> Option<Void> + Send + 'static,
    ) -> (Result<(), Error>, Record, Vec<String>) {
        course_of("true", "true", void).await
    }

    async fn course_of(
        a: &str,
        b: &str,
        void: impl FnMut(u32) -> Option<Void> + Send + 'static,
    ) -> (Result<(), Error>, Record, Vec<String>) {
        let source = Source::of_commands(&Commands { shell: true, ..Commands::new(a, b) }).unwrap();
        let request = Request { blocks: Some(1), ..Request::default() };
        let (dir, mut record) = planned(&source, &request);
        let mut course = Course::new(&source, &request, &mut record, dir.path());
        course.disturb = Some(Box::new(void));
        let mut said = Vec::new();
        let ended = Box::pin(course.all(&mut |line| said.push(line.to_owned()))).await;
        if ended.is_ok() {
            assert_eq!(Record::read(dir.path()).unwrap(), record, "what is kept");
        }
        (ended, record, said)
    }

    #[tokio::test]
    async fn a_disturbed_run_is_repeated_until_the_machine_is_too_noisy() {
        let once = |made| (made == 1).then(|| Void::Disturbed("steal".to_owned()));
        let (ended, Record { runs, conditions, .. }, said) = course(once).await;
        ended.unwrap();
        assert_eq!((runs.len(), conditions.voids), (3, 1));
        assert!(said.iter().any(|line| line.ends_with("void, run again: steal")), "{:?}", said);

        let (ended, Record { runs, .. }, said) = course(|_| Some(Void::Disturbed("steal".to_owned()))).await;
        assert!(matches!(ended, Err(Error::Noisy(why)) if why == "steal"));
        assert!(runs.is_empty() && said.len() == 3, "as many as planned: {:?}", said);
    }

    #[tokio::test]
    async fn a_command_that_prints_no_metric_is_not_compared_with_one_that_does() {
        // In two courses, so that it has its turn before the other and after it.
        let says = "echo '{\"wall_seconds\": 5.0}'";
        for (a, b) in [(says, "true"), ("true", says)] {
            let (ended, Record { runs, .. }, said) = course_of(a, b, |_| None).await;
            ended.unwrap();
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

    #[tokio::test]
    async fn a_run_that_its_arm_makes_void_is_repeated_twice_and_left_out() {
        let (ended, Record { runs, conditions, .. }, _) = course(|_| Some(Void::Unfit("slow client".to_owned()))).await;
        ended.unwrap();
        let void = Outcome::Void("slow client".to_owned());
        assert!(runs.len() == 3 && runs.iter().all(|run| run.outcome == void), "{runs:?}");
        assert_eq!((conditions.voids, conditions.saturated), (0, 3 * TRIES_MAX));
    }
}
