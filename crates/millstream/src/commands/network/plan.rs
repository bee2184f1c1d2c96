//! `network plan`: what programs make of a topology.

use super::{TopologyArg, check};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::things;
use millstream_host::{TargetFile, make_folder};
use millstream_network::difference::{Live, differences};
use millstream_network::lint::{Finding, Level, lint};
use millstream_network::output::{File, Form, Words, files};
use millstream_network::topology::Topology;
use millstream_network::warning::{Facts, warnings};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  millstream network plan host.toml
  millstream network plan host.toml --as keyfile --to keyfiles
  millstream network plan host.toml --as ip > host.sh";

/// Print the commands or files that make a topology
///
/// Nothing on this host is changed. What would change is said on stderr. A topology with errors is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    #[command(flatten)]
    topology: TopologyArg,

    /// Form: nmcli (commands of NetworkManager), keyfile (its files), nmstate (a state in YAML), or ip (commands of
    /// iproute2, which a restart of the machine undoes)
    #[arg(long = "as", value_name = "FORM", value_parser = Form::ALL.map(Form::name), default_value = "nmcli", hide_possible_values = true)]
    form: String,

    /// Version of NetworkManager, whose words changed with 1.46 [default: that of nmcli here, else 1.42]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// Write keyfiles into this directory, each for its owner alone
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// A topology that can be made, and what was found about it.
pub struct Made {
    /// The topology.
    pub topology: Topology,
    /// The words of NetworkManager.
    pub words: Words,
    /// The links of this machine.
    pub live: Live,
    findings: Vec<Finding>,
    warnings: Vec<String>,
    differences: Vec<String>,
}

/// Reads a topology, and says on stderr what is found about it. `version`: that of NetworkManager.
///
/// # Errors
/// It has errors, or cannot be read.
pub fn made(arg: &TopologyArg, version: Option<&str>) -> Result<Made, Failure> {
    let topology = arg.read()?;
    let findings = lint(&topology);
    for Finding { level, place, sentence, reason, .. } in &findings {
        note(&format!("{}: {place}: {sentence}; {reason}", level.name()));
    }
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    if errors > 0 {
        let count = things(errors as u64, "error");
        return Err(Failure::user(format!("nothing is planned: {count} in {}", arg.topology.display()))
            .hint("each is named above, with what helps"));
    }
    let words = match version {
        Some(version) => Words::of(version)
            .ok_or_else(|| Failure::user(format!("{version:?} is not a version")).hint("for example --version 1.42"))?,
        None => installed(),
    };
    let live = Live::read();
    let warnings = live.as_ref().map(|live| warnings(&topology, &Facts::read(), live)).unwrap_or_default();
    let differences = live.as_ref().map(|live| differences(&topology, live)).unwrap_or_default();
    warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
    differences.iter().for_each(|difference| note(difference));
    Ok(Made { topology, words, live: live.unwrap_or_default(), findings, warnings, differences })
}

/// Runs the command.
pub fn run(args: &PlanArgs, output: Output) -> Result<Exit, Failure> {
    let form = Form::ALL.into_iter().find(|form| form.name() == args.form).unwrap_or(Form::Nmcli);
    if args.to.is_some() && form != Form::Keyfile {
        return Err(Failure::user("--to writes keyfiles").hint("add --as keyfile"));
    }
    let Made { topology, words, findings, warnings, differences, .. } = made(&args.topology, args.version.as_deref())?;
    if let Some(dir) = &args.to {
        for file in files(&topology, words) {
            let path = write(dir, &file)?;
            output.line(&path.display().to_string())?;
        }
        return Ok(Exit::Done);
    }
    let text = form.text(&topology, words);
    if output.is_json() {
        let found: Vec<_> = findings.iter().map(check::as_json).collect();
        output.json(&json!({ "form": form.name(), "text": text, "findings": found, "warnings": warnings, "differences": differences }))?;
        return Ok(Exit::Done);
    }
    output.data(&text)?;
    Ok(Exit::Done)
}

/// The words of the NetworkManager that is here.
fn installed() -> Words {
    let asked = millstream_host::Command::new("nmcli").arg("--version").run_blocking();
    let version = asked.ok().and_then(|ended| ended.stdout.rsplit(' ').next().map(str::to_owned));
    version.and_then(|version| Words::of(&version)).unwrap_or(Words::OLD)
}

/// NetworkManager ignores a file that others may read.
fn write(dir: &Path, file: &File) -> Result<PathBuf, Failure> {
    let path = dir.join(&file.name);
    let write = || {
        make_folder(dir)?;
        let mut new = TargetFile::create_private(&path)?;
        new.write_all(file.text.as_bytes())?;
        new.finish()
    };
    write().map_err(Failure::cannot("write", &path))?;
    Ok(path)
}
