//! An examination: runs the checks within a budget, and collects what they find and what they cannot see.

use crate::check::{Check, Look, Looked, Looking, Seen, Task};
use crate::checks::CHECKS;
use crate::checks::ground::GROUNDS;
use crate::checks::missed_index;
use crate::checks::ours;
use crate::host::Host;
use crate::limits::{FINDINGS_MAX, MEASURE_PARTS, MEASURE_TIME_MAX, ROWS_MAX};
use crate::one_line::{command_on_one_line, sentence_on_one_line};
use crate::recent::Earlier;
use crate::refusal::Stop;
use crate::report::{Counters, Report, Skip};
use crate::server::{Database, Server};
use crate::settings::Settings;
use crate::snapshot::Snapshot;
use millstream_change::{Kind, find};
use millstream_model::{Change, Class, Evidence, Finding};
use millstream_pg::{ConnInfo, Error, ErrorKind, Explained, quote_identifier};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is asked of an examination.
#[derive(Debug, Clone)]
pub struct Request {
    /// The server, and the database in which it begins.
    pub db: ConnInfo,
    /// Only these checks. Empty: all.
    pub checks: Vec<String>,
    /// Only the database that is named.
    pub one_database: bool,
    /// Only what can have a finding with this key: of databases, those that it names.
    pub key: Option<String>,
    /// Time for all checks. What it does not suffice for is listed as skipped.
    pub budget: Duration,
    /// Thresholds and silences.
    pub settings: Settings,
    /// How the role logs in that plans the statements of others, if they may be planned.
    pub planner: Option<ConnInfo>,
    /// Time between two looks at the counters of statements, from which their shares of the time are taken. `None`: they are
    /// taken since the counters began.
    pub looks_apart: Option<Duration>,
    /// A snapshot of the same server, instead of the first of these looks.
    pub earlier: Option<Snapshot>,
    /// Today, as `2027-01-31`.
    pub today: String,
    /// The kinds of changes that a repair may propose.
    pub kinds: &'static [&'static dyn Kind],
    /// Where `/proc`, `/sys` and `/etc` of the server's machine are, if not at `/`: for tests. What changes between two
    /// looks is in the folder `later` below it.
    pub root: Option<PathBuf>,
}

/// Examines a server.
///
/// # Errors
/// The server cannot be reached, or its first answers fail. What fails in a check is in the report.
pub async fn examine(request: &Request) -> Result<Report, Error> {
    // What waits in it is large, and callers keep it in futures of their own.
    Box::pin(examined(request)).await
}

async fn examined(request: &Request) -> Result<Report, Error> {
    let begun = Instant::now();
    let mut server = Server::open(&request.db, request.planner.as_ref()).await?;
    // Without it nothing can be compared, and all else can be examined.
    let mut snapshot = Snapshot::read(&server.session.client).await.ok();
    server.earlier = earlier(request, snapshot.as_ref());
    let mut course = Course::of(request, begun);
    let looking = Host::of(&server, request.root.as_deref());
    let host = tokio::time::timeout_at(course.deadline.into(), looking).await;
    let host = host.unwrap_or_else(|_| Err(course.out_of_time()));
    for check in course.checks.clone() {
        for look in check.looks {
            match (look, &host) {
                (Look::Server(look), _) => course.run(check, None, |task| look(&server, task)).await,
                (Look::Anywhere(look), host) => {
                    course.run(check, None, |task| look(&server, host.as_ref().ok(), task)).await;
                }
                (Look::Host(_) | Look::Measured(_) | Look::Machine(_), _) if Instant::now() >= course.deadline => {
                    course.skip(check, None, &course.out_of_time())
                }
                (Look::Host(look) | Look::Measured(look), Ok(host)) => course.run_at(host, check, *look).await,
                (Look::Machine(look), Ok(host)) => course.run(check, None, |task| look(&server, host, task)).await,
                (Look::Host(_) | Look::Measured(_) | Look::Machine(_), Err(why)) => course.skip(check, None, why),
                (Look::Database(_) | Look::Later(_), _) => {}
            }
        }
    }
    let databases = course.databases(&server).await;
    for (before, name) in databases.iter().enumerate() {
        let left = course.deadline.saturating_duration_since(Instant::now());
        let opening = Database::open(&server, name, measure_time(left, databases.len() - before));
        match tokio::time::timeout_at(course.deadline.into(), opening).await {
            Ok(Ok(database)) => {
                if let Some(snapshot) = snapshot.as_mut().filter(|_| *name != server.session.server.database) {
                    snapshot.tables.extend(Snapshot::tables(&database.session.client).await.unwrap_or_default());
                }
                course.database(&server, &database).await;
            }
            Ok(Err(error)) => course.skip_databases(Some(name), &format!("the database cannot be opened: {error}")),
            Err(_) => course.skip_databases(Some(name), &course.out_of_time()),
        }
    }
    course.later(&host).await;
    let container = host.as_ref().ok().and_then(Host::container);
    Ok(Report { container, snapshot, ..course.report(&server, databases, begun) })
}

