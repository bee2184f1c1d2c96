//! A change as an experiment of the lab: what it does to pgbench's transactions, before it is made.

use crate::commands::lab::run::{self, Asked};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::signal::Signals;
use millstream_change::Sides;
use millstream_host::{PRIVATE, make_ours, write_target};
use millstream_lab::core::statistics::{Comparison, Verdict};
use millstream_lab::experiments::{Analysis, Compared, Record, Request, Selection};
use millstream_local::{installed, server_account};
use millstream_model::{Change, Refusal};
use millstream_pg::{ConnInfo, SessionSettings, connect};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The arm with the change.
const CHANGED: &str = "changed";

/// How long a run is.
const SECONDS: u32 = 20;

/// The experiment that compares a change with what is there now, as a file of the lab.
pub fn experiment(change: &Change, sides: &Sides) -> String {
    let Sides { both, now, changed, value, restarts, seconds } = sides;
    let seconds = seconds.unwrap_or(SECONDS);
    let proposed = change.value.as_deref().unwrap_or_default();
    let question = format!("Is {} = {proposed} faster than {value} here?", change.target);
    // A server that has just started reads everything from the disk.
    let warm_up = if *restarts { "warm_up = 5\n" } else { "" };
    format!(
        "question = {}\n\
         expected = \"The doctor proposes it; nobody has measured it here.\"\n\
         read = \"The transactions are those of pgbench, not yours. Put scripts of your own into [run].\"\n\
         metric = \"tps\"\n\
         blocks = 10\n\
         seconds = {seconds}\n\
         {warm_up}\n\
         [data]\nscale = 50\n\n\
         [run]\nscripts = [\"builtin:tpcb-like\"]\nclients = 8\nthreads = 2\nprotocol = \"prepared\"\n{both}\n\
         [[arm]]\nname = \"now\"\nabout = \"as it is\"\n\n[arm.run]\n{now}\n\
         [[arm]]\nname = \"{CHANGED}\"\nabout = \"as the doctor proposes\"\n\n[arm.run]\n{changed}",
        text(&question)
    )
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
    let failed = Failure::cannot("write", &dir);
    // It holds what is run next.
    make_ours(&dir, PRIVATE).map_err(Refusal::from)?;
    let file = dir.join("change.toml");
    write_target(&file, text).map_err(failed)?;
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
    let asked = Asked {
        experiments: &name,
        commands: None,
        selection: Selection::default(),
        request,
        scale_max: None,
        is_guest: false,
        out: Some(&dir),
        html: None,
        argv,
    };
    match run::run(asked, output, signals).await? {
        Exit::Done | Exit::Findings => {}
        _ => return Err(Failure::user("the measurement was stopped; nothing was changed")),
    }
    let record = Record::read(&dir)?;
    let analysis = Analysis::of(&record);
    let compared = analysis.comparisons.iter().find(|one| one.arm == CHANGED);
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
    use crate::changes::KINDS;
    use millstream_change::{Place, find};
    use millstream_lab::core::statistics::Criteria;
    use millstream_lab::experiments::Source;

    #[tokio::test]
    async fn a_change_of_the_kernel_or_of_pages_becomes_an_experiment_that_the_lab_reads() {
        let place = Place::default();
        for (kind, target, before, value) in [
            ("sysctl", "vm.dirty_background_bytes", Some("vm.dirty_background_ratio=10"), "268435456"),
            ("table-option", "shop/public.t/fillfactor", None, "90"),
        ] {
            let change = Change { kind: kind.to_owned(), target: target.to_owned(), value: Some(value.to_owned()) };
            let kind = find(KINDS, kind).unwrap();
            let measurable = kind.measurable().unwrap();
            assert!(measurable.shows(&change), "{target}");
            let text = experiment(&change, &measurable.sides(&place, &change, before).await.unwrap());
            let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let source = Source::named(&file.path().display().to_string(), &Selection::default()).unwrap();
            let names: Vec<&str> = source.experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
            assert_eq!(names, ["now", CHANGED], "{target}");
        }
        for (kind, target) in [
            ("index", "shop/public.i"),
            ("sysctl", "vm.zone_reclaim_mode"),
            ("sysfs", "/sys/block/sda/queue/read_ahead_kb"),
            ("table-option", "shop/public.t/autovacuum_enabled"),
            // No transaction of pgbench sorts or reads ahead.
            ("setting", "work_mem"),
            ("setting", "effective_io_concurrency"),
            // None writes enough WAL.
            ("setting", "max_wal_size"),
            ("setting", "wal_buffers"),
        ] {
            let change = Change { kind: kind.to_owned(), target: target.to_owned(), value: Some(String::new()) };
            let measurable = find(KINDS, kind).unwrap().measurable();
            assert!(measurable.is_none_or(|one| !one.shows(&change)), "{target}");
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
}
