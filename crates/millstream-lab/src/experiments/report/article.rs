//! A published table beside today's figures: its rows, and what it concluded.

use super::super::article::{Article, Conclusion};
use super::super::block_values::{block_values, pairs};
use super::super::record::Record;
use super::figure::{change, figure};
use super::{groups, page, spread};
use crate::core::{Metric, Spread};
use crate::experiments::analysis::{Analysis, Measured};
use maud::{Markup, html};

/// The table of an article, for a record.
pub(super) struct Repeated<'a> {
    article: &'a Article,
    record: &'a Record,
    metric: &'a Metric,
    /// Names of the groups that have arms of its rows, with these arms.
    groups: Vec<(&'a str, Vec<&'a Measured>)>,
}

/// The figures of a row: a rate, its time, and the cost in time, compared with the row before.
struct Figures {
    rate: String,
    ns: String,
    cost: String,
}

impl<'a> Repeated<'a> {
    /// `None` if the experiment repeats no table, or if no arm of it has numbers.
    pub(super) fn of(record: &'a Record, analysis: &'a Analysis) -> Option<Self> {
        let article = record.conditions.experiment.article.as_ref()?;
        let metric = &analysis.metric;
        let is_row = |arm: &&Measured| {
            let has = arm.values.contains_key(metric.name.as_ref());
            has && article.steps.iter().any(|step| is_of(&arm.name, &step.row))
        };
        let groups = groups(analysis)
            .into_iter()
            .map(|(name, arms)| (name, arms.into_iter().filter(is_row).collect::<Vec<_>>()));
        let groups: Vec<(&str, Vec<&Measured>)> = groups.filter(|(_, arms)| !arms.is_empty()).collect();
        (!groups.is_empty() && !analysis.emulated).then_some(Self { article, record, metric, groups })
    }

    /// The figures of the article itself.
    fn then(&self, place: usize) -> Figures {
        let step = &self.article.steps[place];
        let ns = self.article.ns_then(&step.row);
        let before = place.checked_sub(1).and_then(|before| self.article.ns_then(&self.article.steps[before].row));
        Figures::of(Some(step.then), ns, before)
    }

    /// Today's figures of a group.
    fn now(&self, place: usize, arms: &[&Measured]) -> Figures {
        let median = |place: usize, metric: &str| {
            let step = self.article.steps.get(place)?;
            let arm = arms.iter().find(|arm| is_of(&arm.name, &step.row))?;
            arm.values.get(metric).map(|spread| spread.median)
        };
        let before = place.checked_sub(1).and_then(|before| median(before, &self.metric.name));
        Figures::of(median(place, &self.article.rate), median(place, &self.metric.name), before)
    }

    /// What became of each conclusion: a sentence.
    pub(super) fn conclusions(&self) -> Vec<String> {
        self.article.conclusions.iter().filter_map(|one| self.conclusion(one)).collect()
    }

    fn conclusion(&self, one: &Conclusion) -> Option<String> {
        let values = |arm: &str| block_values(&self.record.runs, arm, &self.metric.name);
        let today = self.groups.iter().filter_map(|(group, arms)| {
            let find = |row: &str| arms.iter().find(|arm| is_of(&arm.name, row));
            let both = pairs(&values(&find(&one.than)?.name), &values(&find(&one.row)?.name));
            let difference = Spread::of(both.into_iter().map(|(than, own)| own - than))?;
            Some(format!("{group}: {} {}", signed(difference), self.metric.unit))
        });
        let today: Vec<String> = today.collect();
        if today.is_empty() {
            return None;
        }
        let then = self.article.ns_then(&one.row).zip(self.article.ns_then(&one.than));
        let then = then.map(|(own, than)| Spread { median: own - than, min: own - than, max: own - than });
        let then = then.map(|then| format!("; {}: {} ns", self.article.year, signed(then))).unwrap_or_default();
        let Conclusion { title, row, than } = one;
        Some(format!("{title}: {row} less {than}: {}{then}", today.join("; ")))
    }

    /// A line for each row.
    pub(super) fn lines(&self) -> Vec<String> {
        let shown = |Figures { rate, ns, cost }: Figures| {
            let cost = if cost.is_empty() { cost } else { format!(", {cost}") };
            format!("{rate} packets/s, {ns} ns{cost}")
        };
        let line = |(place, row): (usize, &str)| {
            let now = self.groups.iter().map(|(group, arms)| format!("; {group}: {}", shown(self.now(place, arms))));
            format!("{row}: {}: {}{}", self.article.year, shown(self.then(place)), now.collect::<String>())
        };
        self.article.steps.iter().map(|step| step.row.as_str()).enumerate().map(line).collect()
    }

