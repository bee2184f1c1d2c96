//! The progress of a command on stderr: a bar on a terminal, plain lines elsewhere, lines of JSON for programs.

use crate::event_line;
use crate::output::note;
use crate::quantity;
use crate::screen::{stderr_columns, visible};
use crate::signal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millstream_engine::{Event, Observer, Tally};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// Time between events with counts.
const EVENT_EVERY: Duration = Duration::from_millis(250);
/// Time between two updates of the bar.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// On a terminal with fewer columns, the bar and the time left are not shown.
const NARROW: usize = 50;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressChoice {
    /// A bar on a terminal, lines elsewhere
    Auto,
    /// A line every five seconds
    Plain,
    /// Lines of JSON: events, and the counts four times a second
    Json,
    /// Nothing
    None,
}

/// How far a command is.
pub trait Counts: Send + Sync + 'static {
    /// Bytes read, and how many there are, if that is known.
    fn input(&self) -> (u64, Option<u64>);

    /// What was done, in words, and how fast.
    fn state(&self, elapsed: Duration) -> String;

    /// What was done, in numbers with their names.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

impl Counts for Tally {
    fn input(&self) -> (u64, Option<u64>) {
        Tally::input(self)
    }

    /// Documents, rate, bytes, rejects, rows that the files lack.
    fn state(&self, elapsed: Duration) -> String {
        let documents = self.documents();
        let mut text = format!(
            "{} documents, {}/s, {}",
            quantity::count(documents),
            quantity::rate(quantity::per_second(documents, elapsed.as_secs_f64())),
            quantity::bytes(self.bytes())
        );
        if self.rejects() > 0 {
            text.push_str(&format!(", {} rejected", quantity::count(self.rejects())));
        }
        if self.deleted_missing() > 0 {
            text.push_str(&format!(", {} rows deleted", quantity::count(self.deleted_missing())));
        }
        text
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("documents", self.documents()),
            ("rejected", self.rejects()),
            ("bytes", self.bytes()),
            ("deleted_missing", self.deleted_missing()),
        ]
    }
}

/// Shows a command's progress until it is finished or dropped.
pub struct Progress {
    bar: Option<ProgressBar>,
    task: Option<tokio::task::JoinHandle<()>>,
    /// What the last event says, and since when it is counted.
    events: Option<(Arc<dyn Counts>, Instant)>,
}

impl Progress {
    /// Starts showing the counts.
    pub fn start(choice: ProgressChoice, counts: Arc<impl Counts>) -> Self {
        match choice {
            ProgressChoice::None => Self { bar: None, task: None, events: None },
            ProgressChoice::Json => {
                let counts: Arc<dyn Counts> = counts;
                let begun = Instant::now();
                let task = tokio::spawn(print_events(Arc::clone(&counts), begun));
                Self { bar: None, task: Some(task), events: Some((counts, begun)) }
            }
            ProgressChoice::Auto if redraws() => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                bar.set_style(style(false, false));
                let task = tokio::spawn(draw(bar.clone(), counts));
                Self { bar: Some(bar), task: Some(task), events: None }
            }
            ProgressChoice::Auto | ProgressChoice::Plain => {
                Self { bar: None, task: Some(tokio::spawn(print_lines(counts))), events: None }
            }
        }
    }

    /// Prints lines beside the progress.
    pub fn printer(&self) -> Printer {
        Printer { bar: self.bar.clone() }
    }

    /// Stops showing progress and removes the bar.
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some((counts, begun)) = &self.events {
            print_counts(&**counts, *begun);
        }
    }
}

