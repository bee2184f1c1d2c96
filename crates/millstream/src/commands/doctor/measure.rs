//! A change as an experiment of the lab: what it does to pgbench's transactions, before it is made.

use crate::commands::lab::pgbench::{self, Asked};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::signal::Signals;
use millstream_doctor::is_measurable;
use millstream_host::kernel::device::queues_below;
use millstream_host::kernel::file;
use millstream_lab::core::statistics::{Comparison, Verdict};
use millstream_lab::pgbench::{Analysis, Compared, Record, Request};
use millstream_local::{HOME_VARIABLE, Home, installed, server_account};
use millstream_model::Change;
use millstream_pg::{ConnInfo, SessionSettings, connect};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The arm with the change.
const CHANGED: &str = "changed";

/// Huge pages that the server of the lab may need more than yours, besides a twentieth.
const SPARE_PAGES: i64 = 32;

/// What an experiment sets, as lines of its file.
#[derive(Debug, Default)]
struct Sides {
    /// In both arms.
    both: String,
    /// In the arm that is as it is now.
    now: String,
    /// In the arm with the change.
    changed: String,
    /// The present value.
    value: String,
    /// The server of the lab starts again between the arms.
    restarts: bool,
}

/// The experiment that compares a change with what is there now, as a file of the lab.
///
/// # Errors
/// The change is of a kind that no experiment can make, or of another disk than the lab's; the server does not answer.
pub async fn experiment(change: &Change, before: Option<&str>, db: &ConnInfo) -> Result<String, Failure> {
    let sides = match change.kind.as_str() {
        _ if !is_measurable(change) => return Err(no_experiment()),
        "setting" => of_setting(change, db).await?,
        "sysctl" => of_sysctl(change, before),
        "sysfs" => of_disk(change, before, &queues_below(&Home::choose(None)?.dir.join("lab")))?,
        "table-option" => of_fillfactor(change, before),
        _ => return Err(no_experiment()),
    };
    let Sides { both, now, changed, value, restarts } = sides;
    let question = format!("Is {} = {} faster than {value} here?", change.target, proposed(change));
    // A server that has just started reads everything from the disk.
    let warm_up = if restarts { "warm_up = 5\n" } else { "" };
    Ok(format!(
        "question = {}\n\
         expected = \"The doctor proposes it; nobody has measured it here.\"\n\
         read = \"The transactions are those of pgbench, not yours. Put scripts of your own into [run].\"\n\
         metric = \"tps\"\n\
         blocks = 10\n\
         seconds = 20\n\
         {warm_up}\n\
         [data]\nscale = 50\n\n\
         [run]\nscripts = [\"builtin:tpcb-like\"]\nclients = 8\nthreads = 2\nprotocol = \"prepared\"\n{both}\n\
         [[arm]]\nname = \"now\"\nabout = \"as it is\"\n\n[arm.run]\n{now}\n\
         [[arm]]\nname = \"{CHANGED}\"\nabout = \"as the doctor proposes\"\n\n[arm.run]\n{changed}",
        text(&question)
    ))
}

fn no_experiment() -> Failure {
    Failure::user("this change has no experiment: the transactions of pgbench do not show it").hint(
        "fillfactor has one, and so have settings of the kernel, attributes of a disk, and settings of the server that \
         such transactions show; compare two commands of your own with millstream lab run --a COMMAND --b COMMAND",
    )
}

/// The value that a change gives.
fn proposed(change: &Change) -> &str {
    change.value.as_deref().unwrap_or_default()
}

/// A table of the file with one entry.
fn entry(table: &str, name: &str, value: &str) -> String {
    format!("{table} = {{ {} = {} }}\n", text(name), text(value))
}

/// What is in effect may come from a file, or be the default.
async fn of_setting(change: &Change, db: &ConnInfo) -> Result<Sides, Failure> {
    let failed = millstream_pg::Error::from;
    let session = connect(db, &SessionSettings::doctor()).await?;
    let sql = "select current_setting($1), \
               coalesce((select context = 'postmaster' from pg_settings where name = $1), false)";
    let row = session.client.query_one(sql, &[&change.target]).await.map_err(failed)?;
    let (value, restarts): (String, bool) = (row.get(0), row.get(1));
    let settings = |value: &str| entry("settings", &change.target, value);
    let (now, changed) = (settings(&value), settings(proposed(change)));
    let mut sides = Sides { both: String::new(), now, changed, value, restarts };
    if change.target == "huge_pages" {
        let sql = "select current_setting('shared_buffers'), \
                   nullif(current_setting('shared_memory_size_in_huge_pages', true), '')::bigint";
        let row = session.client.query_one(sql, &[]).await.map_err(failed)?;
        let (buffers, pages): (String, Option<i64>) = (row.get(0), row.get(1));
        let size = "select pg_size_bytes(current_setting('shared_buffers'))";
        let bytes: i64 = session.client.query_one(size, &[]).await.map_err(failed)?.get(0);
        // The lab's server takes as much again, beside yours.
        if memory_kb("MemAvailable").is_some_and(|free| free * 1_024 < bytes + bytes / 5) {
            let why = format!("the lab would need {buffers} of memory more, and this machine has not enough left");
            return Err(Failure::user(why).hint("measure on a machine like this one that has no other work"));
        }
        sides.both = entry("settings", "shared_buffers", &buffers);
        // With `try` the server would take the pages that another arm has left.
        sides.now = settings("off");
        if let Some(pages) = pages.filter(|pages| *pages > 0) {
            // Those that others use stay theirs.
            let used =
                memory_kb("HugePages_Total").zip(memory_kb("HugePages_Free")).map_or(0, |(all, free)| all - free);
            let pages = used + pages + pages / 20 + SPARE_PAGES;
            sides.changed += &entry("host", "vm.nr_hugepages", &pages.to_string());
        }
    }
    Ok(sides)
}

