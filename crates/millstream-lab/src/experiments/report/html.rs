//! A report as one HTML file, which needs no network and no script.

use super::super::analysis::{Analysis, Blocks, Compared, Measured};
use super::super::record::Record;
use super::article::Repeated;
use super::chart::{self, Forest};
use super::figure::{change, figure, name, tick};
use super::undecided::Sorted;
use super::{
    client_counts, dials, first_of, groups, in_common, limiters, nothing_compared, page, planted, promises,
    shown_verdicts, verdicts,
};
use crate::core::statistics::{Arms, Verdict};
use crate::core::{Better, Metric};
use crate::limits::{REPORT_COMPARISONS_MAX, REPORT_EFFECTS_MAX, REPORT_NOTES_MAX};
use maud::{Markup, html};

/// The report of a record as an HTML page, below 2 MB.
///
/// The first screen answers the question. Charts are drawings inside the page. Names and texts of the record are
/// escaped, so that no record can bring a script into the page.
pub fn html(record: &Record, analysis: &Analysis) -> String {
    let metric = &analysis.metric;
    let content = html! {
        (heading(record, analysis))
        (answer(record, analysis, metric))
        @if let Some(repeated) = Repeated::of(record, analysis) { (repeated.table()) }
        (results(record, analysis))
        (latencies(record, analysis))
        (written(record, analysis))
        (series(record, analysis))
        (splits(analysis))
        (page::statements(&record.conditions.statements))
        (page::conditions(record))
        (page::reading(record, analysis))
        (page::runs(record, analysis))
    };
    page::document(&format!("{}: {}", analysis.experiment, analysis.question), &content)
}

fn heading(record: &Record, analysis: &Analysis) -> Markup {
    let machine = &record.machine;
    let Blocks { finished, planned } = analysis.blocks;
    html! {
        header {
            p class="kind" { "experiment " b { (analysis.experiment) } }
            h1 { (analysis.question) }
            p class="facts" {
                span {
                    (finished) @if finished == 1 { " block" } @else { " blocks" }
                    @if record.conditions.experiment.has_pgbench() { ", runs of " (record.conditions.seconds) " s" }
                }
                span { (machine.cores) " cores" @if let Some(processor) = &machine.processor { ", " (processor) } }
                @for version in record.conditions.servers.values() { span { (page::brief(version)) } }
                span { (record.date.get(..10).unwrap_or(&record.date)) }
            }
            @if let Some(said) = in_common(&analysis.common) { p class="facts" { "All arms: " (said) } }
            @if let Some(said) = dials(analysis) { p class="facts" { "Values: " (said) } }
        }
        @if analysis.emulated {
            p class="banner" {
                b { "emulated: says nothing about speed." }
                " The processor was emulated. The record shows only which arms work under this kernel."
            }
        } @else if analysis.quick {
            p class="banner" {
                b { "quick: not evidence." }
                " Runs this short show that everything works. Do not conclude anything from the numbers."
            }
        } @else if finished < planned {
            p class="banner" { b { "Unfinished: " (finished) " of " (planned) " blocks." } " There are no verdicts before the last one." }
        }
    }
}

/// A verdict as a sentence that names the metric in words.
fn sentence(one: &Compared, metric: &Metric) -> String {
    let metric = &Metric { name: name(metric).into(), ..metric.clone() };
    let arms = Arms { a: &one.with, b: &one.arm, metric };
    one.comparison.map_or_else(|| one.sentence.clone(), |found| found.sentence(arms).to_string())
}

