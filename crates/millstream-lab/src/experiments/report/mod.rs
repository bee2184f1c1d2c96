//! Reports of a record: as text, as Markdown, as CSV and as an HTML page.

mod article;
mod chart;
mod csv;
mod figure;
#[cfg(test)]
pub(crate) mod fixture;
mod html;
mod lineup;
mod markdown;
mod page;
#[cfg(test)]
mod schema;
mod text;
mod undecided;

pub use csv::{csv, csv_series};
pub use figure::with_unit;
pub use html::html;
pub use lineup::lineup;
pub use markdown::markdown;
pub use text::text;

use figure::figure;

use super::analysis::{Analysis, Blocks, Compared, Measured, NamedDial};
use super::client_count::ClientCount;
use super::record::Record;
use crate::core::{self, Factors, Limiter, Metric, Spread};
use crate::limits::REPORT_EFFECTS_MAX;

/// The metrics that a report shows of each arm, besides the one that decides, if they were measured.
const SHOWN: &[&str] = &["tps", "latency_ms", "latency_sd_ms", "p99_ms", "miss_percent", "connect_ms", "tps_sd"];

/// What all arms have in common, in a line; `None` if nothing is.
pub fn in_common(common: &Factors) -> Option<String> {
    let said: Vec<String> = common.iter().map(|(name, value)| format!("{name} {}", beginning(value))).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// The values that a user may choose, in a line; `None` if there are none.
fn dials(analysis: &Analysis) -> Option<String> {
    let said = |NamedDial { name, value, usual, .. }: &NamedDial| {
        let usual = usual.as_deref().map(|usual| format!(" (usually {})", beginning(usual)));
        format!("{name} {}{}", beginning(value), usual.unwrap_or_default())
    };
    let said: Vec<String> = analysis.dials.iter().map(said).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// Most characters of a value among others in a line.
const VALUE_MAX: usize = 60;

/// The beginning of a value that may be a command.
fn beginning(value: &str) -> String {
    match value.char_indices().nth(VALUE_MAX) {
        None => value.to_owned(),
        Some((end, _)) => format!("{}…", &value[..end]),
    }
}

/// The columns of an analysis: the deciding metric, and those that some arm has.
fn columns(analysis: &Analysis) -> Vec<&Metric> {
    let is_new = |metric: &&Metric| metric.name != analysis.metric.name;
    let is_wanted = |metric: &&Metric| analysis.shown_metrics.iter().any(|one| one.name == metric.name);
    let usual: Vec<&Metric> = SHOWN.iter().copied().filter_map(Metric::by_name).collect();
    let usual = usual.into_iter().filter(|metric| !is_wanted(metric));
    let has = |metric: &&Metric| {
        let values = analysis.arms.iter().filter_map(|arm| arm.values.get(metric.name.as_ref()));
        values.into_iter().any(|spread| spread.max > 0.0)
    };
    let shown = analysis.shown_metrics.iter().chain(usual).filter(is_new).filter(has);
    std::iter::once(&analysis.metric).chain(shown).collect()
}

/// The verdicts by the metrics of `show`: a line for each two arms, with a few words for each metric, whose name `name`
/// writes. Those that say nothing are counted.
fn shown_verdicts(analysis: &Analysis, name: impl Fn(&Metric) -> String) -> Vec<String> {
    let is_decided = |one: &&Compared| one.comparison.is_none_or(|found| found.is_decided());
    let decided: Vec<&Compared> = analysis.shown.iter().filter(is_decided).collect();
    let said = decided.iter().filter_map(|one| {
        let metric = analysis.shown_metrics.iter().find(|metric| metric.name == one.metric)?;
        let said = one.comparison.map_or_else(|| "cannot be compared".to_owned(), |found| found.in_short(metric));
        Some(((&one.arm, &one.with), format!("{} {said}", name(metric))))
    });
    let (all, undecided) = (analysis.shown.len(), analysis.shown.len() - decided.len());
    let rest = (undecided > 0).then(|| format!("cannot tell: {undecided} of {all}"));
    let lines =
        core::groups(said).into_iter().map(|((arm, with), said)| format!("{arm} / {with}: {}", said.join("; ")));
    lines.chain(rest).collect()
}

/// The arms of each group, in their order.
fn groups(analysis: &Analysis) -> Vec<(&str, Vec<&Measured>)> {
    core::groups(analysis.arms.iter().map(|arm| (arm.group.as_str(), arm)))
}

/// An arm's value of a column: of the first one with its extremes, of the others the median alone.
fn cell(arm: &Measured, (column, metric): (usize, &&Metric)) -> String {
    let shown = |value: &Spread| if column == 0 { spread(*value) } else { figure(value.median) };
    arm.values.get(metric.name.as_ref()).map_or_else(|| "-".to_owned(), shown)
}

/// The median, with the extremes behind it if there are several values.
fn spread(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    if min == max { figure(median) } else { format!("{} ({}-{})", figure(median), figure(min), figure(max)) }
}

/// An arm beside the first of its group: by how much it differs if values add up, or how many times the first it is.
fn with_first(arm: &Measured) -> Option<String> {
    let difference =
        arm.from_first.map(|difference| format!("{}{}", if difference > 0.0 { "+" } else { "" }, figure(difference)));
    difference.or_else(|| Some(format!("{}×", figure(arm.of_first?))))
}

/// What limited the arms: a line for each limiter, with its arms and the evidence of the first one.
fn limiters(analysis: &Analysis) -> Vec<(Limiter, Vec<&str>, String)> {
    let mut found: Vec<(Limiter, Vec<&str>, String)> = Vec::new();
    for (arm, limited) in analysis.arms.iter().filter_map(|arm| Some((arm.name.as_str(), arm.limited.as_ref()?))) {
        match found.iter_mut().find(|(by, ..)| *by == limited.by) {
            Some((_, arms, _)) => arms.push(arm),
            None => found.push((limited.by, vec![arm], limited.evidence.join(", and "))),
        }
    }
    found
}

/// The first ones of a list, and how many more there are.
fn first_of(all: &[&str]) -> String {
    let (first, rest) = all.split_at(all.len().min(REPORT_EFFECTS_MAX));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    first.join(", ") + &more
}

/// The arms that were made to have a limiter: a line for each, which says whether that was named.
fn planted(analysis: &Analysis) -> impl Iterator<Item = String> {
    analysis.arms.iter().filter_map(|arm| Some(format!("{}: {}", arm.name, arm.planted.as_ref()?.sentence)))
}

/// What a crash loses of arms: a line for each loss, with its arms.
fn promises(analysis: &Analysis) -> Vec<(&str, Vec<&str>)> {
    core::groups(analysis.arms.iter().filter_map(|arm| Some((arm.promise.as_deref()?, arm.name.as_str()))))
}

/// How a metric is called in records.
fn plain_name(metric: &Metric) -> String {
    metric.name.to_string()
}

/// The comparisons, if there are verdicts.
fn verdicts(analysis: &Analysis) -> &[Compared] {
    if analysis.no_verdicts.is_some() { &[] } else { &analysis.comparisons }
}

/// An arm compared with itself, if there are verdicts.
fn noise(analysis: &Analysis) -> impl Iterator<Item = &Compared> {
    analysis.noise.iter().filter(|_| analysis.no_verdicts.is_none())
}

/// Why nothing is compared, if so: no arms do the same work, or some of those that do have no numbers.
fn nothing_compared(record: &Record, analysis: &Analysis) -> Option<String> {
    if analysis.no_verdicts.is_some() || !analysis.comparisons.is_empty() {
        return None;
    }
    let experiment = &record.conditions.experiment;
    let alike = |name: &str| {
        let pairs =
            experiment.arms.iter().flat_map(|arm| experiment.against(arm).into_iter().map(move |one| [arm, one]));
        pairs.into_iter().any(|pair| pair.iter().any(|arm| arm.name == name))
    };
    let absent = |arm: &&Measured| !arm.values.contains_key(analysis.metric.name.as_ref()) && alike(&arm.name);
    let why = |arm: &Measured| match &arm.missing {
        Some(why) => format!("{} has no numbers ({why})", arm.name),
        None => format!("{} has no {}", arm.name, analysis.metric.name),
    };
    let said: Vec<String> = analysis.arms.iter().filter(absent).map(why).collect();
    Some(if said.is_empty() { "no two arms do the same work".to_owned() } else { said.join("; ") })
}

/// How many clients are best, if the runs are evidence.
fn client_counts(analysis: &Analysis) -> &[ClientCount] {
    if analysis.no_verdicts.is_some() { &[] } else { &analysis.clients }
}

/// How long runs of pgbench are, behind what comes before; nothing if none was asked for.
fn length(record: &Record) -> String {
    let conditions = &record.conditions;
    if conditions.experiment.has_pgbench() { format!("; runs of {} s", conditions.seconds) } else { String::new() }
}

/// How the blocks stand, and whether they are evidence.
fn standing(analysis: &Analysis) -> String {
    let Blocks { finished, planned } = analysis.blocks;
    if analysis.emulated {
        return "no evidence of speed: emulated runs".to_owned();
    }
    match (analysis.quick, finished < planned) {
        (true, _) => "quick: not evidence".to_owned(),
        (false, true) => format!("unfinished: {finished} of {planned} blocks"),
        (false, false) => format!("{finished} blocks"),
    }
}