    /// One table of all rows, with the figures of the article beside those of each group.
    pub(super) fn table(&self) -> Markup {
        let year = self.article.year.to_string();
        let of: Vec<&str> = std::iter::once(year.as_str()).chain(self.groups.iter().map(|(name, _)| *name)).collect();
        let head = html! {
            th scope="col" { "row" }
            @for name in &of {
                th scope="col" class="n" { "packets/s" small { (name) } }
                th scope="col" class="n" { "time" small { "ns" } }
                th scope="col" class="n" title="The time, compared with the row before." { "cost" small { "of the row before" } }
            }
            th scope="col" { "what it is" }
        };
        let cells = |Figures { rate, ns, cost }: Figures| {
            html! { td class="n" { (rate) } td class="n" { (ns) } td class="n" { (cost) } }
        };
        let rows = html! {
            @for (place, step) in self.article.steps.iter().enumerate() {
                tr {
                    th scope="row" { (step.row) }
                    (cells(self.then(place)))
                    @for (_, arms) in &self.groups { (cells(self.now(place, arms))) }
                    td class="why" { (step.says) }
                }
            }
        };
        html! {
            section {
                h2 { "The table of " (year) ", and today's figures" }
                (page::table(head, rows))
                p class="caption" {
                    "Medians of the blocks. The cost is the time of a packet, compared with the row before; times add up, packets "
                    "per second do not."
                }
            }
        }
    }
}

impl Figures {
    fn of(rate: Option<f64>, ns: Option<f64>, before: Option<f64>) -> Self {
        let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
        let cost = ns.zip(before).filter(|(_, before)| *before > 0.0).map(|(ns, before)| change(ns / before));
        Self { rate: shown(rate), ns: shown(ns), cost: cost.unwrap_or_default() }
    }
}

/// Whether an arm is one of a row: its name is that of the row, or begins with it before a slash.
fn is_of(arm: &str, row: &str) -> bool {
    arm.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A difference with its sign, and the extremes of the blocks behind it.
fn signed(difference: Spread) -> String {
    format!("{}{}", if difference.median > 0.0 { "+" } else { "" }, spread(difference))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::super::{html, markdown, text};
    use super::*;
    use crate::core::Outcome;
    use crate::experiments::chosen_metric::ChosenMetric;
    use crate::experiments::{Analysis, Selection, Source, Step};

    /// Two blocks of arms that are named after rows, with these times.
    fn measured() -> Record {
        let mut record = record(2, 2, 1);
        let experiment = &mut record.conditions.experiment;
        experiment.metric = ChosenMetric::known("ns_per_packet").unwrap();
        experiment.show = vec![ChosenMetric::known("packets_per_second").unwrap()];
        experiment.adds_up = true;
        let names = ["drop-raw/nft/4", "drop-filter/nft/4"];
        for (arm, name) in experiment.arms.iter_mut().zip(names) {
            (arm.name, arm.group) = (name.to_owned(), "nft, IPv4".to_owned());
        }
        let step = |row: &str, then: f64| Step { row: row.to_owned(), says: format!("<{row}>"), then };
        let (title, row, than) = ("raw before filter".to_owned(), "drop-filter".to_owned(), "drop-raw".to_owned());
        experiment.article = Some(Article {
            year: 2016,
            rate: "packets_per_second".to_owned(),
            steps: vec![step("drop-raw", 280_000.0), step("drop-filter", 250_000.0)],
            conclusions: vec![Conclusion { title, row, than }],
        });
        for run in &mut record.runs {
            let ns = if run.arm == "arm-<1>" { 900.0 } else { 800.0 };
            let name = if run.arm == "arm-<1>" { names[1] } else { names[0] };
            let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
            measures.values = [("ns_per_packet", ns), ("packets_per_second", 1e9 / ns)]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
            if run.arm != crate::experiments::AGAIN {
                name.clone_into(&mut run.arm);
            }
        }
        record
    }

    #[test]
    fn the_rows_are_one_table_and_the_conclusions_are_the_answer() {
        let record = measured();
        let analysis = Analysis::of(&record);
        let said = "aw before filter: drop-filter less drop-raw: nft, IPv4: +100 ns; 2016: +429 ns";
        let page = html(&record, &analysis);
        let plain = text(&record, &analysis).split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [&page, &plain, &markdown(&record, &analysis)] {
            assert!(text.contains(said), "{text}");
        }
        let (_, table) = page.split_once("The table of 2016").unwrap();
        let (table, _) = table.split_once("</table>").unwrap();
        for cell in ["280,000", "3,571", "+12 %", "1,250,000", "900", "&lt;drop-raw&gt;"] {
            assert!(table.contains(cell), "{cell}: {table}");
        }
        assert!(plain.contains("drop-raw: 2016: 280,000 packets/s, 3,571 ns; nft, IPv4: 1,250,000 packets/s, 800 ns"));
        let other = super::super::fixture::record(2, 2, 1);
        assert!(Repeated::of(&other, &Analysis::of(&other)).is_none());
    }

    #[test]
    fn the_rows_of_the_article_are_chosen_by_one_value() {
        let values = [("rows".to_owned(), "article".to_owned())].into();
        let source = Source::named("packets", &Selection { values, ..Selection::default() }).unwrap();
        let experiment = &source.experiment;
        let article = experiment.article.as_ref().unwrap();
        assert_eq!((article.steps.len(), article.conclusions.len()), (11, 4));
        for step in &article.steps {
            for backend in ["nft", "iptables-nft"] {
                assert!(experiment.arm(&format!("{}/{backend}/4", step.row)).is_some(), "{} {backend}", step.row);
            }
        }
        assert_eq!(experiment.arms.len(), 22);
        let rows = |name: &str| article.steps.iter().any(|step| step.row == name);
        assert!(article.conclusions.iter().all(|one| rows(&one.row) && rows(&one.than)));
    }
}