/// The look with which statements are compared.
fn earlier(request: &Request, now: Option<&Snapshot>) -> Option<Earlier> {
    let given = request.earlier.as_ref().map(|earlier| (earlier, Duration::ZERO));
    given.or(now.zip(request.looks_apart)).map(|(snapshot, apart)| Earlier::new(snapshot, apart))
}

struct Course<'a> {
    request: &'a Request,
    /// Those that are asked for, and those that may take their ground away.
    checks: Vec<&'static Check>,
    deadline: Instant,
    findings: Vec<Finding>,
    skipped: Vec<Skip>,
    counters: Vec<Counters>,
    /// The schemas of Millstream's own tables in the database that is examined.
    ours: Vec<String>,
}

impl<'a> Course<'a> {
    fn of(request: &'a Request, begun: Instant) -> Self {
        let may_matter = |check: &&Check| {
            let is_ground = |of: &str| GROUNDS.iter().any(|ground| ground.check == check.id && ground.is_of(of));
            is_wanted(request, check.id) || request.checks.iter().any(|of| is_ground(of))
        };
        Self {
            request,
            checks: CHECKS.iter().filter(may_matter).collect(),
            deadline: begun + request.budget,
            findings: Vec::new(),
            skipped: Vec::new(),
            counters: Vec::new(),
            ours: Vec::new(),
        }
    }

    fn task(&self, check: &'static Check) -> Task {
        Task::of(check, self.request.settings.thresholds(check.id))
    }

    /// Names of the databases to examine. Those that this role may not connect to are skipped.
    async fn databases(&mut self, server: &Server) -> Vec<String> {
        let own = server.session.server.database.clone();
        if self.request.one_database {
            return vec![own];
        }
        let all = match tokio::time::timeout_at(self.deadline.into(), server.databases()).await {
            Ok(Ok(all)) => all,
            Ok(Err(error)) => {
                self.skip_databases(None, &format!("the other databases: {error}"));
                return vec![own];
            }
            Err(_) => {
                self.skip_databases(None, &self.out_of_time());
                return Vec::new();
            }
        };
        let wanted = |name: &str| self.request.key.as_deref().is_none_or(|key| is_in(key, name));
        let all = all.into_iter().filter(|(name, _)| wanted(name));
        let (open, closed): (Vec<_>, Vec<_>) = all.partition(|(_, may_connect)| *may_connect);
        for (name, _) in &closed {
            let why =
                format!("this role may not connect to it; grant connect on database {} to it", quote_identifier(name));
            self.skip_databases(Some(name), &why);
        }
        open.into_iter().map(|(name, _)| name).collect()
    }

    async fn database(&mut self, server: &Server, database: &Database) {
        self.counters.push(Counters::of(None, Some(&database.name), database.sure_seconds));
        // If they are not known, their findings are superfluous and not wrong.
        let names = tokio::time::timeout_at(self.deadline.into(), ours::names(database)).await;
        self.ours = names.ok().and_then(Result::ok).unwrap_or_default();
        for check in self.checks.clone() {
            for look in check.looks {
                if let Look::Database(look) = look {
                    self.run(check, Some(database), |task| look(server, database, task)).await;
                }
            }
        }
    }

    /// Runs the looks that compare the machine's counters with those of the beginning.
    async fn later(&mut self, host: &Result<Host, String>) {
        for check in self.checks.clone() {
            for look in check.looks {
                let Look::Later(look) = look else { continue };
                match host {
                    Ok(host) if Instant::now().max(host.second_look_at()) < self.deadline => {
                        tokio::time::sleep_until(host.second_look_at().into()).await;
                        self.run_at(host, check, *look).await;
                    }
                    Ok(_) => self.skip(check, None, &self.out_of_time()),
                    Err(why) => self.skip(check, None, why),
                }
            }
        }
    }

