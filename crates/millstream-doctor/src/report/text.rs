//! A report as text for a terminal of 80 columns.

use super::{
    Report, RunOptions, Skip, class, cost, counting, danger, happened, is_of_machine, left_out, level, restart, since,
    summary, surroundings, title, typed, ways,
};
use crate::check::Check;
use millstream_model::Finding;
use textwrap::{Options, WordSplitter, fill};

/// Width of the text in characters. Only names and commands are wider, so that they can be copied.
const WIDTH: usize = 80;

/// The report of an examination, with commands for runs with these options. Unless `all` is set, notes about the machine are
/// named and not explained.
pub fn text(report: &Report, all: bool, options: &RunOptions) -> String {
    let mut page = Page::default();
    page.add("", &title(report));
    for sentence in [summary(report), counting(report), surroundings(report)].iter().flatten() {
        page.add("", sentence);
    }
    let (folded, shown): (Vec<&Finding>, Vec<&Finding>) =
        report.findings.iter().partition(|finding| !all && is_of_machine(finding));
    for finding in shown.iter().copied() {
        page.line("");
        page.finding(finding, options);
    }
    if !folded.is_empty() {
        page.part("", "Notes about the machine, as most of its kind give them (--all explains them):");
        for finding in &folded {
            page.add("  ", &finding.key);
        }
    }
    if report.findings.is_empty() {
        page.part("", "Nothing was found.");
    }
    if shown.iter().any(|finding| !ways(finding, options).is_empty())
        && let Some(what) = left_out(options)
    {
        page.part("", what);
    }
    if !report.skipped.is_empty() {
        page.part("", "Not looked at:");
        for (check, databases, why) in together(&report.skipped) {
            let place = match databases.as_slice() {
                [] => String::new(),
                [one] => format!(" in {one}"),
                many => format!(" in {} databases", many.len()),
            };
            page.add("  ", &format!("{check}{place}: {why}"));
        }
    }
    let mut names = vec![("Without findings: ", &report.passed), ("Silenced: ", &report.silenced)];
    if let Some(changes) = &report.changes {
        names.extend([("New since the earlier report: ", &changes.new), ("Gone since then: ", &changes.gone)]);
    }
    for (title, names) in names {
        if !names.is_empty() {
            page.part(title, &names.join(", "));
        }
    }
    if let Some(since) = since(report) {
        page.part("", &since);
        for sentence in happened(report) {
            page.add("  ", &sentence);
        }
    }
    page.0
}

/// What was not looked at, each reason once for all databases that it holds for.
fn together(skipped: &[Skip]) -> Vec<(&str, Vec<&str>, &str)> {
    let mut all: Vec<(&str, Vec<&str>, &str)> = Vec::new();
    // How long counters have counted differs from database to database.
    let reason = |why: &str| why.split(" of counters, has ").next().unwrap_or_default().to_owned();
    for skip in skipped {
        let is_same = |(check, databases, why): &&mut (&str, Vec<&str>, &str)| {
            *check == skip.check && reason(why) == reason(&skip.why) && !databases.is_empty() && skip.database.is_some()
        };
        match all.iter_mut().find(is_same) {
            Some((_, databases, _)) => databases.extend(skip.database.as_deref()),
            None => all.push((&skip.check, skip.database.as_deref().into_iter().collect(), &skip.why)),
        }
    }
    all
}

/// The manual page of a check, as wide as a report. Its tables stay as they are.
pub fn manual(check: &Check) -> String {
    let mut page = Page::default();
    let (mut mark, mut part) = ("", Vec::new());
    for line in check.manual.trim_end().lines().chain([""]) {
        let (next, rest) = marked(line);
        let is_fixed = line.is_empty() || line.starts_with(['#', '|']);
        if (is_fixed || !next.is_empty()) && !part.is_empty() {
            page.add(mark, &part.join(" "));
            part.clear();
        }
        match (is_fixed, part.is_empty()) {
            (true, _) => page.line(line),
            (false, is_first) => {
                mark = if is_first { next } else { mark };
                part.push(rest.trim());
            }
        }
    }
    page.0
}

/// The mark with which an item of a list begins, such as `- `, and the rest of the line.
fn marked(line: &str) -> (&str, &str) {
    let end = line.find(' ').map_or(0, |space| space + 1);
    let (mark, rest) = line.split_at(end);
    let is_number = |mark: &str| mark.strip_suffix(". ").is_some_and(|number| number.parse::<u8>().is_ok());
    if mark == "- " || is_number(mark) { (mark, rest) } else { ("", line) }
}

/// The names of checks, and what they look for.
pub fn list(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    let mut page = Page::default();
    for check in checks {
        page.add(&format!("{:<width$}  ", check.id), check.about);
    }
    page.0
}

