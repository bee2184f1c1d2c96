//! `lab run` and `lab report`: runs experiments, and reports their records.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note, write_page};
use crate::screen::{COLUMNS_DEFAULT, stdout_columns};
use crate::secret::masked;
use crate::signal::Signals;
use crate::table::{Align, Table, wrap};
use millstream_host::shell_line;
use millstream_lab::experiments::report::{csv, csv_series, html, in_common, markdown, text};
use millstream_lab::experiments::{self, Analysis, Commands, Conditions, Ended, Record, Request, Selection, Source};
use serde_json::json;
use std::path::Path;

/// What is asked for a run, besides the experiment.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Names of experiments, or paths of their files.
    pub experiments: &'a [String],
    /// Two command lines to compare instead.
    pub commands: Option<Commands>,
    /// Values and arms.
    pub selection: Selection,
    /// How they are run.
    pub request: Request,
    /// Largest scale of pgbench's tables; `None`: that of the experiment.
    pub scale_max: Option<u32>,
    /// Whether this machine is a guest.
    pub is_guest: bool,
    /// Directory of the record.
    pub out: Option<&'a Path>,
    /// File for the report as a page, too.
    pub html: Option<&'a Path>,
    /// The command, without directories and passwords.
    pub argv: Vec<String>,
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for a terminal
    #[default]
    Text,
    /// Markdown, for an issue or a document
    Markdown,
    /// Every run as a line of CSV
    Csv,
}

/// Whether this names an experiment: a built-in one, or a file.
pub fn is_experiment(name: &str) -> bool {
    has_extension(name) || Source::built_in().is_ok_and(|all| all.iter().any(|one| one.experiment.name == name))
}

/// Lists the built-in experiments: name, minutes, megabytes of data, question.
pub fn list(output: Output) -> Result<Exit, Failure> {
    let headings =
        [("experiment", Align::Left), ("minutes", Align::Right), ("MB", Align::Right), ("asks", Align::Wrap)];
    let (mut table, mut described) = (Table::new(&headings), Vec::new());
    for Source { experiment: one, .. } in Source::built_in()? {
        let (minutes, bytes) = one.cost();
        let megabytes = if bytes == 0 { "-".to_owned() } else { (bytes / 1_000_000).to_string() };
        table.row([one.name.clone(), format!("{minutes:.0}"), megabytes, one.question.clone()]);
        described.push(json!({ "name": one.name, "about": one.question, "minutes": minutes, "bytes": bytes }));
    }
    if output.is_json() {
        output.json(&described)?
    } else {
        output.table(&table)?
    }
    Ok(Exit::Done)
}

/// What pgbench's tables take, if there are any.
fn of_data(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!(" and {} MB of data", bytes / 1_000_000) }
}

/// Runs experiments one after the other, each into a record of its own.
pub async fn run(asked: Asked<'_>, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    for (names, given) in [("--out names the record", asked.out), ("--html names the page", asked.html)] {
        if given.is_some() && asked.experiments.len() > 1 {
            return Err(Failure::user(format!("{names} of one experiment")).hint("run them one by one"));
        }
    }
    asked.html.map_or(Ok(()), can_be_written)?;
    let mut exit = Exit::Done;
    let mut sources = Vec::new();
    if let Some(commands) = &asked.commands {
        sources.push((Source::of_commands(commands)?, asked.request.clone()));
    }
    for name in asked.experiments {
        let mut source = Source::named(name, &asked.selection)?;
        if source.experiment.guest.is_some() && !asked.is_guest {
            return Err(Failure::user(format!(
                "{name} would change this machine for good, so it runs in guests alone"
            ))
            .hint("name the package of a kernel by --guest"));
        }
        let mut request = asked.request.clone();
        // A guest has one PostgreSQL, and skips the arms of others. Its tables are small, whatever the experiment says.
        if asked.is_guest {
            asked.scale_max.into_iter().for_each(|most| source.experiment.limit_scale(most));
        } else {
            source.experiment.apply(&mut request, &asked.selection, asked.scale_max)?;
            for (why, arms) in source.check(&request)? {
                note(&format!("{}: skipped: {}: {why}", source.experiment.name, arms.join(", ")));
            }
        }
        sources.push((source, request));
    }
    for (at, (source, request)) in sources.iter().enumerate() {
        let name = &source.experiment.name;
        let (minutes, bytes) = source.experiment.cost();
        if !asked.request.quick {
            note(&format!("{name}: about {minutes:.0} min{}", of_data(bytes)));
        }
        let named = asked.experiments.get(at).map(String::as_str);
        let ended = one(source, request, named, &asked, output, signals).await?;
        if ended != Exit::Done {
            exit = ended;
        }
        if matches!(ended, Exit::Interrupted | Exit::Terminated) {
            break;
        }
    }
    Ok(exit)
}