    /// Runs a look at the machine alone.
    async fn run_at(&mut self, host: &Host, check: &'static Check, look: fn(&Host, &Task) -> Looked) {
        self.run(check, None, |task| Box::pin(std::future::ready(look(host, &task)))).await;
    }

    /// Runs a look as long as there is time. What it has kept stays, however it ends.
    async fn run<'l>(
        &mut self,
        check: &'static Check,
        database: Option<&Database>,
        look: impl FnOnce(Task) -> Looking<'l>,
    ) {
        let task = self.task(check);
        let outcome = tokio::time::timeout_at(self.deadline.into(), look(task.clone())).await;
        let (kept, name) = (task.kept(), database.map(|database| database.name.as_str()));
        let counters = task.counted_seconds().map(|seconds| Counters::of(Some(check.id), name, seconds));
        self.counters.extend(counters);
        let rest = if kept.is_empty() { "" } else { "the rest: " };
        let mut seen: Seen = kept.into_iter().collect();
        match outcome {
            Ok(Ok(other)) => {
                seen.findings.extend(other.findings);
                seen.unseen = other.unseen;
            }
            Ok(Err(Stop::Unseen(why))) => seen.unseen = Some(why),
            Ok(Err(Stop::Failed(error))) => seen.unseen = Some(format!("{rest}{}", reason(&error))),
            Err(_) => seen.unseen = Some(format!("{rest}{}", self.out_of_time())),
        }
        if let Some(why) = self.add(seen, database) {
            self.skip(check, name, &why);
        }
    }

    /// Adds what a look saw, and returns what it did not see.
    fn add(&mut self, seen: Seen, database: Option<&Database>) -> Option<String> {
        let Seen { findings, unseen } = seen;
        let is_cut = i64::try_from(findings.len()).is_ok_and(|found| found >= ROWS_MAX);
        let mut findings: Vec<Finding> = match database {
            Some(database) => {
                let mut grouped = database.roots.grouped(findings);
                grouped.retain(|finding| !ours::criticises(finding, &self.ours));
                grouped.into_iter().map(|finding| finding.of_database(&database.name)).collect()
            }
            None => findings,
        };
        let rest = match findings.len() > FINDINGS_MAX {
            true => Some(format!("all but the {FINDINGS_MAX} worst findings")),
            false => is_cut.then(|| format!("all but the {ROWS_MAX} worst")),
        };
        findings.sort_by(|one, other| other.cmp_severity(one));
        findings.truncate(FINDINGS_MAX);
        self.findings.extend(findings);
        Seen::default().but(rest).but(unseen).unseen
    }

    fn skip(&mut self, check: &Check, database: Option<&str>, why: &str) {
        let (check, database, why) = (check.id.to_owned(), database.map(str::to_owned), why.to_owned());
        self.skipped.push(Skip { check, database, why });
    }

    fn skip_databases(&mut self, name: Option<&str>, why: &str) {
        for check in self.checks.clone() {
            if check.looks.iter().any(|look| matches!(look, Look::Database(_))) {
                self.skip(check, name, why);
            }
        }
    }

    fn out_of_time(&self) -> String {
        format!("the time of {:?} was used up; --budget gives more", self.request.budget)
    }

    /// Takes out findings whose ground another one has found wrong, and then what nobody has asked for.
    fn keep_grounded(&mut self) {
        let request = self.request;
        let is_said = |finding: &&Finding| !request.settings.silences(&finding.key, &request.today);
        let said: Vec<Finding> = self.findings.iter().filter(is_said).cloned().collect();
        let lost = |finding: &Finding| {
            GROUNDS.iter().find_map(|ground| Some((ground.what, ground.lost(finding, &said)?.key.as_str())))
        };
        for finding in std::mem::take(&mut self.findings) {
            match lost(&finding) {
                Some((what, key)) => {
                    let why = format!("{}: it rests on {what}, and that is wrong: first see {key}", finding.subject);
                    self.skipped.push(Skip { check: finding.check, database: finding.database, why });
                }
                None => self.findings.push(finding),
            }
        }
        self.checks.retain(|check| is_wanted(request, check.id));
        self.findings.retain(|finding| is_wanted(request, &finding.check));
        self.skipped.retain(|skip| is_wanted(request, &skip.check));
        self.counters.retain(|one| one.check.as_ref().is_none_or(|check| is_wanted(request, check)));
    }

    /// The checks that have found nothing, and have seen all.
    fn passed(&self) -> Vec<String> {
        let is_clean = |check: &&&Check| {
            let skipped = self.skipped.iter().any(|skip| skip.check == check.id);
            !skipped && !self.findings.iter().any(|one| one.check == check.id)
        };
        self.checks.iter().filter(is_clean).map(|check| check.id.to_owned()).collect()
    }

    fn report(mut self, server: &Server, databases: Vec<String>, begun: Instant) -> Report {
        self.keep_grounded();
        let all = self.findings.clone();
        self.findings.retain(|finding| !missed_index::is_idle_beside(finding, &all));
        let passed = self.passed();
        let Self { request, mut findings, skipped, mut counters, .. } = self;
        counters.insert(0, Counters::of(None, None, server.sure_seconds));
        findings.sort_by(|one, other| other.cmp_severity(one).then_with(|| one.key.cmp(&other.key)));
        for finding in &mut findings {
            show_both(finding);
            if let Some(repair) = &mut finding.repair {
                repair.sentence = sentence_on_one_line(&repair.sentence);
                repair.commands.iter_mut().for_each(|command| *command = command_on_one_line(command));
            }
            let change = finding.repair.as_ref().and_then(|repair| repair.change.clone());
            let proposed = finding.experiment.take().or(change.filter(|_| finding.class == Class::Hypothesis));
            finding.experiment = proposed.filter(|change| is_measurable(request.kinds, change));
        }
        let (silenced, findings): (Vec<Finding>, Vec<Finding>) =
            findings.into_iter().partition(|finding| request.settings.silences(&finding.key, &request.today));
        let version = server.version_num();
        Report {
            target: request.db.describe(),
            version: format!("{}.{}", version / 10_000, version % 10_000),
            provider: server.provider().map(str::to_owned),
            standby: server.session.server.in_recovery,
            container: None,
            snapshot: None,
            databases,
            counters,
            findings,
            silenced: silenced.into_iter().map(|finding| finding.key).collect(),
            skipped,
            passed,
            changes: None,
            seconds: begun.elapsed().as_secs_f64(),
        }
    }
}

