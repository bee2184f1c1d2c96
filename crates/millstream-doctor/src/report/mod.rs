//! The report of an examination, as text, as a page, and as JSON whose schema is `docs/reference/doctor.schema.json`.

mod difference;
mod html;
mod text;

use crate::check::{Check, Look};
use crate::checks::CHECKS;
use crate::checks::number::needs;
use crate::snapshot::Snapshot;
use millstream_model::{Class, Danger, Finding, Level, Restart, quantity, shell_word};
use serde::{Deserialize, Serialize};

pub use difference::{Difference, Grown, SettingChanged, Slower};
pub use html::html;
pub use text::{list, manual, text};

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The server, without a password.
    pub target: String,
    /// Its version.
    pub version: String,
    /// The service that runs it, if it is a managed one.
    pub provider: Option<String>,
    /// It is a standby: repairs that write are made on its primary.
    pub standby: bool,
    /// The program that runs the container of the doctor and the server, if they are in one.
    #[serde(default)]
    pub container: Option<String>,
    /// The databases that were examined.
    pub databases: Vec<String>,
    /// For how long the counters have counted: first those of the server.
    #[serde(default)]
    pub counters: Vec<Counters>,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// Keys of findings that are silenced.
    pub silenced: Vec<String>,
    /// What could not be looked at.
    pub skipped: Vec<Skip>,
    /// Names of the checks that looked everywhere and found nothing.
    pub passed: Vec<String>,
    /// What the server had counted, for a later report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// What differs from an earlier report, if there was one to compare with.
    pub changes: Option<Changes>,
    /// Seconds that the examination took.
    pub seconds: f64,
}

/// For how long counters have counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// The check that rests on them, if only that does.
    #[serde(rename = "id")]
    pub check: Option<String>,
    /// The database, if they are one's.
    pub database: Option<String>,
    /// Seconds since they began.
    pub seconds: f64,
}

/// What a check could not look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// The check.
    #[serde(rename = "id")]
    pub check: String,
    /// The database, if only there.
    pub database: Option<String>,
    /// Why, and what would allow it.
    pub why: String,
}

/// What differs from an earlier report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Keys of findings that the earlier report did not have.
    pub new: Vec<String>,
    /// Keys of findings that are gone, although their check looked.
    pub gone: Vec<String>,
    /// What happened to statements, tables and settings, if the earlier report has a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

impl Counters {
    pub(crate) fn of(check: Option<&str>, database: Option<&str>, seconds: f64) -> Self {
        Self { check: check.map(str::to_owned), database: database.map(str::to_owned), seconds }
    }
}

impl Report {
    /// Whether something is at least this bad.
    pub fn has(&self, level: Level) -> bool {
        self.findings.iter().any(|finding| finding.level >= level)
    }