/// Whether there is a directory for a file: that it is missing should not be found out after an hour.
pub(super) fn can_be_written(file: &Path) -> Result<(), Failure> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if dir.is_dir() && !file.is_dir() {
        return Ok(());
    }
    let why = format!("cannot write {}: there is no such directory, or this is one", file.display());
    Err(Failure::user(why).hint("name a file in a directory that is there"))
}

async fn one(
    source: &Source,
    request: &Request,
    named: Option<&str>,
    asked: &Asked<'_>,
    output: Output,
    signals: &Signals,
) -> Result<Exit, Failure> {
    let conditions = Conditions::planned(source, request);
    let opened = Record::open(source, request, conditions, asked.out, asked.argv.clone());
    let (dir, mut record) = opened?;
    if !record.runs.is_empty() {
        note(&format!("{} runs are recorded; the others follow", record.runs.len()));
    }
    let mut say = |line: &str| note(line);
    let stopped = async { signals.stop_asked().await };
    // Boxed, because it is large and would make every command's future as large.
    let ended = Box::pin(experiments::run(source, request, &mut record, &dir, &mut say, stopped)).await;
    match ended {
        Ok(Ended::Finished) => {}
        Ok(Ended::Stopped(exit)) => {
            let argv: Vec<String> = std::env::args().collect();
            // `doctor` measures a file of its own, which its command line does not name.
            if named.is_some_and(|named| !argv.iter().any(|word| word == named)) {
                note(&format!("stopped; record: {}", dir.display()));
                return Ok(exit);
            }
            let others: Vec<&str> =
                asked.experiments.iter().map(String::as_str).filter(|one| Some(*one) != named).collect();
            note(&format!("stopped; to resume: {}", resuming(argv, &others, asked.out, &dir)));
            return Ok(exit);
        }
        Err(error) => {
            note(&format!("record: {}", dir.display()));
            return Err(error.into());
        }
    }
    let exit = show(&record, Format::Text, output)?;
    if let Some(file) = asked.html {
        write_page(file, &html(&record, &Analysis::of(&record)))?;
    }
    note(&format!("record: {}", dir.display()));
    Ok(exit)
}

/// The command that resumes one experiment: this one without the `others`, and with the record's directory. A password
/// is masked.
fn resuming(argv: Vec<String>, others: &[&str], out: Option<&Path>, dir: &Path) -> String {
    let mut words: Vec<String> = argv
        .into_iter()
        .filter(|word| !others.contains(&word.as_str()))
        .map(|word| masked(&word).into_owned())
        .collect();
    if out.is_none() {
        words.extend(["--out".to_owned(), dir.display().to_string()]);
    }
    shell_line(&words)
}

/// Prints the report of a record, or its `series`.
pub fn report(path: &Path, format: Format, series: bool, output: Output) -> Result<Exit, Failure> {
    if series && format != Format::Csv {
        return Err(Failure::user("--series prints CSV alone").hint("add --format csv"));
    }
    if series && output.is_json() {
        return Err(Failure::user("--series prints CSV, not JSON").hint("record.json holds the series as JSON"));
    }
    let record = Record::read(path)?;
    if series {
        output.line(csv_series(&record).trim_end())?;
        return Ok(exit_of(&Analysis::of(&record)));
    }
    show(&record, format, output)
}

