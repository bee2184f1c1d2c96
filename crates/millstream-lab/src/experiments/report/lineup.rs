//! Any number of records of an experiment as one HTML file: each metric, statement and series in one chart for all.

use super::super::lineup::{Lineup, Row, Side, StatementRow};
use super::chart;
use super::figure::name;
use super::page::{self, clipped};
use crate::core::groups;
use crate::limits::{LINEUP_STATEMENTS_MAX, REPORT_NOTES_MAX, REPORT_PANELS_MAX};
use maud::{Markup, html};

/// Most facts in which machines differ.
const FACTS_MAX: usize = 100;

/// Records beside each other as an HTML page. Names and texts of the records are escaped.
pub fn lineup(lineup: &Lineup) -> String {
    let experiment = &lineup.first().conditions.experiment;
    let names: Vec<&str> = lineup.sides.iter().map(|side| side.name.as_str()).collect();
    let over_time = chart::overlays(lineup);
    let content = html! {
        (heading(lineup))
        (answer(lineup))
        section {
            h2 { "Results" }
            p class="caption" {
                "Of one record, the line reaches from the smallest to the largest run; of several, from the smallest to the "
                "largest of their medians."
            }
            @for (metric, rows) in groups(lineup.rows.iter().map(|row| (&*row.metric.name, row))) {
                (metric_charts(metric, &rows, &names))
            }
        }
        (statements(&lineup.statements, &names))
        @if !over_time.0.is_empty() {
            section {
                h2 { "Over time" }
                p class="caption" {
                    "From the start of a run, with its warm-up. Of each record, the run that is in the middle by "
                    (name(experiment.metric.metric())) " is drawn. All plots of a kind have one scale, from 0."
                }
                (over_time)
            }
        }
        (facts(lineup, &names))
    };
    page::document(&format!("{}: {}", experiment.name, experiment.question), &content)
}

fn heading(lineup: &Lineup) -> Markup {
    let record = lineup.first();
    let conditions = &record.conditions;
    html! {
        header {
            p class="kind" { "experiment " b { (conditions.experiment.name) } ", " (lineup.sides.len()) " records beside each other" }
            h1 { (conditions.experiment.question) }
        }
        @if conditions.emulated {
            p class="banner" {
                b { "emulated: says nothing about speed." }
                " The processors were emulated. The page shows only which arms work under these kernels, and that everything is "
                "recorded."
            }
        } @else if conditions.quick {
            p class="banner" { b { "quick: not evidence." } " Do not conclude anything from the numbers." }
        }
    }
}

/// Who is compared, and what the comparisons with the first say.
fn answer(lineup: &Lineup) -> Markup {
    let (first, rest) = (&lineup.sides[0], &lineup.sides[1..]);
    let why = lineup.differences.iter().find_map(|found| found.no_verdicts.as_ref());
    let sentences = rest.iter().zip(&lineup.differences).filter(|(_, found)| found.no_verdicts.is_none());
    let sentences: Vec<(&Side, Vec<String>)> = sentences
        .map(|(side, found)| (side, found.arms.iter().map(|one| format!("{}: {}", one.arm, one.sentence)).collect()))
        .collect();
    html! {
        section class="answer" {
            h2 { "Records" }
            (page::table(
                html! {
                    th scope="col" { "name" }
                    th scope="col" { "kernel" }
                    th scope="col" { "server" }
                    th scope="col" class="n" { "records" }
                    th scope="col" { "date" }
                },
                html! { @for (n, side) in lineup.sides.iter().enumerate() { (side_row(n, side)) } },
            ))
            @if let Some(why) = why { p { "No verdicts: " (why) "." } }
            @if !sentences.is_empty() {
                p class="caption" { "In these sentences, the first is " (first.name) "." }
                dl class="checks" {
                    @for (side, said) in &sentences {
                        dt { (side.name) }
                        dd { @for one in said.iter().take(REPORT_NOTES_MAX) { div { (one) "." } } }
                    }
                }
            }
        }
    }
}

fn side_row(place: usize, side: &Side) -> Markup {
    let record = &side.records[0];
    let servers: Vec<&str> = record.conditions.servers.values().map(|version| page::brief(version)).collect();
    html! {
        tr {
            th scope="row" { (chart::swatch(place)) (side.name) }
            td { (side.kernel) }
            td { @if servers.is_empty() { "–" } @else { (servers.join(", ")) } }
            td class="n" { (side.records.len()) }
            td { (record.date.get(..10).unwrap_or(&record.date)) }
        }
    }
}