/// Whether stderr is a terminal that can draw a line again. A dumb one cannot.
fn redraws() -> bool {
    stderr_columns().is_some() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

fn style(known: bool, narrow: bool) -> ProgressStyle {
    // `wide_msg` is cut to the remaining columns, because a line that wraps cannot be drawn again.
    let template = match (known, narrow) {
        (true, false) => "{bar:20} {percent:>3} % {eta:>4} left, {wide_msg}",
        (true, true) => "{percent:>3} % {wide_msg}",
        (false, _) => "{spinner} {wide_msg}",
    };
    ProgressStyle::with_template(template).expect("the template is a constant that a test draws")
}

async fn draw(bar: ProgressBar, counts: Arc<impl Counts>) {
    let begun = Instant::now();
    let mut styled = (false, false);
    loop {
        tokio::time::sleep(BAR_EVERY).await;
        let (read, total) = counts.input();
        if let Some(total) = total
            && bar.length() != Some(total)
        {
            bar.set_length(total);
        }
        // A terminal may be made narrower at any time.
        let wanted = (total.is_some(), stderr_columns().is_some_and(|columns| columns < NARROW));
        if styled != wanted {
            styled = wanted;
            bar.set_style(style(wanted.0, wanted.1));
        }
        bar.set_position(read);
        // The bar has a way of its own to the terminal.
        bar.set_message(visible(&counts.state(begun.elapsed())));
    }
}

async fn print_lines(counts: Arc<impl Counts>) {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(PLAIN_EVERY).await;
        let (read, total) = counts.input();
        let share = total.map_or(String::new(), |t| format!("{:.0} % ", 100.0 * read as f64 / t as f64));
        note(&format!("progress: {share}{}", counts.state(begun.elapsed())));
    }
}

/// Prints events with counts. If nobody reads them any more, the command ends in good order: the program that started
/// it is gone.
async fn print_events(counts: Arc<dyn Counts>, begun: Instant) {
    loop {
        tokio::time::sleep(EVENT_EVERY).await;
        if !print_counts(&*counts, begun) {
            signal::terminate();
            return;
        }
    }
}

/// Prints an event with the counts. `false`: nobody reads it.
fn print_counts(counts: &dyn Counts, begun: Instant) -> bool {
    let elapsed = begun.elapsed();
    let (read, total) = counts.input();
    let mut members = json!({
        "seconds": elapsed.as_secs_f64(),
        "input_bytes": read,
        "input_bytes_total": total,
        "text": counts.state(elapsed),
    });
    for (name, count) in counts.counts() {
        members[name] = count.into();
    }
    event_line::print("progress", members)
}

/// Prints lines beside the progress.
#[derive(Debug, Clone)]
pub struct Printer {
    bar: Option<ProgressBar>,
}

impl Printer {
    /// Does something without the bar, such as asking a question.
    pub fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(work),
            None => work(),
        }
    }

    /// Prints a line on stderr.
    pub fn line(&self, text: &str) {
        self.alone(|| note(text));
    }
}

impl Observer for Printer {
    fn event(&self, event: Event) {
        if event_line::prints_as_lines() {
            if let Some((name, members)) = event_line::of_load(event) {
                event_line::print(name, members);
            }
        } else if let Event::Key(columns) = &event {
            columns.iter().for_each(|column| self.line(&format!("key: {column}")));
        } else if let Event::Columns(columns) = &event {
            columns.iter().for_each(|column| self.line(&format!("column: {column}")));
        } else if let Some(text) = text(event) {
            self.line(&text);
        }
    }
}

/// An event in words.
fn text(event: Event) -> Option<String> {
    Some(match event {
        Event::Version(text) => format!("version: {text}"),
        Event::Created(ddl) => format!("created: {}", one_line(&ddl)),
        Event::Warning(text) => format!("warning: {text}"),
        Event::WalFree => "no WAL is written for documents: wal_level is minimal".to_owned(),
        Event::Resumed { load_id, documents } => {
            format!("resuming load {load_id} after {}", quantity::things(documents, "document"))
        }
        Event::Started { load_id, lanes } => {
            format!("load {load_id} with {}", quantity::things(u64::from(lanes), "lane"))
        }
        Event::Lost { lane, batches } => {
            format!("the server crashed and lost batches of lane {lane}, which are written again: {batches}")
        }
        Event::Missing { rows, of } => {
            let (rows, of) = (quantity::count(rows), quantity::things(of, "row"));
            format!("the files lack {rows} of {of}, which are deleted now")
        }
        Event::Standstill { seconds, reason } => format!("waits: nothing was committed for {seconds} s: {reason}"),
        // A server that is gone for minutes causes a hundred retries.
        Event::Retry { attempt, .. } | Event::Again { attempt, .. } if !attempt.is_power_of_two() => return None,
        Event::Again { after, error, .. } => {
            format!("the load broke off and resumes in {:.1} s: {error}", after.as_secs_f64())
        }
        Event::Retry { lane, attempt, after, error } => {
            format!("retry {attempt} of lane {lane} in {:.1} s: {error}", after.as_secs_f64())
        }
        _ => return None,
    })
}