/// The verdicts, the noise, and what the numbers promise.
fn answer(record: &Record, analysis: &Analysis, metric: &Metric) -> Markup {
    let matters = record.conditions.experiment.matters_percent / 100.0;
    let sorted = Sorted::of(by_effect(verdicts(analysis)));
    let all = &sorted.single;
    let drawn = all.iter().chain(&sorted.together).copied().chain(&analysis.noise);
    let forest = Forest::new(drawn, metric, matters);
    let (first, rest) = all.split_at(all.len().min(REPORT_EFFECTS_MAX));
    let promise = |arm: &str| analysis.arms.iter().find(|one| one.name == arm).and_then(|one| one.promise.as_ref());
    let say = |one: &Compared| {
        let found = one.comparison.filter(|one| one.every.is_some() || matches!(one.verdict, Verdict::Differs { .. }));
        html! {
            @if found.is_some() { (sentence(one, metric)) } @else { b { (one.arm) " / " (one.with) } }
            @if promise(&one.arm) != promise(&one.with) { " " span class="mark" { "not the same promise" } }
            @if found.is_none() { small { (sentence(one, metric)) } }
        }
    };
    let others = shown_verdicts(analysis, name);
    let repeated = Repeated::of(record, analysis);
    // Where an article has conclusions, its readers look for those.
    let lines_max = if repeated.is_some() { 0 } else { REPORT_EFFECTS_MAX };
    html! {
        section class="answer" {
            h2 { "Answer" }
            @if let Some(why) = &analysis.no_verdicts { p { "No verdicts: " (why) "." } }
            @if let Some(repeated) = &repeated {
                ul { @for one in repeated.conclusions() { li { (capital(&one)) "." } } }
            }
            @if let Some(why) = nothing_compared(record, analysis) { p { "Nothing is compared: " (page::clipped(&why)) "." } }
            @if all.len() > first.len() { p class="caption" { "The " (first.len()) " largest of " (all.len()) " effects, those with a verdict first." } }
            @if !all.is_empty() { figure { (forest.plot(first.iter().copied(), say)) } }
            @if !rest.is_empty() {
                details {
                    summary { (rest.len()) " more comparisons" }
                    (forest.plot(rest.iter().copied().take(REPORT_COMPARISONS_MAX), say))
                }
            }
            @if !all.is_empty() {
                p class="caption" {
                    "Dot: estimate of the ratio. Line: its interval"
                    @if all.iter().any(|one| one.comparison.is_some_and(|found| found.every.is_some())) {
                        ", or a thin one from the smallest to the largest block"
                    }
                    ". Grey band: less than the " (tick(matters * 100.0)) " % that matters. "
                    @if analysis.multiplicity.comparisons > 1 { (analysis.multiplicity) "." }
                }
            }
            @if let Some(sentence) = &sorted.sentence {
                p { (capital(sentence)) "." }
                details {
                    summary { "These " (sorted.together.len()) " comparisons" }
                    (forest.plot(sorted.together.iter().copied().take(REPORT_COMPARISONS_MAX), say))
                }
            }
            dl class="checks" {
                dt { "Noise floor" }
                dd {
                    @match &analysis.noise {
                        Some(noise) => { (noise.with) " compared with itself: " (noise_of(noise, metric)) },
                        None => "Unknown: the arm that has two turns was not measured.",
                    }
                }
                @if !client_counts(analysis).is_empty() {
                    dt { "How many clients" }
                    dd { @for one in client_counts(analysis) { div { (one) "." } } }
                }
                dt { "Limiter" }
                dd { (limits(analysis)) }
                @if planted(analysis).next().is_some() {
                    dt { "Planted limiters" }
                    dd { @for one in planted(analysis) { div { (one) "." } } }
                }
                @if !others.is_empty() {
                    dt { "Other metrics" }
                    dd { (lines(&others, lines_max)) }
                }
                @if record.conditions.experiment.server {
                    dt { "Durability" }
                    dd { (durability(record, analysis)) }
                }
                @if !analysis.notes.is_empty() {
                    dt { "To know" }
                    dd {
                        ul { @for note in analysis.notes.iter().take(REPORT_NOTES_MAX) { li { (note) } } }
                        @if analysis.notes.len() > REPORT_NOTES_MAX { (analysis.notes.len() - REPORT_NOTES_MAX) " more notes are in the record." }
                    }
                }
            }
        }
    }
}

fn noise_of(noise: &Compared, metric: &Metric) -> Markup {
    html! {
        @if let Some(comparison) = &noise.comparison { span class="number" { (change(comparison.ratio)) } "; " }
        (sentence(noise, metric)) "."
    }
}

