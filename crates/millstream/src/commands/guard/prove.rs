//! `guard prove`: sends packets to rules, and compares what passes with the policy.

use super::{PolicyArg, import, prober};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::{count, things};
use millstream_guard::limits::SCRIPT_BYTES_MAX;
use millstream_guard::policy::reason;
use millstream_guard::prove::{Form, Report, Subject, Task, Wrong, prove, send};
use millstream_guard::warning::doubts;
use millstream_host::read_at_most;
use serde_json::json;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  millstream guard prove host.toml
  millstream guard prove host.toml --as iptables-legacy
  millstream guard prove host.toml --rules my-rules.sh

Exit code 1 if something passed that should not, or the other way round.";

/// Send packets to the rules of a policy, and compare what passes with the policy
///
/// A client, a router and a host are made in networks of their own; root is not needed. For every line, packets at
/// the edges of its addresses and ports are sent, and then some thousand others, with and without other rules that
/// track connections. So are conversations: 200 kB through a router with smaller packets, a datagram in fragments, and
/// the loopback device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ProveArgs {
    #[command(flatten)]
    policy: PolicyArg,

    /// Form of the rules: nft, nft-json, iptables-nft or iptables-legacy
    #[arg(long = "as", value_name = "FORM", value_parser = Form::ALL.map(Form::name), default_value = "nft", hide_possible_values = true, conflicts_with = "rules")]
    form: String,

    /// Prove rules of your own instead, which this shell script makes in the host's network
    ///
    /// The script has a network of its own, but your files: if it writes files, it writes yours.
    #[arg(long, value_name = "SCRIPT")]
    rules: Option<PathBuf>,
}

/// Send the packets of a task that is read from stdin, and print which of them pass
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "Example, which the program itself runs in a network of its own:\n  millstream guard send-probes < TASK"
)]
pub struct SendProbesArgs {}

/// Runs `prove`.
pub fn run(args: &ProveArgs, output: Output) -> Result<Exit, Failure> {
    let policy = args.policy.read()?;
    let read = |path: &PathBuf| read_at_most(path, SCRIPT_BYTES_MAX, None);
    let script = args.rules.as_ref().map(read).transpose()?;
    let form = Form::ALL.into_iter().find(|form| form.name() == args.form).unwrap_or(Form::Nft);
    let (subject, name) = match &script {
        Some(script) => (Subject::Script(script), "the script"),
        None => (Subject::Own(form), form.name()),
    };
    let report = prove(&policy, subject, &prober()?)?;
    doubts(&policy).iter().for_each(|doubt| note(&format!("warning: {doubt}")));
    print(&report, name, output)?;
    Ok(if report.wrong.is_empty() { Exit::Done } else { Exit::Findings })
}

fn print(report: &Report, name: &str, output: Output) -> Result<(), Failure> {
    let (packets, talks, wrong) = (report.packets as u64, report.talks as u64, report.wrong.len() as u64);
    let differences = report.differences();
    if output.is_json() {
        let all: Vec<String> = report.wrong.iter().map(ToString::to_string).collect();
        return output.json(&json!({
            "rules": name, "packets": packets, "possible": report.possible, "conversations": talks,
            "lines": import::lines(&differences), "wrong": all
        }));
    }
    for one in differences.iter() {
        output.line(&format!("{one}\n  why it is there: {}", reason(&one.line)))?;
        for packet in &one.examples {
            output.line(&format!("  {packet}"))?;
        }
        if one.packets > one.examples.len() {
            output.line(&format!("  and {} more", one.packets - one.examples.len()))?;
        }
    }
    let others = report.wrong.iter().filter(|one| !matches!(one, Wrong::Packet { .. }));
    others.map(ToString::to_string).try_for_each(|one| output.line(&one))?;
    if report.wrong.iter().any(|one| matches!(one, Wrong::Packet { .. })) {
        note("--output json prints all packets");
    }
    let of = if report.possible > packets {
        format!(" (of {} that could be)", count(report.possible))
    } else {
        String::new()
    };
    let sent = format!("{}{of} and {}", things(packets, "packet"), things(talks, "conversation"));
    let verdict =
        if wrong == 0 { "all as the policy says".to_owned() } else { format!("{wrong} not as the policy says") };
    output.line(&format!("{name}: {sent}, {verdict}"))
}

/// Runs `send-probes`.
pub fn send_probes(_args: &SendProbesArgs, output: Output) -> Result<Exit, Failure> {
    let task: Task = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|error| Failure::user("the task cannot be read").because(&error))?;
    let passed = send(&task).map_err(|error| Failure::user("packets cannot be sent").because(&error))?;
    output.line(&json!(passed).to_string())?;
    Ok(Exit::Done)
}