/// A line of `/proc/meminfo`, in kB or pages.
fn memory_kb(name: &str) -> Option<i64> {
    let number = file::number(&file::text("/proc/meminfo")?, name)?;
    #[expect(clippy::cast_possible_truncation, reason = "a cast of floats saturates")]
    Some(number as i64)
}

fn of_sysctl(change: &Change, before: Option<&str>) -> Sides {
    let value = before.unwrap_or_default();
    // Limits of dirty pages are bytes or shares of the memory; the kernel keeps the one that was set last.
    let (name, plain) = value.split_once('=').unwrap_or((change.target.as_str(), value));
    let (now, changed) = (entry("host", name, plain), entry("host", &change.target, proposed(change)));
    Sides { now, changed, value: value.to_owned(), ..Sides::default() }
}

/// The lab changes the disk of its own data, whose queues these are.
fn of_disk(change: &Change, before: Option<&str>, queues: &[PathBuf]) -> Result<Sides, Failure> {
    let (queue, attribute) = change.target.rsplit_once('/').unwrap_or_default();
    if !queues.iter().any(|one| one == Path::new(queue)) {
        let disk = queue.trim_start_matches("/sys/block/").trim_end_matches("/queue");
        let why = format!("the lab measures the disk of its own data, and that is not {disk}");
        return Err(Failure::user(why).hint(format!(
            "set {HOME_VARIABLE} to a directory on {disk}, print the experiment with --experiment, and run it with \
             millstream lab run"
        )));
    }
    let value = before.unwrap_or_default();
    let host = |value: &str| entry("host", &format!("disk.{attribute}"), value);
    Ok(Sides { now: host(value), changed: host(proposed(change)), value: value.to_owned(), ..Sides::default() })
}

fn of_fillfactor(change: &Change, before: Option<&str>) -> Sides {
    let value = before.unwrap_or("100");
    let fillfactor = |value: &str| format!("fillfactor = {value}\n");
    Sides { now: fillfactor(value), changed: fillfactor(proposed(change)), value: value.to_owned(), ..Sides::default() }
}

/// Runs the experiment on a server of the lab. Returns whether the change is faster, by more than chance and by enough to
/// matter, and the verdict as a sentence.
///
/// # Errors
/// The lab's; it was interrupted.
pub async fn measured(text: &str, db: &ConnInfo, output: Output, signals: &Signals) -> Result<(bool, String), Failure> {
    let postgres = installed_here(db).await?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let dir = PathBuf::from(format!("doctor-measure-{seconds}"));
    let failed = |error: std::io::Error| Failure::user(format!("cannot write {}", dir.display())).because(&error);
    std::fs::create_dir(&dir).map_err(failed)?;
    let file = dir.join("change.toml");
    std::fs::write(&file, text).map_err(failed)?;
    let name = [file.display().to_string()];
    let request = Request {
        blocks: None,
        seconds: None,
        quick: false,
        seed: seconds,
        program: std::env::current_exe().ok(),
        db: None,
        may_change: false,
        change_host: true,
        wal_dir: None,
        steal_percent_max: None,
        postgres,
    };
    let argv = vec!["millstream".to_owned(), "doctor".to_owned(), "fix".to_owned(), "--measure".to_owned()];
    let asked = Asked { experiments: &name, commands: None, request, scale_max: None, out: Some(&dir), argv };
    match pgbench::run(asked, output, signals).await? {
        Exit::Done | Exit::Findings => {}
        _ => return Err(Failure::user("the measurement was stopped; nothing was changed")),
    }
    let record = Record::read(&dir)?;
    let analysis = record.as_ref().map(Analysis::of);
    let compared = analysis.as_ref().and_then(|analysis| analysis.comparisons.iter().find(|one| one.arm == CHANGED));
    let Some(Compared { comparison: Some(comparison), sentence, .. }) = compared else {
        return Err(Failure::user("the change could not be measured; nothing was changed")
            .hint(format!("the reason is in {}", dir.display())));
    };
    Ok((is_faster(comparison), sentence.clone()))
}