/// A few lines, and the others folded.
fn lines(all: &[String], most: usize) -> Markup {
    let (first, rest) = all.split_at(all.len().min(most));
    html! {
        @for one in first { div { (one) "." } }
        @if !rest.is_empty() {
            details { summary { (rest.len()) " more" } @for one in rest { div { (one) "." } } }
        }
    }
}

/// A sentence with a capital letter.
fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// What limited the arms, if two signs agree.
fn limits(analysis: &Analysis) -> Markup {
    let found = limiters(analysis);
    html! {
        @if found.is_empty() { "Unknown: nothing was recorded beside the runs." }
        @for (by, arms, evidence) in &found {
            div {
                b { (by.name()) } ": " (first_of(arms)) ". " small { (arms[0]) ": " (evidence) }
            }
        }
    }
}

fn durability(record: &Record, analysis: &Analysis) -> Markup {
    let weaker = promises(analysis);
    let disk = record.disk();
    html! {
        @if weaker.is_empty() { "No arm gives up durability by its own settings. " }
        @for (promise, arms) in &weaker {
            div {
                span class="mark" { "not the same promise" } " " b { (first_of(arms)) } ": " (promise) "."
            }
        }
        @if let Some(us) = disk.flush_us {
            "A flush of a page takes " span class="number" { (figure(us)) " µs" } " on the disk of the "
            @if disk.holds_data { "server's data." } @else { "temporary directory." }
        }
        @for (words, disk) in &record.conditions.slow_disks {
            div { "Disk " b { (words) } ": " (disk.sentence()) "." }
        }
    }
}

/// The tables and bars of each group.
fn results(record: &Record, analysis: &Analysis) -> Markup {
    let columns = super::columns(analysis);
    html! {
        section {
            h2 { "Results" }
            @for (group, arms) in groups(analysis) {
                @if !group.is_empty() { h3 { (group) } }
                @if let Some(metric) = drawn(&arms, &columns) { (chart::bars(&arms, &record.runs, metric)) }
                (page::arms(&arms, &columns))
            }
        }
    }
}

/// The metric of a group's bars: the one that decides, or another that the group has instead.
fn drawn<'a>(arms: &[&Measured], columns: &[&'a Metric]) -> Option<&'a Metric> {
    let has = |metric: &&&Metric| arms.iter().any(|arm| arm.values.contains_key(metric.name.as_ref()));
    columns.iter().find(has).copied()
}

fn latencies(record: &Record, analysis: &Analysis) -> Markup {
    let has = |name: &str| analysis.arms.iter().any(|arm| arm.values.contains_key(name));
    let metrics: Vec<&Metric> =
        ["p99_ms", "latency_ms"].into_iter().filter(|name| has(name)).filter_map(Metric::by_name).collect();
    let (experiment, clients) = (&record.conditions.experiment, client_counts(analysis));
    let curves = chart::curves(experiment, &analysis.arms, throughput(analysis), &metrics, clients);
    let percentiles = groups(analysis).into_iter().map(|(group, arms)| (group, chart::percentiles(&arms)));
    let percentiles: Vec<(&str, Markup)> = percentiles.filter(|(_, drawn)| !drawn.0.is_empty()).collect();
    html! {
        @if !curves.0.is_empty() || !percentiles.is_empty() {
            section {
                h2 { "Latency" }
                (curves)
                @for (group, drawn) in percentiles {
                    @if !group.is_empty() { h3 { (group) } }
                    (drawn)
                }
            }
        }
    }
}

/// What stands on the horizontal axis beside a latency: the metric that decides if it is a rate, else transactions.
fn throughput(analysis: &Analysis) -> &Metric {
    let is_rate = analysis.metric.better == Better::Higher && analysis.metric.unit.ends_with("/s");
    Metric::by_name("tps").filter(|_| !is_rate).unwrap_or(&analysis.metric)
}