/// A metric: a chart for each arm.
fn metric_charts(metric: &str, rows: &[&Row], names: &[&str]) -> Markup {
    let Some(first) = rows.first() else { return html! {} };
    let (said, unit) = (name(&first.metric), &first.metric.unit);
    html! {
        h3 data-metric=(metric) { (said) @if !unit.is_empty() { ", " (unit) } }
        p class="caption" { (first.metric.about) }
        div class="pair" {
            @for row in rows.iter().take(REPORT_PANELS_MAX) {
                div { h4 { (row.arm) } (chart::sides(names, &row.values, &said, unit)) }
            }
        }
        (page::left_out(rows.len(), REPORT_PANELS_MAX, "arms"))
    }
}

fn statements(rows: &[StatementRow], names: &[&str]) -> Markup {
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Statements" }
                p class="caption" { "Mean time of each statement in ms, from runs of their own: measuring it costs time." }
                @for (arm, own) in groups(rows.iter().map(|row| (row.arm.as_str(), row))).into_iter().take(REPORT_PANELS_MAX) {
                    h3 { (arm) }
                    div class="pair" {
                        @for row in own.iter().take(LINEUP_STATEMENTS_MAX) {
                            div { h4 { code { (clipped(&row.statement)) } } (chart::sides(names, &row.milliseconds, "mean time", "ms")) }
                        }
                    }
                    (page::left_out(own.len(), LINEUP_STATEMENTS_MAX, "statements"))
                }
            }
        }
    }
}

/// In which facts servers and machines differ.
fn facts(lineup: &Lineup, names: &[&str]) -> Markup {
    let facts = &lineup.facts;
    html! {
        @if !facts.is_empty() {
            section {
                h2 { "What else differs" }
                p class="caption" {
                    "Facts of servers and machines in which a record differs from the first, without those that the experiment sets."
                }
                details {
                    summary { (facts.len()) @if facts.len() == 1 { " fact" } @else { " facts" } }
                    (page::table(
                        html! { th scope="col" { "fact" } @for name in names { th scope="col" { (name) } } },
                        html! {
                            @for fact in facts.iter().take(FACTS_MAX) {
                                tr {
                                    th scope="row" { (fact.name) }
                                    @for value in &fact.values { td { (value.as_deref().map_or_else(|| "–".to_owned(), clipped)) } }
                                }
                            }
                        },
                    ))
                    (page::left_out(facts.len(), FACTS_MAX, "facts"))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;
    use crate::core::{Outcome, Series};
    use crate::experiments::Record;

    /// A record whose runs have series of their disk.
    fn with_io(kernel: &str, most: f64) -> Side {
        let mut one: Record = record(3, 4, 8);
        one.machine.kernel = kernel.to_owned();
        for run in &mut one.runs {
            if let Outcome::Measured(measures) = &mut run.outcome {
                let series = || Series::each_second([Some(most); 8]);
                let names = ["disk.data.read_mb_per_second", "disk.data.write_mb_per_second"];
                measures.series.extend(names.map(|name| (name.to_owned(), series())));
                for name in names {
                    measures.set(name.trim_start_matches("disk.data."), Some(most));
                }
            }
        }
        Side::new(format!("<{kernel}>"), vec![one])
    }

    fn sides() -> Vec<Side> {
        vec![with_io("6.1", 70.0), with_io("6.12", 20.0), with_io("7.0", 50.0)]
    }

    #[test]
    fn three_records_have_one_chart_for_each_metric_statement_and_series() {
        let text = lineup(&Lineup::of(sides()).unwrap());
        for said in [
            "3 records beside each other",
            "data-metric=\"tps\"",
            "data-metric=\"write_mb_per_second\"",
            "<h2>Statements",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        for series in ["tps", "disk.data.read_mb_per_second", "disk.data.write_mb_per_second"] {
            let (_, rest) = text.split_once(&format!("<h3 data-series=\"{series}\">")).unwrap();
            let own = rest.split("<h3").next().unwrap();
            // Two arms have runs. Each has a line for each record.
            assert_eq!((own.matches("<figure>").count(), own.matches("class=\"line c2\"").count()), (2, 2), "{own}");
        }
        assert!(!text.contains("<6.1") && text.contains("&lt;6.12&gt;"), "{text}");
        assert!(text.contains("No verdicts: a record is one sample"), "{text}");
        for word in ["http://", "https://", "<script", "url("] {
            assert!(!text.contains(word), "{word}");
        }
    }

    #[test]
    fn a_page_of_guests_says_that_it_proves_no_speed() {
        let mut sides = sides();
        for side in &mut sides {
            side.records[0].conditions.emulated = true;
        }
        let text = lineup(&Lineup::of(sides).unwrap());
        assert!(text.contains("<b>emulated: says nothing about speed.</b>"), "{text}");
        assert!(!text.contains("is faster than"), "{text}");
    }
}