/// A text on one line.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_whitespace() { ' ' } else { c }).collect()
}

/// A name on one line that is no other name.
fn visible(name: &str) -> String {
    let mark = |c: char| if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() };
    name.chars().map(mark).collect()
}

/// A text that grows by paragraphs.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    /// A paragraph with a beginning. Further lines are indented as far as the beginning is long.
    fn add(&mut self, beginning: &str, text: &str) {
        let indent = " ".repeat(beginning.chars().count());
        let options = Options::new(WIDTH).initial_indent(beginning).subsequent_indent(&indent);
        let options = options.break_words(false).word_splitter(WordSplitter::NoHyphenation);
        self.line(&fill(&plain(text), options));
    }

    fn line(&mut self, line: &str) {
        let line = line.lines().map(plain).collect::<Vec<_>>().join("\n");
        self.0.push_str(&line);
        self.0.push('\n');
    }

    /// The same after an empty line.
    fn part(&mut self, beginning: &str, text: &str) {
        self.line("");
        self.add(beginning, text);
    }

    fn finding(&mut self, finding: &Finding, options: &RunOptions) {
        let place = finding.database.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        let what = match (finding.subject.is_empty(), place.is_empty()) {
            (true, true) => String::new(),
            _ => format!("{}{place}: ", visible(&finding.subject)).trim_start().to_owned(),
        };
        let whole = format!("{}: {what}{}", finding.check, finding.sentence);
        self.add(&format!("{}: ", level(finding.level)), &whole);
        if let Some(danger) = danger(finding) {
            self.add("  danger: ", danger);
        }
        if let Some(cost) = cost(finding) {
            self.add("  costs: ", &cost);
        }
        self.add("  this is ", &class(finding));
        for one in &finding.evidence {
            self.add("    ", &format!("{}: {} ({})", one.name, one.value, one.source));
        }
        if let Some(alternative) = &finding.alternative {
            self.add("  unless ", alternative);
        }
        if let Some(repair) = &finding.repair {
            self.add("  to do: ", &repair.sentence);
            for command in &repair.commands {
                self.line(&format!("    {}", plain(&typed(command, options))));
            }
            self.add("  risk: ", &repair.risk);
            if let Some(restart) = restart(repair.restart) {
                self.add("  needs ", restart);
            }
        }
        // Not folded, so that they can be copied.
        for (what, command) in ways(finding, options) {
            self.line(&format!("  {}: {}", what.to_lowercase(), plain(&command)));
        }
        self.add("  key: ", &visible(&finding.key));
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn the_text_of_a_manual_page_is_as_wide_as_a_report() {
        for check in crate::CHECKS {
            let page = manual(check);
            for line in page.lines().filter(|line| !line.starts_with('|') && line.contains(' ')) {
                assert!(line.chars().count() <= WIDTH, "{}: {line}", check.id);
            }
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&page), words(check.manual));
        }
        let vacuum = crate::CHECKS.iter().find(|check| check.id == "dead-tuples").unwrap();
        assert!(manual(vacuum).contains("\n1. autovacuum is off for the table or the server; if it is off for both, the\n   server comes first;\n2. a session, "));
    }

    #[test]
    fn a_finding_says_how_it_is_known_and_what_to_do() {
        let options = RunOptions { lacks_password: true, ..RunOptions::default() };
        let text = text(&fixture::report(), false, &options);
        let expected = "\
PostgreSQL 18.1, database shop, examined in 0.2 s
1 critical finding, 1 warning; most urgent: sequence-end:shop:public.<s>
The server's counters began 2h ago; those of shop 5m ago.

critical: sequence-end: public.<s> in shop: 93 % are used up
  this is arithmetic from this server's own numbers
    last value: 2,000,000,000 (pg_sequences)
  to do: make it a bigint
    alter sequence s as bigint;
    -- then look again
  risk: it rewrites the table under an exclusive lock, which takes as long as
        the table is large
  needs a reload of the configuration
  key: sequence-end:shop:public.<s>

warning: checkpoint-forced: half were requested
  this is arithmetic from this server's own counters, counted for 2h
  unless backups request checkpoints too
  to do: let the WAL grow
    alter system set max_wal_size = '4GB';
  risk: recovery after a crash takes longer
  measure first: millstream doctor fix checkpoint-forced --experiment
  apply: millstream doctor fix checkpoint-forced
  key: checkpoint-forced

The commands leave the password out: put it into PGPASSWORD or ~/.pgpass.

Not looked at:
  dead-tuples in shop: no time

Without findings: invalid-index

Silenced: unused-index:shop:public.i
";
        assert_eq!(text, expected);
    }
}