/// What arms write to the disk for their throughput, if the experiment shows that.
fn written(record: &Record, analysis: &Analysis) -> Markup {
    let shown = analysis.shown_metrics.iter().find(|metric| metric.name == "write_mb_per_second");
    let metrics: Vec<&Metric> = shown.into_iter().collect();
    let drawn = chart::curves(&record.conditions.experiment, &analysis.arms, throughput(analysis), &metrics, &[]);
    html! { @if !drawn.0.is_empty() { section { h2 { "Written to the disk" } (drawn) } } }
}

fn series(record: &Record, analysis: &Analysis) -> Markup {
    let drawn = chart::series(&record.conditions.experiment, &analysis.arms, &record.runs);
    html! { @if !drawn.0.is_empty() { section { h2 { "Over time" } (drawn) } } }
}

fn splits(analysis: &Analysis) -> Markup {
    html! {
        @if !analysis.splits.is_empty() {
            section {
                h2 { "Where the time goes" }
                (chart::times(&analysis.splits, "ms per transaction"))
                p class="caption" {
                    "Each time is a difference of two arms: the median of the blocks, and the extremes. "
                    "A difference smaller than the noise can be negative."
                }
            }
        }
    }
}

/// The comparisons, those that found a difference first, and of those the largest effect.
fn by_effect(comparisons: &[Compared]) -> Vec<&Compared> {
    let mut all: Vec<&Compared> = comparisons.iter().collect();
    let size = |one: &Compared| one.comparison.map_or(-1.0, |one| one.ratio.ln().abs());
    let found = |one: &Compared| match one.comparison {
        Some(found) if found.every.is_some() || found.verdict == (Verdict::Differs { negligible: false }) => 0,
        Some(_) => 1,
        None => 2,
    };
    all.sort_by(|a, b| found(a).cmp(&found(b)).then(size(b).total_cmp(&size(a))));
    all
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{FIRST, record};
    use super::*;
    use crate::core::{Limiter, Outcome};
    use crate::experiments::{ChosenMetric, Commands};

    /// Most bytes of a page.
    const BYTES_MAX: usize = 2_000_000;

    fn page(record: &Record) -> String {
        html(record, &Analysis::of(record))
    }

    #[test]
    fn a_page_needs_no_network_and_no_script() {
        let text = page(&record(5, 8, 20));
        for word in ["http://", "https://", "<script", "<link", "<img", "@import", "url(", " onload", "src="] {
            assert!(!text.contains(word), "{word}");
        }
    }

    #[test]
    fn names_and_texts_of_a_record_are_escaped() {
        let record = record(5, 8, 20);
        let text = page(&record);
        for arm in &record.conditions.experiment.arms {
            assert!(!text.contains(&arm.name), "{}", arm.name);
            assert!(text.contains(&html! { (arm.name) }.into_string()), "{}", arm.name);
        }
        assert_eq!(record.conditions.experiment.arms[0].name, FIRST);
        for raw in ["<i>", "<SSL>", "<tags>", "<x>", "<run>", "<9>", "1 < 2", "yes & no"] {
            assert!(!text.contains(raw), "{raw}");
            assert!(text.contains(&html! { (raw) }.into_string()), "{raw}");
        }
    }

    #[test]
    fn a_large_record_makes_a_page_below_two_megabytes() {
        let text = page(&record(40, 20, 60));

        assert!(text.len() < BYTES_MAX, "{}", text.len());
        assert_eq!(text.matches("<figcaption><b>").count(), 40, "one plot for each arm that was measured");
    }

    #[test]
    fn long_runs_and_many_arms_and_blocks_stay_below_two_megabytes() {
        for (arms, blocks, seconds) in [(3, 2, 20_000), (200, 10, 60), (6, 200, 60)] {
            let text = page(&record(arms, blocks, seconds));

            assert!(text.len() < BYTES_MAX, "{arms} {blocks} {seconds}: {}", text.len());
        }
    }

    #[test]
    fn the_largest_effects_come_first_and_the_rest_is_below() {
        let record = record(12, 8, 5);
        let analysis = Analysis::of(&record);
        let largest = by_effect(&analysis.comparisons)[0].sentence.clone();
        let text = html(&record, &analysis);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}"));
        assert!(at(&html! { (largest) }.into_string()) < at("more comparisons"));
        assert!(at("more comparisons") < at("Noise floor") && at("not the same promise") < at("<h2>Results"));
    }

    #[test]
    fn an_effect_that_every_block_shows_is_announced_as_that() {
        let text = page(&record(5, 3, 5));
        let said = "in each of 3 blocks, arm-&lt;2&gt; is faster than";
        assert!(text.contains(said) && text.contains("too few for an error rate, which needs at least 9"), "{text}");
        assert!(text.contains("a thin one from the smallest to the largest block") && !text.contains("No verdicts"));
    }

    #[test]
    fn captions_are_words_and_important_columns_are_on_the_left() {
        let mut record = record(5, 8, 5);
        for run in &mut record.runs {
            if let Outcome::Measured(measures) = &mut run.outcome {
                measures.set("tps_sd", Some(7.0));
            }
        }
        let text = page(&record);
        let (_, text) = text.split_once("</style>").unwrap();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at(">vs first<") < at(">p99 of the latency<") && at(">throughput<") < at(">vs first<"));
        assert!(text.contains("standard deviation of the throughput") && !text.contains("tps_sd"), "{text}");
        assert!(text.contains("throughput compared with the other arm"), "{text}");
    }

    #[test]
    fn a_group_without_latencies_has_no_heading_for_them() {
        let mut record = record(4, 8, 5);
        let headings = |record: &Record| page(record).matches("<h3>group 1</h3>").count();
        let all = headings(&record);
        for run in record.runs.iter_mut().filter(|run| run.arm == "arm-<1>") {
            let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
            measures.values.retain(|name, _| !name.starts_with('p'));
        }
        assert_eq!(headings(&record), all - 1);
    }

    #[test]
    fn a_group_without_the_metric_that_decides_is_drawn_by_another() {
        let mut record = record(2, 8, 5);
        record.conditions.experiment.show = vec![ChosenMetric::known("wall_seconds").unwrap()];
        for run in record.runs.iter_mut().filter(|run| run.arm == "arm-<1>") {
            let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
            measures.values = [("wall_seconds".to_owned(), 7.5)].into();
        }
        let text = page(&record);
        assert!(text.contains("time, s</div>") && text.contains("throughput, tx/s</div>"), "{text}");
    }

    #[test]
    fn the_times_of_statements_are_bars_and_a_table() {
        let text = page(&record(3, 8, 5));
        let (_, section) = text.split_once("<h2>Statements</h2>").unwrap();
        let (section, _) = section.split_once("</section>").unwrap();
        assert!(section.contains("<details open>") && section.contains("ms, mean time"), "{section}");
        assert_eq!((section.matches("<figure>").count(), section.matches("<table>").count()), (3, 1), "{section}");
    }

    #[test]
    fn a_quick_record_is_no_evidence() {
        let mut record = record(3, 1, 1);
        assert!(!page(&record).contains("not evidence"));
        record.conditions.quick = true;
        assert!(page(&record).contains("<b>quick: not evidence.</b>"));
        record.conditions.emulated = true;
        assert!(page(&record).contains("<b>emulated: says nothing about speed.</b>"));
    }

    #[test]
    fn a_page_says_which_arm_failed_and_not_that_no_two_arms_do_the_same() {
        // Arms 0 and 2 are compared.
        let mut failed = record(3, 8, 5);
        for run in failed.runs.iter_mut().filter(|run| run.arm == "arm-<2>") {
            run.outcome = Outcome::Error("the command failed: it ended with exit status: 1".to_owned());
        }
        let says = "Nothing is compared: arm-&lt;2&gt; has no numbers (failed: the command failed: it ended with exit";
        let text = page(&failed);
        assert!(text.contains(says) && !text.contains("no two arms"), "{text}");
        let analysis = Analysis::of(&failed);
        let plain = super::super::text(&failed, &analysis).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain.contains("Nothing is compared: arm-<2> has no numbers"), "{plain}");
        let single = record(1, 8, 5);
        assert!(page(&single).contains("Nothing is compared: no two arms do the same work."));
        assert!(!page(&record(5, 8, 5)).contains("Nothing is compared"));
        failed.conditions.quick = true;
        assert!(!page(&failed).contains("Nothing is compared"), "a quick record compares nothing anyway");
    }

    #[test]
    fn the_command_of_a_page_can_be_pasted() {
        let mut record = record(1, 1, 1);
        record.argv = ["millstream", "lab", "run", "--a", "sleep 1; exit"].map(str::to_owned).to_vec();
        let line = html! { "millstream lab run --a 'sleep 1; exit'" }.into_string();
        assert!(page(&record).contains(&line), "{line}");
    }

    #[test]
    fn planted_limiters_are_in_every_report() {
        let mut record = record(2, 8, 5);
        for (arm, limiter) in record.conditions.experiment.arms.iter_mut().zip([Limiter::Processor, Limiter::Lock]) {
            arm.limiter = Some(limiter);
        }
        let analysis = Analysis::of(&record);
        let right = "processor: right, in 8 of 8 runs";
        let wrong = "arm-<1>: row locks: wrong, do not trust this name here; processor in 8 of 8 runs";
        let plain = super::super::text(&record, &analysis).split_whitespace().collect::<Vec<_>>().join(" ");
        let marked = super::super::markdown(&record, &analysis).replace("&lt;", "<").replace("&gt;", ">");
        for text in [plain, marked] {
            assert!(text.contains(right) && text.contains(wrong), "{text}");
        }
        let text = page(&record);
        assert!(text.contains(right) && text.contains(&html! { (wrong) }.into_string()), "{text}");
    }

    #[test]
    fn reports_of_commands_do_not_speak_of_servers_and_their_clients() {
        let mut record = record(2, 8, 5);
        let commands = Commands { warm_up_runs: 1, ..Commands::new("gzip -k file", "zstd -k file") };
        record.conditions.experiment = commands.experiment().unwrap();
        record.conditions.servers.clear();
        record.conditions.pgbench.clear();
        record.conditions.files.clear();
        record.conditions.statements.clear();
        record.conditions.log_ratios.clear();
        record.machine.disk.holds_data = false;
        for (n, run) in (1_u32..).zip(&mut record.runs) {
            if let Some(arm) = [(FIRST, "a"), ("arm-<1>", "b")].into_iter().find(|(name, _)| *name == run.arm) {
                arm.1.clone_into(&mut run.arm);
            }
            let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
            measures.values = [("wall_seconds", 1.0), ("client_cpu_seconds", 0.9), ("client_peak_bytes", 1e7)]
                .map(|(name, value)| (name.to_owned(), value * (1.0 + f64::from(n) / 100.0)))
                .into();
            measures.series.retain(|name, _| name.starts_with("processor."));
            measures.recorded.retain(|name, _| name.starts_with("processor."));
        }
        let analysis = Analysis::of(&record);
        let html = html(&record, &analysis);
        let (before, style) = html.split_once("<style>").unwrap();
        let page = before.to_owned() + style.split_once("</style>").unwrap().1;
        for text in [page, super::super::text(&record, &analysis), super::super::markdown(&record, &analysis)] {
            assert!(text.contains("gzip") || text.contains("wall seconds") || text.contains("WALL SECONDS"), "{text}");
            let text = text.to_lowercase();
            for word in
                ["pgbench", "postgres", "server", "transaction", "tx/s", "sql", "checkpoint", "scale 0", "crash"]
            {
                assert!(!text.contains(word), "{word}: {text}");
            }
        }
    }

    #[test]
    fn a_record_without_runs_makes_a_page() {
        let mut record = record(3, 1, 1);
        record.runs.clear();
        assert!(page(&record).contains("No verdicts: 0 of 1 blocks are finished"));
    }
}