/// A statement on one line. Blanks within quotes are part of a name or a value: they stay, or become marks.
fn one_line(sql: &str) -> String {
    let (mut line, mut quote) = (String::with_capacity(sql.len()), None);
    for c in sql.chars() {
        if quote.is_none() && c.is_whitespace() {
            if !line.ends_with(' ') {
                line.push(' ');
            }
            continue;
        }
        if quote == Some(c) {
            quote = None;
        } else if quote.is_none() && matches!(c, '"' | '\'') {
            quote = Some(c);
        }
        line.push(c);
    }
    visible(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_keeps_its_names_on_one_line() {
        let ddl =
            "create table \"public\".\"a\n b\"\"  \t'c\" (\n    \"id\" text,\n    check (doc ->> 'x  y' = '\n')\n)";
        let line = r#"create table "public"."a\n b""  \t'c" ( "id" text, check (doc ->> 'x  y' = '\n') )"#;
        assert_eq!(one_line(ddl), line);
    }

    #[test]
    fn templates_draw() {
        for (known, narrow, width) in [
            (false, false, 80),
            (true, false, 80),
            (true, false, 50),
            (true, true, 49),
            (true, true, 20),
            (false, true, 20),
        ] {
            let lines = Lines { width, drawn: Arc::default() };
            let drawn = Arc::clone(&lines.drawn);
            let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::term_like(Box::new(lines)));
            bar.set_style(style(known, narrow));
            bar.set_position(999);
            bar.set_message("123,456,789 documents, 234,567/s, 12.3 GiB, 1,234 rejected".repeat(2));
            bar.force_draw();
            let drawn = drawn.lock().unwrap();
            let longest = drawn.iter().map(|line| console_width(line)).max();
            assert!(longest.is_some_and(|longest| longest > 10 && longest <= usize::from(width)), "{drawn:?}");
        }
    }

    /// Columns of a line without terminal escapes.
    fn console_width(line: &str) -> usize {
        assert!(!line.contains('\u{1b}'), "{line:?}");
        line.chars().count()
    }

    /// A terminal that keeps what is drawn.
    #[derive(Debug)]
    struct Lines {
        width: u16,
        drawn: Arc<std::sync::Mutex<Vec<String>>>,
    }

    impl indicatif::TermLike for Lines {
        fn width(&self) -> u16 {
            self.width
        }
        fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> std::io::Result<()> {
            self.write_str(line)
        }
        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.drawn.lock().unwrap().push(text.to_owned());
            Ok(())
        }
        fn clear_line(&self) -> std::io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn many_retries_print_few_lines() {
        let retry = |attempt| Event::Retry { lane: 0, attempt, after: Duration::ZERO, error: "gone".to_owned() };
        let lines: Vec<String> = (1..=100).filter_map(|attempt| text(retry(attempt))).collect();
        assert_eq!(lines.len(), 7, "{lines:?}");
        assert_eq!(lines[0], "retry 1 of lane 0 in 0.0 s: gone");
    }

    #[test]
    fn the_state_names_rejects_only_when_there_are_some() {
        let tally = Tally::default();
        assert_eq!(tally.state(Duration::from_secs(1)), "0 documents, 0/s, 0 B");
    }
}