/// Shows a setting as it is beside what the repair makes of it.
fn show_both(finding: &mut Finding) {
    let change = finding.repair.as_ref().and_then(|repair| repair.change.as_ref()).or(finding.experiment.as_ref());
    let Some(Change { kind, target, value: Some(value) }) = change else { return };
    let place = finding.evidence.iter().position(|one| one.name == *target || one.name == "value");
    if kind == "setting"
        && let Some(place) = place
    {
        let name = format!("{target} would be");
        let proposed = Evidence { name, value: value.clone(), source: "the repair below".to_owned() };
        finding.evidence[place].name = format!("{target} now");
        finding.evidence.insert(place + 1, proposed);
    }
}

/// Whether a check is asked for.
fn is_wanted(request: &Request, check: &str) -> bool {
    request.checks.is_empty() || request.checks.iter().any(|id| id == check)
}

/// Longest time of each check that measures the tables or indexes of a database, if so much time is left for so many
/// databases. One with large tables leaves the others theirs.
fn measure_time(left: Duration, databases: usize) -> Duration {
    let databases = u32::try_from(databases).unwrap_or(u32::MAX);
    MEASURE_TIME_MAX.min(left / databases.saturating_mul(MEASURE_PARTS).max(1))
}

/// Whether a finding with this key can be one of a database: `CHECK:DATABASE` or `CHECK:DATABASE:SUBJECT`.
fn is_in(key: &str, database: &str) -> bool {
    let rest = key.split_once(':').and_then(|(_, rest)| rest.strip_prefix(database));
    rest.is_some_and(|subject| subject.is_empty() || subject.starts_with(':'))
}

/// Whether an experiment of the lab would decide about a change.
fn is_measurable(kinds: &[&dyn Kind], change: &Change) -> bool {
    find(kinds, &change.kind).and_then(|kind| kind.measurable()).is_some_and(|one| one.shows(change))
}

/// Why a check failed, with what would allow it.
fn reason(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Rights => format!("{error}; a role with pg_monitor may see it"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