    /// Adds what differs from an earlier report. A finding that is silenced now is not gone, nor is one whose check was
    /// skipped or not asked for. One that rests on counters is gone only if they have counted as long again: otherwise it
    /// is listed as not looked at.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        let has = |report: &Self, key: &String| {
            report.findings.iter().any(|one| one.key == *key) || report.silenced.contains(key)
        };
        let new = self.findings.iter().map(|one| &one.key).filter(|key| !has(earlier, key)).cloned().collect();
        let gone = earlier.findings.iter().filter(|one| !has(&self, &one.key) && self.has_looked_for(one));
        let (unknown, gone): (Vec<&Finding>, Vec<&Finding>) =
            gone.partition(|one| self.counts_too_short(earlier, one).is_some());
        let gone = gone.into_iter().map(|one| one.key.clone()).collect();
        let skips: Vec<Skip> = unknown.into_iter().filter_map(|one| self.counts_too_short(earlier, one)).collect();
        self.passed.retain(|check| !skips.iter().any(|skip| skip.check == *check));
        self.skipped.extend(skips);
        let difference = earlier.snapshot.as_ref().zip(self.snapshot.as_ref());
        let difference = difference.map(|(before, now)| Difference::between(before, now));
        self.changes = Some(Changes { new, gone, difference });
        self
    }

    /// Adds what happened since an earlier snapshot of the same server.
    #[must_use]
    pub fn since_snapshot(mut self, earlier: &Snapshot) -> Self {
        let difference = self.snapshot.as_ref().map(|now| Difference::between(earlier, now));
        self.changes = Some(Changes { new: Vec::new(), gone: Vec::new(), difference });
        self
    }

    /// Why it is not known whether an earlier finding is gone, if it rests on counters that began anew since.
    fn counts_too_short(&self, earlier: &Self, finding: &Finding) -> Option<Skip> {
        let counted = finding.counted_seconds?;
        let needed = earlier.counted_for(finding).unwrap_or(counted);
        let what = format!("whether {} is gone", finding.key);
        let why = needs(&what, "of counters", needed, self.counted_for(finding)?).err()?;
        Some(Skip { check: finding.check.clone(), database: finding.database.clone(), why })
    }

    /// For how many seconds the counters have counted on which a finding rests. `None` if they are those of the machine.
    fn counted_for(&self, finding: &Finding) -> Option<f64> {
        let check = CHECKS.iter().find(|check| check.id == finding.check)?;
        let of = |check: Option<&str>| {
            let is = |one: &&Counters| one.check.as_deref() == check && one.database == finding.database;
            self.counters.iter().find(is).map(|one| one.seconds)
        };
        let is_of_machine = check.looks.iter().all(Look::is_of_machine);
        of(Some(check.id)).or_else(|| of(None).filter(|_| !is_of_machine))
    }

    /// Whether the check of an earlier finding has looked at its place.
    fn has_looked_for(&self, finding: &Finding) -> bool {
        let silenced = |key: &String| key.split(':').next() == Some(&finding.check);
        let ran = self.passed.contains(&finding.check)
            || self.findings.iter().any(|one| one.check == finding.check)
            || self.silenced.iter().any(silenced);
        let here = finding.database.as_ref().is_none_or(|name| self.databases.contains(name));
        let skipped =
            |skip: &Skip| skip.check == finding.check && (skip.database.is_none() || skip.database == finding.database);
        ran && here && !self.skipped.iter().any(skipped)
    }
}

/// How bad a finding is, in a word.
fn level(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Critical => "critical",
    }
}

/// How sure a finding is, in words.
fn class(finding: &Finding) -> String {
    let counted = finding.counted_seconds.map(|seconds| format!(", counted for {}", quantity::age(seconds)));
    let (counters, counted) = (counted.is_some(), counted.unwrap_or_default());
    match finding.class {
        Class::Fact => format!("a fact{counted}"),
        Class::Arithmetic if counters => format!("arithmetic from this server's own counters{counted}"),
        Class::Arithmetic => "arithmetic from this server's own numbers".to_owned(),
        Class::Hypothesis => format!("a hypothesis{counted}: measure before and after"),
    }
}

/// What must be restarted, in words.
fn restart(restart: Restart) -> Option<&'static str> {
    match restart {
        Restart::Nothing => None,
        Restart::Reload => Some("a reload of the configuration"),
        Restart::Server => Some("a restart of the server"),
        Restart::Machine => Some("a restart of the machine, or a new mount"),
    }
}

/// A command as it is typed: a statement ends with a semicolon.
fn typed(text: &str, options: &RunOptions) -> String {
    let is_ours = |shell: &str| OF_SERVER.iter().any(|begins| shell.starts_with(begins));
    match text.strip_prefix("$ ") {
        Some(shell) if is_ours(shell) => options.of_server(text),
        Some(_) => text.to_owned(),
        None if text.starts_with("-- ") => text.to_owned(),
        None => format!("{text};"),
    }
}

