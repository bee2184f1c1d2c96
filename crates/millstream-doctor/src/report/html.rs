//! A report as one page without references to other files.

use super::{
    Report, RunOptions, class, cost, counting, danger, happened, is_of_machine, left_out, level, restart, since,
    summary, surroundings, title, typed, ways,
};
use maud::{DOCTYPE, Markup, PreEscaped, html as markup};
use millstream_model::Finding;

/// The report of an examination, with commands for runs with these options. Notes about the machine are folded.
pub fn html(report: &Report, options: &RunOptions) -> String {
    let (folded, shown): (Vec<&Finding>, Vec<&Finding>) = report.findings.iter().partition(|one| is_of_machine(one));
    let style = PreEscaped(include_str!("style.css"));
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Doctor: " (report.target) }
                style { (style) }
            }
            body {
                h1 { (title(report)) }
                p.source { (report.target) }
                @if let Some(summary) = summary(report) { p { b { (summary) } } }
                @if let Some(counting) = counting(report) { p { (counting) } }
                @if let Some(surroundings) = surroundings(report) { p { (surroundings) } }
                @if report.findings.is_empty() { p { "Nothing was found." } }
                @for finding in &shown { (section(finding, options)) }
                @if !folded.is_empty() {
                    details {
                        summary { "Notes about the machine, as most of its kind give them: " (folded.len()) }
                        @for finding in &folded { (section(finding, options)) }
                    }
                }
                @if report.findings.iter().any(|finding| !ways(finding, options).is_empty()) {
                    @if let Some(what) = left_out(options) { p { (what) } }
                }
                @if !report.skipped.is_empty() {
                    h2 { "Not looked at" }
                    table {
                        @for skip in &report.skipped {
                            tr {
                                th { (skip.check) }
                                td { (skip.database.as_deref().unwrap_or_default()) }
                                td { (skip.why) }
                            }
                        }
                    }
                }
                (names("Without findings", &report.passed))
                (names("Silenced", &report.silenced))
                @if let Some(changes) = &report.changes {
                    (names("New since the earlier report", &changes.new))
                    (names("Gone since then", &changes.gone))
                }
                @if let Some(since) = since(report) {
                    h2 { (since) }
                    ul { @for sentence in happened(report) { li { (sentence) } } }
                }
            }
        }
    };
    page.into_string()
}

fn names(title: &str, names: &[String]) -> Markup {
    markup! { @if !names.is_empty() { p { b { (title) } ": " (names.join(", ")) } } }
}

fn section(finding: &Finding, options: &RunOptions) -> Markup {
    let level = level(finding.level);
    markup! {
        section class={ "finding " (level) } {
            h2 {
                b { (level) } " " (finding.check)
                @if !finding.subject.is_empty() { ": " (finding.subject) }
                @if let Some(database) = &finding.database { " in " (database) }
            }
            p { (finding.sentence) "." }
            @if let Some(danger) = danger(finding) { p { b { "Danger: " } (danger) "." } }
            @if let Some(cost) = cost(finding) { p { b { "Costs: " } (cost) "." } }
            p.source { "This is " (class(finding)) "." }
            table {
                @for one in &finding.evidence {
                    tr { th { (one.name) } td { (one.value) } td.source { (one.source) } }
                }
            }
            @if let Some(alternative) = &finding.alternative { p { b { "Unless " } (alternative) "." } }
            @if let Some(repair) = &finding.repair {
                p { b { "To do: " } (repair.sentence) "." }
                @if !repair.commands.is_empty() {
                    pre { @for command in &repair.commands { (typed(command, options)) "\n" } }
                }
                p {
                    b { "Risk: " } (repair.risk) "."
                    @if let Some(restart) = restart(repair.restart) { " It needs " (restart) "." }
                }
            }
            @for (what, command) in ways(finding, options) { p { b { (what) ": " } code { (command) } } }
            p.key { (finding.key) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_page_escapes_names_and_refers_to_nothing() {
        let page = html(&fixture::report(), &RunOptions::default());
        assert!(page.contains("public.&lt;s&gt;") && !page.contains("<s>"), "{page}");
        assert!(page.contains("alter sequence s as bigint;\n-- then look again\n"), "{page}");
        assert!(page.contains("<b>Apply: </b><code>millstream doctor fix checkpoint-forced</code>"), "{page}");
        for word in ["src=", "href=", "url(", "@import"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
