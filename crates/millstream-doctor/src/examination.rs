//! An examination: runs the checks within a budget, and collects what they find and what they cannot see.

use crate::check::{Check, Look, Looking, Seen, Task};
use crate::checks::CHECKS;
use crate::host::Host;
use crate::limits::FINDINGS_MAX;
use crate::report::{Report, Skip};
use crate::server::{Database, Server};
use crate::settings::Settings;
use millstream_model::Finding;
use millstream_pg::{ConnInfo, Error, ErrorKind, quote_identifier};
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
    /// Time for all checks. What it does not suffice for is listed as skipped.
    pub budget: Duration,
    /// Thresholds and silences.
    pub settings: Settings,
    /// How the role logs in that plans the statements of others, if they may be planned.
    pub planner: Option<ConnInfo>,
    /// Today, as `2027-01-31`.
    pub today: String,
    /// Where `/proc`, `/sys` and `/etc` of the server's machine are, if not at `/`: for tests.
    pub root: Option<PathBuf>,
}

/// Examines a server.
///
/// # Errors
/// The server cannot be reached, or its first answers fail. What fails in a check is in the report.
pub async fn examine(request: &Request) -> Result<Report, Error> {
    let begun = Instant::now();
    let server = Server::open(&request.db, request.planner.as_ref()).await?;
    let wanted = |check: &&Check| request.checks.is_empty() || request.checks.iter().any(|id| id == check.id);
    let checks: Vec<&'static Check> = CHECKS.iter().filter(wanted).collect();
    let mut course =
        Course { request, checks, deadline: begun + request.budget, findings: Vec::new(), skipped: Vec::new() };
    let looking = Host::of(&server, request.root.as_deref());
    let host = tokio::time::timeout_at(course.deadline.into(), looking).await;
    let host = host.unwrap_or_else(|_| Err(course.out_of_time()));
    for check in course.checks.clone() {
        for look in check.looks {
            let task = course.task(check);
            match (look, &host) {
                (Look::Server(look), _) => course.run(check, None, look(&server, task)).await,
                (Look::Host(_) | Look::Machine(_), _) if Instant::now() >= course.deadline => {
                    course.skip(check, None, &course.out_of_time())
                }
                (Look::Host(look), Ok(host)) => {
                    if let Some(why) = course.add(look(host, &task), None) {
                        course.skip(check, None, &why);
                    }
                }
                (Look::Machine(look), Ok(host)) => course.run(check, None, look(&server, host, task)).await,
                (Look::Host(_) | Look::Machine(_), Err(why)) => course.skip(check, None, why),
                (Look::Database(_), _) => {}
            }
        }
    }
    let databases = course.databases(&server).await;
    for name in &databases {
        match tokio::time::timeout_at(course.deadline.into(), Database::open(&server, name)).await {
            Ok(Ok(database)) => course.database(&server, &database).await,
            Ok(Err(error)) => course.skip_databases(Some(name), &format!("the database cannot be opened: {error}")),
            Err(_) => course.skip_databases(Some(name), &course.out_of_time()),
        }
    }
    let container = host.as_ref().ok().and_then(Host::container);
    Ok(Report { container, ..course.report(&server, databases, begun) })
}

struct Course<'a> {
    request: &'a Request,
    checks: Vec<&'static Check>,
    deadline: Instant,
    findings: Vec<Finding>,
    skipped: Vec<Skip>,
}

impl Course<'_> {
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
        let (open, closed): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, may_connect)| *may_connect);
        for (name, _) in &closed {
            let why =
                format!("this role may not connect to it; grant connect on database {} to it", quote_identifier(name));
            self.skip_databases(Some(name), &why);
        }
        open.into_iter().map(|(name, _)| name).collect()
    }

    async fn database(&mut self, server: &Server, database: &Database) {
        for check in self.checks.clone() {
            for look in check.looks {
                if let Look::Database(look) = look {
                    let looking = look(server, database, self.task(check));
                    self.run(check, Some(&database.name), looking).await;
                }
            }
        }
    }

    /// Runs a check as long as there is time.
    async fn run(&mut self, check: &'static Check, database: Option<&str>, looking: Looking<'_>) {
        let why = match tokio::time::timeout_at(self.deadline.into(), looking).await {
            Ok(Ok(seen)) => self.add(seen, database),
            Ok(Err(error)) => Some(reason(&error)),
            Err(_) => Some(self.out_of_time()),
        };
        if let Some(why) = why {
            self.skip(check, database, &why);
        }
    }

    /// Adds what a look saw, and returns what it did not see.
    fn add(&mut self, mut seen: Seen, database: Option<&str>) -> Option<String> {
        if seen.findings.len() > FINDINGS_MAX {
            seen.findings.truncate(FINDINGS_MAX);
            seen.unseen = Some(format!("all but the {FINDINGS_MAX} worst findings"));
        }
        let placed = |finding: Finding| match database {
            Some(name) => finding.of_database(name),
            None => finding,
        };
        self.findings.extend(seen.findings.into_iter().map(placed));
        seen.unseen
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

    fn report(self, server: &Server, databases: Vec<String>, begun: Instant) -> Report {
        let Self { request, checks, mut findings, skipped, .. } = self;
        findings.sort_by(|a, b| b.level.cmp(&a.level).then_with(|| a.key.cmp(&b.key)));
        let clean = |check: &&Check| {
            !skipped.iter().any(|skip| skip.check == check.id) && !findings.iter().any(|one| one.check == check.id)
        };
        let passed = checks.iter().copied().filter(clean).map(|check| check.id.to_owned()).collect();
        let (silenced, findings): (Vec<Finding>, Vec<Finding>) =
            findings.into_iter().partition(|finding| request.settings.silences(&finding.key, &request.today));
        let version = server.version_num();
        Report {
            target: request.db.describe(),
            version: format!("{}.{}", version / 10_000, version % 10_000),
            provider: server.provider().map(str::to_owned),
            standby: server.session.server.in_recovery,
            container: None,
            databases,
            findings,
            silenced: silenced.into_iter().map(|finding| finding.key).collect(),
            skipped,
            passed,
            changes: None,
            seconds: begun.elapsed().as_secs_f64(),
        }
    }
}

/// Why a check failed, with what would allow it.
fn reason(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Rights => format!("{error}; a role with pg_monitor may see it"),
        _ => error.to_string(),
    }
}
