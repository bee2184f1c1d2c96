//! `lab run --guest`: runs an experiment under kernels that boot in emulated machines.

use super::run::exit_of;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note, write_page};
use crate::signal::Signals;
use crate::table::{Align, Table};
use millstream_lab::Error;
use millstream_lab::experiments::report::{html, lineup};
use millstream_lab::experiments::{Analysis, Lineup, RECORDS_MIN, Side};
use millstream_lab::guest::{Boot, Guests, Request};
use serde_json::json;
use std::path::Path;

/// Boots the kernels in turn, and prints for each boot which arms ran. It prints no speed. The page has all kernels.
pub async fn run(
    request: Request<'_>,
    out: Option<&Path>,
    html: Option<&Path>,
    output: Output,
    signals: &Signals,
) -> Result<Exit, Failure> {
    let guests = Guests::new(request, out)?;
    let mut say = |line: &str| note(line);
    // A signal from the terminal reaches the guest too, so that both may be ready. Boxed, because it is large.
    let ended = tokio::select! {
        biased;
        exit = signals.stop_asked() => {
            note(&format!("stopped; to resume, give the same command with --out {}", guests.dir.display()));
            return Ok(exit);
        }
        ended = Box::pin(guests.run(&mut say)) => ended,
    };
    note(&format!("records: {}", guests.dir.display()));
    let boots = ended?;
    let shown: Vec<Shown> = boots.iter().map(|boot| boot.record.as_ref().map(Analysis::of).map_err(why)).collect();
    if output.is_json() {
        let boots: Vec<_> = boots.iter().zip(&shown).map(|(boot, shown)| described(boot, shown)).collect();
        output.json(&json!({ "emulated": true, "boots": boots }))?;
    } else {
        show(&boots, &shown, output)?;
    }
    if let Some(file) = html {
        match page(&boots)? {
            Some(page) => write_page(file, &page)?,
            None => note("no page: no guest has sent a record"),
        }
    }
    let failed = |shown: &Shown| shown.as_ref().map_or(true, |analysis| exit_of(analysis) == Exit::Findings);
    Ok(if shown.iter().any(failed) { Exit::Findings } else { Exit::Done })
}

/// A page with a record of each kernel, or with all of them if they are enough for a comparison. `None` without a record.
fn page(boots: &[Boot]) -> Result<Option<String>, Failure> {
    let mut sides: Vec<Side> = Vec::new();
    for (boot, record) in boots.iter().filter_map(|boot| Some((boot, boot.record.as_ref().ok()?))) {
        match sides.iter_mut().find(|side| side.name == boot.kernel) {
            Some(side) => side.records.push(record.clone()),
            None => sides.push(Side::new(boot.kernel.clone(), vec![record.clone()])),
        }
    }
    for side in &mut sides {
        if side.records.len() < RECORDS_MIN {
            side.records.truncate(1);
        }
    }
    sides.sort_by_key(|side| version(&side.name));
    Ok(match sides.len() {
        0 => None,
        1 => sides[0].records.first().map(|record| html(record, &Analysis::of(record))),
        _ => Some(lineup(&Lineup::of(sides)?)),
    })
}

/// The numbers of a name, by which releases of kernels are sorted.
pub fn version(name: &str) -> Vec<u64> {
    name.split(|one: char| !one.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// What a boot has shown, or why its kernel did not boot.
type Shown = Result<Analysis, String>;

/// Why a kernel did not boot, and where to read more.
fn why(error: &Error) -> String {
    match error {
        // What a program printed may have several lines.
        Error::Guest { why, hint, .. } => format!("{}; {hint}", why.replace('\n', " ")),
        other => other.to_string(),
    }
}

fn show(boots: &[Boot], shown: &[Shown], output: Output) -> Result<(), Failure> {
    let headings =
        [("kernel", Align::Left), ("boot", Align::Right), ("arms that ran", Align::Left), ("record", Align::Wrap)];
    let mut table = Table::new(&headings);
    for (boot, shown) in boots.iter().zip(shown) {
        let ran = match shown {
            Ok(analysis) => format!("{} of {}", analysis.arms.len() - analysis.missing().len(), analysis.arms.len()),
            Err(_) => "did not boot".to_owned(),
        };
        table.row([boot.kernel.clone(), boot.number.to_string(), ran, boot.dir.display().to_string()]);
    }
    output.table(&table)?;
    for (boot, shown) in boots.iter().zip(shown) {
        let lines = match shown {
            Ok(analysis) => analysis.missing(),
            Err(why) => vec![format!("did not boot: {why}")],
        };
        for line in lines {
            output.line(&format!("{}, boot {}: {line}", boot.kernel, boot.number))?;
        }
    }
    output.line("The processor was emulated: this says nothing about speed.")
}

fn described(boot: &Boot, shown: &Shown) -> serde_json::Value {
    json!({
        "kernel": boot.kernel,
        "boot": boot.number,
        "arms": shown.as_ref().map_or(0, |analysis| analysis.arms.len()),
        "missing": shown.as_ref().map(Analysis::missing).unwrap_or_default(),
        "did_not_boot": shown.as_ref().err(),
        "record": boot.dir.display().to_string(),
    })
}
