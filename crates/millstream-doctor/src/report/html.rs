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
                (contents(report, &shown, &folded))
                @if !shown.is_empty() {
                    h2 id="findings" { "Findings" }
                    (overview(&shown))
                    @for (n, finding) in shown.iter().enumerate() { (section(&format!("finding-{n}"), finding, options)) }
                }
                @if !folded.is_empty() {
                    details id="machine" {
                        summary { "Notes about the machine, as most of its kind give them: " (folded.len()) }
                        @for (n, finding) in folded.iter().enumerate() {
                            (section(&format!("machine-{n}"), finding, options))
                        }
                    }
                }
                @if report.findings.iter().any(|finding| !ways(finding, options).is_empty()) {
                    @if let Some(what) = left_out(options) { p { (what) } }
                }
                @if !report.skipped.is_empty() {
                    h2 id="unseen" { "Not looked at" }
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
                    h2 id="since" { (since) }
                    ul { @for sentence in happened(report) { li { (sentence) } } }
                }
            }
        }
    };
    page.into_string()
}

/// The parts of the page, if there are several.
fn contents(report: &Report, shown: &[&Finding], folded: &[&Finding]) -> Markup {
    let part = |id, title: &str, count: usize| (count > 0).then(|| (id, title.to_owned(), count));
    let parts: Vec<(&str, String, usize)> = [
        part("findings", "Findings", shown.len()),
        part("machine", "Notes about the machine", folded.len()),
        part("unseen", "Not looked at", report.skipped.len()),
        part("since", "Since the earlier look", happened(report).len()),
    ]
    .into_iter()
    .flatten()
    .collect();
    markup! {
        @if parts.len() > 1 {
            nav {
                b { "Contents" }
                ul { @for (id, title, count) in &parts { li { a href={ "#" (id) } { (title) } " (" (count) ")" } } }
            }
        }
    }
}

/// A line for each finding, with the way to it.
fn overview(findings: &[&Finding]) -> Markup {
    markup! {
        table.overview {
            thead { tr { th { "level" } th { "finding" } th { "what is wrong" } th { "costs" } } }
            tbody {
                @for (n, finding) in findings.iter().enumerate() {
                    @let level = level(finding.level);
                    tr class=(level) {
                        td { b { (level) } }
                        th {
                            a href={ "#finding-" (n) } { (finding.check) }
                            @if !finding.subject.is_empty() { br; (finding.subject) }
                            @if let Some(database) = &finding.database { " in " (database) }
                        }
                        td { (finding.sentence) }
                        td { (danger(finding).map(str::to_owned).or_else(|| cost(finding)).unwrap_or_default()) }
                    }
                }
            }
        }
    }
}

/// The numbers of a finding that are drawn, each as a bar from 0.
fn bars(finding: &Finding) -> Markup {
    let most = finding.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    markup! {
        @if most > 0.0 {
            div.bars {
                @for bar in &finding.bars {
                    span { (bar.name) }
                    span.track { span.bar style={ "width:" (format!("{:.1}", 100.0 * bar.value / most)) "%" } {} }
                    span.number { (bar.shown) }
                }
            }
        }
    }
}

fn names(title: &str, names: &[String]) -> Markup {
    markup! { @if !names.is_empty() { p { b { (title) } ": " (names.join(", ")) } } }
}

fn section(id: &str, finding: &Finding, options: &RunOptions) -> Markup {
    let level = level(finding.level);
    markup! {
        section id=(id) class={ "finding " (level) } {
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
            (bars(finding))
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
            p.key { "Key, by which it is silenced or repaired: " (finding.key) }
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
        for word in ["src=", "url(", "@import", "<script"] {
            assert!(!page.contains(word), "{word}");
        }
        assert_eq!(page.matches("href=").count(), page.matches("href=\"#").count(), "only to places on the page");
    }

    #[test]
    fn a_table_of_findings_and_the_contents_lead_to_what_is_on_the_page() {
        let report = fixture::report();
        let page = html(&report, &RunOptions::default());
        let targets: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(targets, ["findings", "unseen", "finding-0", "finding-1"]);
        for target in targets {
            assert_eq!(page.matches(&format!("id=\"{target}\"")).count(), 1, "{target}");
        }
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
        assert!(at("<table class=\"overview\">") < at("<section"), "{page}");
    }

    #[test]
    fn numbers_that_a_finding_draws_are_bars_from_0() {
        let mut report = fixture::report();
        let finding = report.findings.remove(0).drawn("dead rows", 50, "50").drawn("other rows", 200, "200");
        report.findings = vec![finding];
        let page = html(&report, &RunOptions::default());
        assert!(page.contains("style=\"width:25.0%\"") && page.contains("style=\"width:100.0%\""), "{page}");
        assert!(!html(&fixture::report(), &RunOptions::default()).contains("class=\"bars\""));
    }
}
