//! A change as an experiment of the lab: what it does to pgbench's transactions, before it is made.

use crate::commands::lab_pgbench::{self, Asked};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::signal::Signals;
use millstream_lab::core::statistics::Verdict;
use millstream_lab::pgbench::{Analysis, Compared, Record, Request};
use millstream_model::Change;
use millstream_pg::{ConnInfo, SessionSettings, connect};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The arm with the change.
const CHANGED: &str = "changed";

/// The experiment that compares a change with what is there now, as a file of the lab.
///
/// # Errors
/// The change is of a kind that no experiment can make; the server does not answer.
pub async fn experiment(change: &Change, before: Option<&str>, db: &ConnInfo) -> Result<String, Failure> {
    let table = match change.kind.as_str() {
        "setting" => "settings",
        "sysctl" => "host",
        _ => {
            return Err(Failure::user("this change has no experiment: pgbench's tables do not show it").hint(
                "only settings of the server and of the kernel have one; compare two commands of your own with \
                       millstream lab run --a COMMAND --b COMMAND",
            ));
        }
    };
    let now = match change.kind.as_str() {
        // What is in effect may come from a file, or be the default.
        "setting" => in_effect(&change.target, db).await?,
        _ => before.unwrap_or_default().to_owned(),
    };
    let value = change.value.clone().unwrap_or_default();
    let (name, now, value) = (text(&change.target), text(&now), text(&value));
    let plain = change.target.as_str();
    Ok(format!(
        "question = {}\n\
         expected = \"The doctor proposes it; nobody has measured it here.\"\n\
         read = \"The transactions are those of pgbench, not yours. Put scripts of your own into [run].\"\n\
         metric = \"tps\"\n\
         blocks = 10\n\
         seconds = 20\n\n\
         [data]\nscale = 50\n\n\
         [run]\nscripts = [\"builtin:tpcb-like\"]\nclients = 8\nthreads = 2\nprotocol = \"prepared\"\n\n\
         [[arm]]\nname = \"now\"\nabout = \"as it is\"\n\n[arm.run]\n{table} = {{ {name} = {now} }}\n\n\
         [[arm]]\nname = \"{CHANGED}\"\nabout = \"as the doctor proposes\"\n\n[arm.run]\n{table} = {{ {name} = {value} }}\n",
        text(&format!(
            "Is {plain} = {} faster than {} here?",
            change.value.as_deref().unwrap_or(""),
            now.trim_matches('"')
        )),
    ))
}

/// Runs the experiment on a server of the lab. Returns whether the change is faster, by more than chance and by enough to
/// matter, and the verdict as a sentence.
///
/// # Errors
/// The lab's; it was interrupted.
pub async fn measured(text: &str, output: Output, signals: &Signals) -> Result<(bool, String), Failure> {
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
        postgres: None,
    };
    let argv = vec!["millstream".to_owned(), "doctor".to_owned(), "fix".to_owned(), "--measure".to_owned()];
    let asked = Asked { experiments: &name, commands: None, request, out: Some(&dir), argv };
    match lab_pgbench::run(asked, output, signals).await? {
        Exit::Done | Exit::Findings => {}
        _ => return Err(Failure::user("the measurement was stopped; nothing was changed")),
    }
    let record = Record::read(&dir).map_err(crate::commands::lab::failure)?;
    let analysis = record.as_ref().map(Analysis::of);
    let compared = analysis.as_ref().and_then(|analysis| analysis.comparisons.iter().find(|one| one.arm == CHANGED));
    let Some(Compared { comparison: Some(comparison), sentence, .. }) = compared else {
        return Err(Failure::user("the change could not be measured; nothing was changed")
            .hint(format!("the reason is in {}", dir.display())));
    };
    let differs = matches!(comparison.verdict, Verdict::Differs { negligible: false });
    note(&format!("record: {}", dir.display()));
    Ok((differs && comparison.ratio > 1.0, sentence.clone()))
}

/// The value of a setting for new sessions.
async fn in_effect(name: &str, db: &ConnInfo) -> Result<String, Failure> {
    let session = connect(db, &SessionSettings::named("millstream doctor")).await?;
    let row =
        session.client.query_one("select current_setting($1)", &[&name]).await.map_err(millstream_pg::Error::from)?;
    Ok(row.get(0))
}

/// A text of TOML. Its strings are written as those of JSON.
fn text(value: &str) -> String {
    serde_json::Value::String(value.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_lab::pgbench::Source;
    use millstream_pg::Environment;

    #[tokio::test]
    async fn a_change_of_the_kernel_becomes_an_experiment_that_the_lab_reads() {
        let db = ConnInfo::parse("host=/nowhere user=u", &Environment::from_variables([])).unwrap();
        let (kind, target, value) = ("sysctl", "vm.dirty_background_bytes", Some("268435456".to_owned()));
        let change = Change { kind: kind.to_owned(), target: target.to_owned(), value };
        let text = experiment(&change, Some("0"), &db).await.unwrap();
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let source = Source::named(&file.path().display().to_string()).unwrap();
        let names: Vec<&str> = source.experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["now", CHANGED]);
        let index = Change { kind: "index".to_owned(), ..change };
        assert!(experiment(&index, None, &db).await.unwrap_err().to_string().contains("has no experiment"));
    }
}