/// Options of the run that found something, for the commands that the report prints.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The option that names the server, as the shell takes it, if the run had one.
    pub server: Option<String>,
    /// The other ones that `doctor fix` needs to find a finding again.
    pub others: Vec<String>,
    /// A password was left out of the option that names the server.
    pub lacks_password: bool,
}

impl RunOptions {
    /// A command of ours for the same server.
    fn of_server(&self, command: &str) -> String {
        [command].into_iter().chain(self.server.as_deref()).collect::<Vec<_>>().join(" ")
    }

    /// A command that finds the same findings.
    fn of_run(&self, command: &str) -> String {
        let command = self.of_server(command);
        [&command].into_iter().chain(&self.others).map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// What the commands leave out, if they do.
fn left_out(options: &RunOptions) -> Option<&'static str> {
    options.lacks_password.then_some("The commands leave the password out: put it into PGPASSWORD or ~/.pgpass.")
}

/// Our own commands that work on a server, by their first words.
const OF_SERVER: &[&str] = &["millstream compact ", "millstream doctor watch "];

/// What the doctor itself can do about a finding: what that is, and the command.
fn ways(finding: &Finding, options: &RunOptions) -> Vec<(&'static str, String)> {
    // On one line, such a key would be that of another object.
    if finding.key.contains(char::is_control) {
        return Vec::new();
    }
    let fix = format!("millstream doctor fix {}", shell_word(&finding.key));
    let experiment = options.of_run(&format!("{fix} --experiment"));
    let measure = finding.experiment.is_some().then_some(("Measure first", experiment));
    let has_change = finding.repair.as_ref().is_some_and(|repair| repair.change.is_some());
    let apply = has_change.then(|| ("Apply", options.of_run(&fix)));
    measure.into_iter().chain(apply).collect()
}

/// The first line of a report.
fn title(report: &Report) -> String {
    let provider = report.provider.as_ref().map(|provider| format!(" ({provider})")).unwrap_or_default();
    let standby = if report.standby { ", a standby (make repairs of tables and indexes on its primary)" } else { "" };
    let databases = match report.databases.as_slice() {
        [one] => format!("database {one}"),
        many => format!("{} databases", many.len()),
    };
    format!("PostgreSQL {}{provider}{standby}, {databases}, examined in {:.1} s", report.version, report.seconds)
}

/// How many findings there are, and the most urgent one. `None` if there are none.
fn summary(report: &Report) -> Option<String> {
    let first = report.findings.first()?;
    let count = |level: Level, one: &str, many: &str| {
        let count = report.findings.iter().filter(|finding| finding.level == level).count();
        (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
    };
    let counts = [
        count(Level::Critical, "critical finding", "critical findings"),
        count(Level::Warning, "warning", "warnings"),
        count(Level::Info, "note", "notes"),
    ];
    let counts = counts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    // Notes are not urgent.
    let urgent = (first.level > Level::Info).then(|| format!("; most urgent: {}", first.key));
    Some(format!("{counts}{}", urgent.unwrap_or_default()))
}

/// What a finding costs, if that is known.
fn cost(finding: &Finding) -> Option<String> {
    let time = finding.time_percent.map(|percent| format!("{percent:.0} % of the time"));
    let waste = finding.waste_bytes.filter(|bytes| *bytes > 0).map(quantity::bytes);
    let all: Vec<String> = time.into_iter().chain(waste).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// What a finding endangers, in words.
fn danger(finding: &Finding) -> Option<&'static str> {
    finding.danger.map(|danger| match danger {
        Danger::Data => "data may be lost or wrong",
        Danger::Service => "the server may stop, or refuse work",
    })
}

/// A note about the machine: most machines of its kind give it, whatever their servers do. What a measurement contradicts is
/// no such note.
fn is_of_machine(finding: &Finding) -> bool {
    let check = CHECKS.iter().find(|check| check.id == finding.check);
    finding.level == Level::Info && check.is_some_and(Check::is_of_machine)
}

/// What happened since the earlier report, a sentence each.
fn happened(report: &Report) -> Vec<String> {
    let Some(difference) = report.changes.as_ref().and_then(|changes| changes.difference.as_ref()) else {
        return Vec::new();
    };
    let slower = difference.slower.iter().map(|one| {
        let (before, since) = (one.before_ms, one.since_ms);
        format!(
            "slower in {}: {since:.1} ms a call instead of {before:.1} ms, {:.0} % of the time, {} calls: {}",
            one.database,
            one.percent,
            quantity::count(one.calls),
            one.text
        )
    });
    let grown = difference.grown.iter().map(|one| {
        let [before, now] = [&one.before, &one.now]
            .map(|size| format!("{}, {} rows", quantity::bytes(size.bytes), quantity::count(size.rows)));
        format!("grown in {}: {} from {before} to {now}", one.now.database, one.now.table)
    });
    let settings = difference.settings.iter().map(|one| {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "the default".to_owned());
        let by = one.change.map(|number| format!(", by change {number} of the doctor"));
        format!("setting {}: {} -> {}{}", one.name, shown(&one.before), shown(&one.now), by.unwrap_or_default())
    });
    let unknown = difference.unknown.iter().map(|why| format!("not known: {why}"));
    slower.chain(grown).chain(settings).chain(unknown).collect()
}

/// How long ago the earlier look was, if something is known of what happened since.
fn since(report: &Report) -> Option<String> {
    let changes = report.changes.as_ref()?;
    let Some(difference) = &changes.difference else {
        return Some("The earlier report has no snapshot, so only the findings are compared".to_owned());
    };
    let nothing = ": no statement grew slower, no table grew, no setting was changed";
    let end = if difference.is_empty() { nothing } else { ":" };
    Some(format!("In the {} since the earlier look{end}", quantity::age(difference.seconds)))
}

/// Since when the server counts, and what began later.
fn counting(report: &Report) -> Option<String> {
    let (first, others) = report.counters.split_first()?;
    let mut sentence = format!("The server's counters began {} ago", quantity::age(first.seconds));
    let mut later: Vec<(String, Vec<String>)> = Vec::new();
    for one in others {
        let (age, is_place) = (quantity::age(one.seconds), one.check.is_none());
        let of_place = others.iter().find(|other| !is_place && other.check.is_none() && other.database == one.database);
        if age == quantity::age(of_place.unwrap_or(first).seconds) {
            continue;
        }
        let name = match (&one.check, &one.database) {
            (Some(check), Some(database)) => format!("{check} in {database}"),
            (check, database) => check.as_ref().or(database.as_ref())?.clone(),
        };
        match later.iter_mut().find(|(known, _)| *known == age) {
            Some((_, names)) => names.push(name),
            None => later.push((age, vec![name])),
        }
    }
    for (age, names) in later {
        sentence += &format!("; those of {} {age} ago", names.join(", "));
    }
    Some(sentence + ".")
}

/// Whose facts the checks of the machine see.
fn surroundings(report: &Report) -> Option<String> {
    let container = report.container.as_ref()?;
    Some(format!(
        "The doctor runs in a container ({container}). It sees the memory limit of the container, and the kernel, the \
         memory and the disks of the machine below it: what you change there changes it for all."
    ))
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::*;
    use millstream_model::{Change, Repair};

    /// A report with a finding of each level and one of everything else.
    pub(crate) fn report() -> Report {
        let mut worst =
            Finding::new("sequence-end", Class::Arithmetic, Level::Critical, "public.<s>", "93 % are used up")
                .with("last value", "2,000,000,000", "pg_sequences")
                .of_database("shop");
        worst.repair = Some(
            Repair::new(
                "make it a bigint",
                "it rewrites the table under an exclusive lock, which takes as long as the table is large",
            )
            .run(["alter sequence s as bigint", "-- then look again"])
            .needs(Restart::Reload),
        );
        let mut second =
            Finding::new("checkpoint-forced", Class::Arithmetic, Level::Warning, "", "half were requested");
        second.counted_seconds = Some(7_300.0);
        second.alternative = Some("backups request checkpoints too".to_owned());
        let (kind, target, value) = ("setting".to_owned(), "max_wal_size".to_owned(), Some("4GB".to_owned()));
        second.experiment = Some(Change { kind, target, value });
        second.repair = Some(
            Repair::new("let the WAL grow", "recovery after a crash takes longer")
                .run(["alter system set max_wal_size = '4GB'"])
                .changes(second.experiment.clone()),
        );
        let skip =
            Skip { check: "dead-tuples".to_owned(), database: Some("shop".to_owned()), why: "no time".to_owned() };
        Report {
            target: "postgres://a@b/shop".to_owned(),
            version: "18.1".to_owned(),
            provider: None,
            standby: false,
            container: None,
            databases: vec!["shop".to_owned()],
            counters: vec![Counters::of(None, None, 7_300.0), Counters::of(None, Some("shop"), 300.0)],
            findings: vec![worst, second],
            silenced: vec!["unused-index:shop:public.i".to_owned()],
            skipped: vec![skip],
            passed: vec!["invalid-index".to_owned()],
            snapshot: None,
            changes: None,
            seconds: 0.25,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_describes_reports() {
        let schema = serde_json::from_str(include_str!("../../../../docs/reference/doctor.schema.json")).unwrap();
        let fault = |report: &Report| millstream_testkit::misfit(&serde_json::to_value(report).unwrap(), &schema);
        let report = fixture::report();
        assert_eq!(fault(&report), None);
        assert_eq!(fault(&report.clone().since(&report)), None);
    }

    #[test]
    fn a_key_stays_one_word_of_the_command_that_applies_its_repair() {
        let mut finding = fixture::report().findings.remove(1);
        finding.key = "unused-index:a shop:public.\"o'clock\"".to_owned();
        let fix = r#"millstream doctor fix 'unused-index:a shop:public."o'\''clock"'"#.to_owned();
        let none = RunOptions::default();
        assert_eq!(ways(&finding, &none), [("Measure first", format!("{fix} --experiment")), ("Apply", fix.clone())]);
        assert!(ways(&fixture::report().findings[0], &none).is_empty());
        finding.key = "unused-index:shop:public.\"o\nclock\"".to_owned();
        assert!(ways(&finding, &none).is_empty());
        finding.key = "unused-index:a shop:public.\"o'clock\"".to_owned();
        // With the options of the run, it finds the same server and the same finding.
        let (server, others) = (Some("--db 'host=db1'".to_owned()), vec!["--plan-as app".to_owned()]);
        let options = RunOptions { server, others, lacks_password: false };
        let with = |command: &str| format!("{command} --db 'host=db1' --plan-as app");
        let expected = [("Measure first", with(&format!("{fix} --experiment"))), ("Apply", with(&fix))];
        assert_eq!(ways(&finding, &options), expected);
    }

    #[test]
    fn our_own_commands_are_for_the_same_server() {
        let options = RunOptions { server: Some("--db 'host=db1'".to_owned()), ..RunOptions::default() };
        for (text, expected) in [
            ("$ millstream doctor watch --for 5m", "$ millstream doctor watch --for 5m --db 'host=db1'"),
            ("$ millstream compact 'public.log'", "$ millstream compact 'public.log' --db 'host=db1'"),
            ("$ millstream doctor explain dirty-limits", "$ millstream doctor explain dirty-limits"),
            ("$ sync", "$ sync"),
            ("-- or", "-- or"),
            ("vacuum t", "vacuum t;"),
        ] {
            assert_eq!(typed(text, &options), expected);
        }
    }

    #[test]
    fn changes_name_what_is_new_and_what_is_gone_but_not_what_was_not_looked_at() {
        let now = fixture::report();
        let mut earlier = now.clone();
        earlier.findings.remove(1);
        let old = |check: &str, subject: &str| Finding::new(check, Class::Fact, Level::Info, subject, "x");
        earlier.findings.push(old("invalid-index", "a").of_database("shop"));
        earlier.findings.push(old("invalid-index", "a").of_database("another"));
        earlier.findings.push(old("dead-tuples", "t").of_database("shop"));
        earlier.findings.push(old("unused-index", "public.i").of_database("shop"));
        earlier.findings.push(old("wraparound", "t"));
        let changes = now.since(&earlier).changes.unwrap();
        assert_eq!(changes.new, ["checkpoint-forced"]);
        assert_eq!(changes.gone, ["invalid-index:shop:a"]);
    }

    #[test]
    fn a_finding_of_counters_is_gone_only_if_they_have_counted_as_long_again() {
        let mut earlier = fixture::report();
        let day = 86_400.0;
        let old = |check: &str, counted: f64| {
            let finding = Finding::new(check, Class::Arithmetic, Level::Info, "", "x");
            Finding { counted_seconds: Some(counted), ..finding }
        };
        earlier.counters = vec![Counters::of(None, None, 9.0 * day), Counters::of(None, Some("shop"), 9.0 * day)];
        earlier.findings = vec![
            old("hot-row", 9.0 * day).of_database("shop"),
            old("wal-buffers-full", 9.0 * day),
            old("cpu-taken", 2.0),
        ];
        let gone = |[server, shop, wal]: [f64; 3]| {
            let mut now = fixture::report();
            now.passed = ["hot-row", "wal-buffers-full", "cpu-taken"].map(str::to_owned).to_vec();
            let of = Counters::of;
            now.counters =
                vec![of(None, None, server), of(None, Some("shop"), shop), of(Some("wal-buffers-full"), None, wal)];
            let now = now.since(&earlier);
            let skipped: Vec<String> = now.skipped[1..].iter().map(|skip| skip.why.clone()).collect();
            (now.changes.unwrap().gone, skipped, now.passed)
        };
        let all = ["hot-row:shop", "wal-buffers-full", "cpu-taken"];
        assert_eq!(gone([10.0 * day; 3]).0, all);
        let (known, skipped, passed) = gone([10.0 * day, 3.0, 10.0 * day]);
        assert_eq!(known, all[1..]);
        assert_eq!(skipped, ["whether hot-row:shop is gone: needs 9d of counters, has 3s"]);
        assert_eq!(passed, ["wal-buffers-full", "cpu-taken"]);
        assert_eq!(gone([10.0 * day, 10.0 * day, 3.0]).0, [all[0], all[2]]);
        // A report of an older version does not say it.
        earlier.counters = Vec::new();
        let mut now = fixture::report();
        now.passed = vec!["hot-row".to_owned()];
        assert_eq!(now.since(&earlier).changes.unwrap().gone, [""; 0]);
    }

    #[test]
    fn counters_that_began_later_are_named_with_their_age() {
        let mut report = fixture::report();
        assert_eq!(counting(&report).unwrap(), "The server's counters began 2h ago; those of shop 5m ago.");
        let of = Counters::of;
        report.counters = vec![
            of(None, None, 9e5),
            of(None, Some("shop"), 9e5),
            of(None, Some("store"), 3.0),
            of(Some("top-statement"), Some("store"), 3.0),
            of(Some("top-statement"), Some("shop"), 3.0),
            of(Some("checkpoint-forced"), None, 9e5),
            of(Some("wal-buffers-full"), None, 60.0),
        ];
        let expected = "The server's counters began 10d ago; those of store, top-statement in shop 3s ago; those of \
                        wal-buffers-full 60s ago.";
        assert_eq!(counting(&report).unwrap(), expected);
        report.counters.clear();
        assert_eq!(counting(&report), None);
    }
}