/// Shows an experiment before it is run.
pub fn describe(name: &str, output: Output) -> Result<Exit, Failure> {
    let Source { experiment, .. } = Source::named(name, &Selection::default())?;
    if output.is_json() {
        output.json(&experiment)?;
        return Ok(Exit::Done);
    }
    let columns = stdout_columns().unwrap_or(COLUMNS_DEFAULT);
    let paragraph = |label: &str, text: &str| wrap(&format!("{label}{text}"), columns).join("\n");
    output.line(&paragraph("", &experiment.question))?;
    for (label, text) in [("expected: ", &experiment.expected), ("to read it: ", &experiment.read)] {
        if !text.is_empty() {
            output.line(&paragraph(label, text))?;
        }
    }
    let (minutes, bytes) = experiment.cost();
    let cost = format!("{} blocks, about {minutes:.0} min{}", experiment.blocks, of_data(bytes));
    output.line(&paragraph("takes: ", &cost))?;
    if let Some(common) = in_common(&experiment.common()) {
        output.line(&paragraph("all arms: ", &common))?;
    }
    let mut arms = Table::new(&[("arm", Align::Left), ("what it does", Align::Wrap)]);
    for arm in &experiment.arms {
        arms.row([arm.name.clone(), arm.about.clone()]);
    }
    output.table(&arms)?;
    if !experiment.values.is_empty() {
        let headings = [("value to --set", Align::Left), ("usual", Align::Left), ("what it changes", Align::Wrap)];
        let mut values = Table::new(&headings);
        for (name, dial) in &experiment.values {
            values.row([name.clone(), dial.value.clone(), dial.changes.clone()]);
        }
        output.table(&values)?;
    }
    Ok(Exit::Done)
}

/// Writes the report of a record as a page.
pub fn report_page(path: &Path, file: &Path) -> Result<Exit, Failure> {
    let record = Record::read(path)?;
    let analysis = Analysis::of(&record);
    write_page(file, &html(&record, &analysis))?;
    Ok(exit_of(&analysis))
}

fn show(record: &Record, format: Format, output: Output) -> Result<Exit, Failure> {
    let analysis = Analysis::of(record);
    if output.is_json() {
        output.json(&analysis)?;
    } else {
        let text = match format {
            Format::Text => text(record, &analysis),
            Format::Markdown => markdown(record, &analysis),
            Format::Csv => csv(record),
        };
        output.line(text.trim_end())?;
    }
    if measured_nothing(&analysis) {
        note("nothing was measured: every arm was skipped; the report says why");
    }
    Ok(exit_of(&analysis))
}

/// The exit code that a record asks for: whether an arm has no good run although it was run, or had a wrong result, or
/// every arm was skipped.
pub(super) fn exit_of(analysis: &Analysis) -> Exit {
    let has_failed = analysis.arms.iter().any(|arm| arm.failed);
    if has_failed || measured_nothing(analysis) { Exit::Findings } else { Exit::Done }
}

/// Whether every arm was skipped.
fn measured_nothing(analysis: &Analysis) -> bool {
    analysis.arms.iter().all(|arm| arm.runs == 0 && arm.missing.is_some() && !arm.failed)
}

fn has_extension(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_experiment_is_resumed_by_a_command_of_its_own() {
        let resumed = |argv: &[&str], others: &[&str], out: Option<&str>| {
            let argv = argv.iter().map(|word| (*word).to_owned()).collect();
            resuming(argv, others, out.map(Path::new), Path::new(out.unwrap_or("lab/records/x-ladder")))
        };
        assert_eq!(
            resumed(&["millstream", "lab", "run", "ladder", "upsert", "--seed", "2"], &["upsert"], None),
            "millstream lab run ladder --seed 2 --out lab/records/x-ladder"
        );
        assert_eq!(
            resumed(&["millstream", "lab", "run", "--a", "it's", "--b", "true", "--out", "d"], &[], Some("d")),
            "millstream lab run --a \"it's\" --b true --out d"
        );
        let url = ["millstream", "lab", "run", "ladder", "--db", "postgres://u:secret@h/d"];
        assert!(!resumed(&url, &[], None).contains("secret"));
    }
}