/// Whether the arm with the change has more transactions a second, by more than chance and by enough to matter.
fn is_faster(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, Verdict::Differs { negligible: false }) && comparison.ratio > 1.0
}

/// The server's major version, if this machine has it. `None`: the lab takes the newest that is here.
async fn installed_here(db: &ConnInfo) -> Result<Option<String>, Failure> {
    let session = connect(db, &SessionSettings::doctor()).await?;
    let major = u32::try_from(session.server.version_num / 10_000).unwrap_or(0);
    if installed(&server_account()?).iter().any(|one| one.major == major) {
        return Ok(Some(major.to_string()));
    }
    note(&format!("PostgreSQL {major} is not installed here, so that the lab measures with the newest that is"));
    Ok(None)
}

/// A text of TOML. Its strings are written as those of JSON.
fn text(value: &str) -> String {
    serde_json::Value::String(value.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_lab::core::statistics::Criteria;
    use millstream_lab::pgbench::Source;
    use millstream_pg::Environment;

    fn change(kind: &str, target: &str, value: &str) -> Change {
        Change { kind: kind.to_owned(), target: target.to_owned(), value: Some(value.to_owned()) }
    }

    #[tokio::test]
    async fn a_change_of_the_kernel_or_of_pages_becomes_an_experiment_that_the_lab_reads() {
        let db = ConnInfo::parse("host=/nowhere user=u", &Environment::from_variables([])).unwrap();
        for (kind, target, before, value) in [
            ("sysctl", "vm.dirty_background_bytes", Some("vm.dirty_background_ratio=10"), "268435456"),
            ("sysctl", "vm.zone_reclaim_mode", Some("1"), "0"),
            ("table-option", "shop/public.t/fillfactor", None, "90"),
        ] {
            let text = experiment(&change(kind, target, value), before, &db).await.unwrap();
            let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let source = Source::named(&file.path().display().to_string()).unwrap();
            let names: Vec<&str> = source.experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
            assert_eq!(names, ["now", CHANGED], "{target}");
        }
        for (kind, target) in [
            ("index", "shop/public.i"),
            ("table-option", "shop/public.t/autovacuum_enabled"),
            // No transaction of pgbench sorts or reads ahead.
            ("setting", "work_mem"),
            ("setting", "effective_io_concurrency"),
        ] {
            let error = experiment(&change(kind, target, ""), None, &db).await.unwrap_err();
            assert!(error.to_string().contains("has no experiment"), "{target}: {error}");
        }
    }

    #[test]
    fn only_a_change_that_is_faster_by_enough_to_matter_is_made() {
        let now = [101.0, 99.5, 100.2, 100.8, 99.1, 100.4, 98.9, 100.1, 99.7, 100.6];
        let is_made = |changed: [f64; 10]| {
            is_faster(&Comparison::paired(&now, &changed, Criteria::default()).expect("as many positive values"))
        };
        assert!(is_made(now.map(|rate| rate * 1.2)));
        assert!(!is_made(now.map(|rate| rate / 1.2)), "it is slower");
        assert!(!is_made(now.map(|rate| rate * 1.01)), "it does not matter");
        assert!(!is_made(now), "it is the same");
        let mut scattered = now.map(|rate| rate * 1.5);
        scattered.iter_mut().step_by(2).for_each(|rate| *rate /= 3.0);
        assert!(!is_made(scattered), "it may be chance");
    }

    #[test]
    fn the_limit_that_counts_now_is_the_one_that_the_kernel_keeps() {
        let sides = of_sysctl(&change("sysctl", "vm.dirty_bytes", "1000"), Some("vm.dirty_ratio=20"));
        assert_eq!(sides.now, "host = { \"vm.dirty_ratio\" = \"20\" }\n");
        assert_eq!(sides.changed, "host = { \"vm.dirty_bytes\" = \"1000\" }\n");
    }

    #[test]
    fn an_attribute_of_a_disk_is_measured_only_on_the_disk_of_the_lab() {
        let queues = [PathBuf::from("/sys/block/sda/queue")];
        let of = |disk: &str| {
            let target = format!("/sys/block/{disk}/queue/scheduler");
            of_disk(&change("sysfs", &target, "none"), Some("bfq"), &queues)
        };
        let sides = of("sda").unwrap();
        assert_eq!(sides.now, "host = { \"disk.scheduler\" = \"bfq\" }\n");
        assert_eq!(sides.changed, "host = { \"disk.scheduler\" = \"none\" }\n");
        let other = of("sdb").unwrap_err().to_string();
        assert!(other.contains("that is not sdb") && other.contains("set MILLSTREAM_HOME"), "{other}");
    }
}
