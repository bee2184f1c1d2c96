//! What runs do over time: a small plot for each arm, a line for each block. The plots of a kind have one scale.

use super::plot::{HEIGHT, Plot, path};
use super::scale::{LOGARITHMIC_FROM, Scale};
use super::track::short;
use crate::core::{Run, Series};
use crate::experiments::analysis::Measured;
use crate::experiments::experiment::Experiment;
use crate::limits::{
    REPORT_LINES_MAX, REPORT_PANELS_MAX, REPORT_POINTS_ALL_MAX, REPORT_POINTS_MAX, REPORT_POINTS_MIN,
    REPORT_RECORDED_LINES_MAX,
};
use maud::{Markup, html};

/// What a plot shows.
pub(super) struct Kind {
    /// It, with its unit, as the beginning of a sentence.
    pub(super) about: &'static str,
    /// The series that it draws, each with the class of its lines and its name.
    pub(super) lines: &'static [(&'static str, &'static str, &'static str)],
    /// Of which arms it says something.
    of: Arms,
    /// Fewest values of a line.
    values_min: usize,
    /// Most blocks of an arm that are drawn.
    blocks_max: usize,
    /// Whether arms may differ by so much that only a logarithmic scale shows them all.
    by_ratio: bool,
    /// Whether checkpoints are marked.
    marked: bool,
}

/// The arms of which a kind of plot says something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arms {
    /// Those that run as fast as they can.
    Free,
    /// Those with a rate, which says their throughput beforehand.
    Paced,
    All,
}

/// A plot of transactions, which have a line in every run of pgbench.
const OF_TRANSACTIONS: Kind = Kind {
    about: "",
    lines: &[],
    of: Arms::All,
    values_min: 2,
    blocks_max: REPORT_LINES_MAX,
    by_ratio: true,
    marked: true,
};

/// A plot of what the recorder wrote. A command may be over within a second or two, of which a line says nothing.
const OF_RECORDER: Kind =
    Kind { values_min: 3, blocks_max: REPORT_RECORDED_LINES_MAX, by_ratio: false, marked: false, ..OF_TRANSACTIONS };

/// Every kind of plot, in the order of the page.
pub(super) const KINDS: &[Kind] = &[
    Kind { about: "Transactions per second", lines: &[("tps", "line", "")], of: Arms::Free, ..OF_TRANSACTIONS },
    Kind {
        about: "Late and skipped transactions per second",
        lines: &[("late", "line c1", "late"), ("skipped", "line c3", "skipped")],
        of: Arms::Paced,
        by_ratio: false,
        ..OF_TRANSACTIONS
    },
    Kind {
        about: "Latency that 99 % of the transactions of a second do not exceed, in ms",
        lines: &[("p99_ms", "line", "")],
        of: Arms::Paced,
        ..OF_TRANSACTIONS
    },
    Kind {
        about: "Read from and written to the disk of the data, in MB per second",
        lines: &[
            ("disk.data.read_mb_per_second", "line c2", "read"),
            ("disk.data.write_mb_per_second", "line c1", "written"),
        ],
        marked: true,
        ..OF_RECORDER
    },
    Kind {
        about: "Read from and written to the disk of the WAL, in MB per second",
        lines: &[
            ("disk.wal.read_mb_per_second", "line c2", "read"),
            ("disk.wal.write_mb_per_second", "line c1", "written"),
        ],
        ..OF_RECORDER
    },
    Kind { about: "WAL, in MB per second", lines: &[("wal.mb_per_second", "line", "")], ..OF_RECORDER },
    Kind {
        about: "Time of all processors, in percent",
        lines: &[
            ("processor.busy_percent", "line c0", "busy"),
            ("processor.iowait_percent", "line c1", "idle, and waiting for a disk"),
        ],
        ..OF_RECORDER
    },
];

/// A plot before it is drawn.
struct Panel<'a> {
    arm: &'a Measured,
    /// Good runs that have a line.
    blocks: usize,
    /// Those of them that are drawn.
    runs: Vec<&'a Run>,
}

/// The plots of all arms whose runs have enough values. Nothing if there are none.
pub(in super::super) fn series(experiment: &Experiment, arms: &[Measured], runs: &[Run]) -> Markup {
    let has_rate = |arm: &Measured| {
        let arm = experiment.arm(&arm.name).unwrap_or_else(|| experiment.twice());
        experiment.setup(arm).rate().is_some()
    };
    let of = |kind: &Kind| {
        let is_of = |arm: &&Measured| match kind.of {
            Arms::Free => !has_rate(arm),
            Arms::Paced => has_rate(arm),
            Arms::All => true,
        };
        arms.iter().filter(is_of).filter_map(|arm| Panel::of(arm, runs, kind)).collect::<Vec<_>>()
    };
    let kinds: Vec<(&Kind, Vec<Panel<'_>>)> =
        KINDS.iter().map(|kind| (kind, of(kind))).filter(|(_, panels)| !panels.is_empty()).collect();
    let lines_of = |(kind, panels): &(&Kind, Vec<Panel<'_>>)| {
        let drawn = panels.iter().take(REPORT_PANELS_MAX).map(|panel| panel.runs.len()).sum::<usize>();
        drawn * kind.lines.len()
    };
    let count: usize = kinds.iter().map(lines_of).sum();
    let most = (REPORT_POINTS_ALL_MAX / count.max(1)).clamp(REPORT_POINTS_MIN, REPORT_POINTS_MAX);
    html! { @for (kind, panels) in &kinds { (plots(panels, kind, most)) } }
}

impl<'a> Panel<'a> {
    /// `None` if no run of the arm has a line.
    fn of(arm: &'a Measured, runs: &'a [Run], kind: &Kind) -> Option<Self> {
        let own = runs.iter().filter(|run| run.arm == arm.name);
        let enough = |one: &Series| one.values.iter().flatten().count() >= kind.values_min;
        let lines: Vec<&Run> = own.filter(|run| drawn(run, kind).any(|(_, one)| enough(one))).collect();
        let each = lines.len().div_ceil(kind.blocks_max).max(1);
        let (blocks, runs) = (lines.len(), lines.into_iter().step_by(each).collect::<Vec<_>>());
        (blocks > 0).then_some(Self { arm, blocks, runs })
    }

    /// Its lines.
    fn lines(&self, kind: &Kind) -> Vec<(&'static str, &'a Series)> {
        self.runs.iter().copied().flat_map(|run| drawn(run, kind)).collect()
    }

    /// The largest value of its lines.
    fn largest(&self, kind: &Kind) -> f64 {
        self.lines(kind).iter().flat_map(|(_, one)| one.values.iter().flatten()).copied().fold(0.0, f64::max)
    }
}

/// The plots of a kind.
fn plots(panels: &[Panel<'_>], kind: &Kind, most: usize) -> Markup {
    let shown = &panels[..panels.len().min(REPORT_PANELS_MAX)];
    let all: Vec<&Series> = shown.iter().flat_map(|panel| panel.lines(kind)).map(|(_, one)| one).collect();
    let Some(time) = Scale::linear(all.iter().map(|one| length(one))) else { return html! {} };
    let largest: Vec<f64> = shown.iter().map(|panel| panel.largest(kind)).filter(|value| *value > 0.0).collect();
    let (low, high) = largest.iter().fold((f64::INFINITY, 0.0), |(low, high), one| (one.min(low), one.max(high)));
    let is_logarithmic = kind.by_ratio && low > 0.0 && high / low >= LOGARITHMIC_FROM;
    let values = || all.iter().flat_map(|one| one.values.iter().copied().flatten());
    let scale = if is_logarithmic { Scale::logarithmic(values()) } else { Scale::linear(values()) };
    let Some(y) = scale else { return html! {} };
    let has_marks = |panel: &Panel<'_>| panel.runs.iter().any(|run| !checkpoints(run, most).is_empty());
    let marked = kind.marked && shown.iter().any(has_marks);
    html! {
        h3 { (kind.about) }
        div class="panels" { @for one in shown { (panel(one, kind, time, y, most)) } }
        p class="caption" {
            @for (_, class, name) in kind.lines.iter().filter(|(.., name)| !name.is_empty()) {
                span class="legend" { span class={ "swatch " (class) } {} (name) }
            }
            "From the start of the run, with the warm-up; a line for each block. All of these plots have one scale"
            @if is_logarithmic { ", a logarithmic one: a second without any stands at the bottom." } @else { ", from 0." }
            @if marked { " Vertical marks: checkpoints begin; each block has a row of its own, the first one on top." }
            @if all.iter().any(|one| one.values.len() > most) {
                " Of long runs, the lowest and the highest second of each interval are drawn."
            }
            @if panels.len() > shown.len() {
                " The first " (shown.len()) " of " (panels.len()) " arms are drawn; the record holds all."
            }
        }
    }
}

fn panel(panel: &Panel<'_>, kind: &Kind, x: Scale, y: Scale, most: usize) -> Markup {
    let Panel { arm, blocks, runs } = panel;
    let begun: Vec<Vec<f64>> = runs.iter().filter(|_| kind.marked).map(|run| checkpoints(run, most)).collect();
    let marks = marks(&begun, x, y);
    let drawing = html! {
        @if !marks.is_empty() { path class="checkpoint" d=(marks) {} }
        @for (class, one) in panel.lines(kind) { path class=(class) d=(line(one, x, y, most)) {} }
    };
    let title = format!("{}: {}, of {blocks} blocks", arm.name, kind.about.to_lowercase());
    let plot = Plot { x, x_unit: "s", y, y_unit: "", title, drawing, texts: html! {} };
    html! {
        figure {
            figcaption {
                b { (arm.name) }
                @if runs.len() < *blocks { small { (runs.len()) " of " (blocks) " blocks" } }
                @if let Some(said) = in_numbers(&begun) { small { (said) } }
            }
            (plot.draw("small"))
        }
    }
}

/// A series as a line of at most so many points.
pub(super) fn line(one: &Series, x: Scale, y: Scale, most: usize) -> String {
    path(points(one, most).into_iter().map(|point| point.map(|point| Plot::at(x, y, point))))
}

/// The series of a run that a plot draws, each with the class of its line.
fn drawn<'a>(run: &'a Run, kind: &Kind) -> impl Iterator<Item = (&'static str, &'a Series)> + use<'a> {
    kind.lines.iter().filter_map(move |(name, class, _)| Some((*class, named(run, name)?)))
}

/// A series of a run by its name, if it has values.
pub(super) fn named<'a>(run: &'a Run, name: &str) -> Option<&'a Series> {
    run.measures()?.series.get(name).filter(|one| one.step_seconds > 0.0 && !one.values.is_empty())
}

/// The seconds that a series covers.
pub(super) fn length(series: &Series) -> f64 {
    series.values.len() as f64 * series.step_seconds
}

/// The times at which checkpoints began, at most so many. The server counts them; where that is not recorded, one is seen
/// only if none ran before it.
fn checkpoints(run: &Run, most: usize) -> Vec<f64> {
    let counts: Vec<&Series> = COUNTED.iter().filter_map(|name| named(run, name)).collect();
    let mut times: Vec<f64> = match counts.is_empty() {
        false => counts.into_iter().flat_map(|one| counted(one, most)).collect(),
        true => named(run, "checkpoint.running").into_iter().flat_map(begun).collect(),
    };
    times.sort_unstable_by(f64::total_cmp);
    times.truncate(most);
    times
}

/// The series in which the server counts checkpoints.
const COUNTED: [&str; 2] = ["checkpoint.timed", "checkpoint.requested"];

/// A time for each one that a series counts: those of an interval stand at equal distances in it.
fn counted(series: &Series, most: usize) -> impl Iterator<Item = f64> {
    let some = series.values.iter().enumerate().filter_map(|(n, value)| Some((n, value.filter(|count| *count > 0.0)?)));
    some.flat_map(move |(n, count)| {
        let each = (0_u32..).map(f64::from).take_while(move |one| *one < count.round()).take(most);
        each.map(move |one| (n as f64 + one / count.round()) * series.step_seconds)
    })
}

/// The times at which something begins that was not there before.
fn begun(series: &Series) -> impl Iterator<Item = f64> {
    let runs = |value: Option<f64>| value.is_some_and(|share| share > 0.0);
    let begins = move |n: &usize| runs(series.values[*n]) && (*n == 0 || !runs(series.values[n - 1]));
    (0..series.values.len()).filter(begins).map(move |n| n as f64 * series.step_seconds)
}

/// A mark for each checkpoint, in a row for each run.
fn marks(begun: &[Vec<f64>], x: Scale, y: Scale) -> String {
    let row = HEIGHT / begun.len().max(1) as f64;
    let of_run = |(n, times): (usize, &Vec<f64>)| {
        let (top, height) = (short(n as f64 * row), short(row * if begun.len() > 1 { 0.85 } else { 1.0 }));
        times.iter().map(|at| format!("M{} {top}v{height}", Plot::at(x, y, (*at, 0.0)).0)).collect::<String>()
    };
    begun.iter().enumerate().map(of_run).collect()
}

/// How many checkpoints the runs had, if any had one.
fn in_numbers(begun: &[Vec<f64>]) -> Option<String> {
    let counts = || begun.iter().map(Vec::len);
    let (low, high) = (counts().min()?, counts().max().filter(|high| *high > 0)?);
    let count = if low == high { high.to_string() } else { format!("{low}–{high}") };
    Some(format!("{count} checkpoint{} a run", if high == 1 { "" } else { "s" }))
}

/// The points of a line, at most `most`. Of a longer series, the lowest and the highest value of each interval, so that
/// a stall of one second is still seen.
fn points(series: &Series, most: usize) -> Vec<Option<(f64, f64)>> {
    let Series { step_seconds, values } = series;
    let point = |(n, value): (usize, &Option<f64>)| value.map(|value| ((n as f64 + 0.5) * step_seconds, value));
    let all = values.iter().enumerate().map(point);
    if values.len() <= most {
        return all.collect();
    }
    let all: Vec<Option<(f64, f64)>> = all.collect();
    let interval = values.len().div_ceil((most / 2).max(1));
    let ends = |points: &[Option<(f64, f64)>]| {
        let there = || points.iter().copied().flatten();
        let low = there().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = there().max_by(|a, b| a.1.total_cmp(&b.1));
        let swap = low.zip(high).is_some_and(|(low, high)| high.0 < low.0);
        if swap { [high, low] } else { [low, high] }
    };
    all.chunks(interval).flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::record;
    use super::*;
    use crate::core::Outcome;
    use crate::experiments::{Analysis, Record};

    /// A record of three arms, after a change to the series of each run.
    fn changed(change: impl Fn(&mut std::collections::BTreeMap<String, Series>)) -> Record {
        let mut record = record(3, 2, 10);
        for run in &mut record.runs {
            if let Outcome::Measured(measures) = &mut run.outcome {
                change(&mut measures.series);
            }
        }
        record
    }

    fn page(record: &Record) -> String {
        let analysis = Analysis::of(record);
        series(&record.conditions.experiment, &analysis.arms, &record.runs).into_string()
    }

    #[test]
    fn a_long_series_keeps_its_stalls() {
        let stall = |n: u32| if n == 777 { Some(1.0) } else { Some(100.0 + f64::from(n % 7)) };
        let series = Series::each_second((0..10_000).map(stall));
        let drawn = points(&series, 200);
        assert!(drawn.len() <= 200, "{}", drawn.len());
        assert!(drawn.contains(&Some((777.5, 1.0))));
        let times: Vec<f64> = drawn.iter().flatten().map(|(time, _)| *time).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn every_checkpoint_is_marked_where_it_begins() {
        let of = |names: &[(&str, &[f64])]| {
            let mut run = record(1, 1, 1).runs.remove(0);
            let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
            let each = |(name, values): &(&str, &[f64])| {
                ((*name).to_owned(), Series::each_second(values.iter().copied().map(Some)))
            };
            measures.series.extend(names.iter().map(each));
            checkpoints(&run, 60)
        };
        let running: (&str, &[f64]) = ("checkpoint.running", &[0.0, 0.3, 1.0, 0.0, 0.1]);
        assert_eq!(of(&[running]), [1.0, 4.0], "what an earlier record has");
        // One follows the other, so that one always runs.
        let (timed, requested): (&[f64], &[f64]) = (&[0.0, 1.0, 0.0, 0.0, 0.0], &[0.0, 0.0, 2.0, 0.0, 1.0]);
        let counted = of(&[running, ("checkpoint.timed", timed), ("checkpoint.requested", requested)]);
        assert_eq!(counted, [1.0, 2.0, 2.5, 4.0]);
        assert_eq!(in_numbers(&[vec![0.0; 37], vec![0.0; 45]]).unwrap(), "37–45 checkpoints a run");
        assert_eq!((in_numbers(&[Vec::new()]), in_numbers(&[vec![0.0]]).unwrap()), (None, "1 checkpoint a run".into()));
    }

    #[test]
    fn marks_of_each_block_have_a_row_of_their_own() {
        let ten = || Series::each_second([1.0; 10].map(Some));
        let text = page(&changed(|series| _ = series.insert("checkpoint.requested".to_owned(), ten())));
        let marks = text.split("class=\"checkpoint\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(marks.matches('M').count(), 2 * 10, "{marks}");
        assert_eq!((marks.matches(" 0v").count(), marks.matches(" 250v").count()), (10, 10), "{marks}");
        assert!(text.contains("10 checkpoints a run") && text.contains("the first one on top"), "{text}");
    }

    #[test]
    fn arms_with_a_rate_show_what_was_late_or_skipped_and_the_latency_instead_of_their_rate() {
        let mut record = changed(|series| {
            let values = |value: f64| Series::each_second([value; 10].map(Some));
            series.extend(
                [("late", 3.0), ("skipped", 1.0), ("p99_ms", 9.0)].map(|(name, v)| (name.to_owned(), values(v))),
            );
        });
        assert!(page(&record).contains("<h3>Transactions per second</h3>"));
        for arm in &mut record.conditions.experiment.arms {
            arm.run.rate = Some(crate::experiments::Number::Plain(100.0));
        }
        let text = page(&record);
        for said in ["<h3>Late and skipped transactions per second</h3>", "<h3>Latency that 99 %", "line c3"] {
            assert!(text.contains(said), "{said}: {text}");
        }
        assert!(!text.contains("<h3>Transactions per second</h3>"), "{text}");
    }

    #[test]
    fn what_was_recorded_is_drawn_by_device_and_a_line_of_few_values_is_not() {
        let of_disks = |seconds: usize| {
            changed(|series| {
                let names = ["disk.data.read_mb", "disk.data.write_mb", "disk.wal.write_mb", "wal.mb"];
                let of = |name| (format!("{name}_per_second"), Series::each_second(vec![Some(5.0); seconds]));
                series.extend(names.map(of));
                series.insert("processor.busy_percent".to_owned(), Series::each_second(vec![Some(50.0); seconds]));
            })
        };
        let text = page(&of_disks(10));
        for said in ["disk of the data, in MB", "disk of the WAL, in MB", "<h3>WAL, in MB", "Time of all processors"] {
            assert!(text.contains(said), "{said}: {text}");
        }
        for line in ["line c2", "line c1", "line c0", "swatch line c1"] {
            assert!(text.contains(&format!("class=\"{line}\"")), "{line}: {text}");
        }
        assert!(!page(&of_disks(2)).contains("in MB"));
    }

    /// The names of the vertical axes of all plots.
    fn axes(text: &str) -> Vec<&str> {
        text.split("<div class=\"side\">").skip(1).filter_map(|rest| rest.split("</div>").next()).collect()
    }

    #[test]
    fn plots_of_a_kind_have_one_scale_and_a_logarithmic_one_where_arms_are_far_apart() {
        let record = record(3, 2, 10);
        let text = page(&record);
        let axes = axes(&text);
        assert!(axes.len() == 3 && axes.iter().all(|one| one == &axes[0]), "{axes:?}");
        assert!(text.contains("All of these plots have one scale, from 0."), "{text}");
        let mut apart = record;
        for run in apart.runs.iter_mut().filter(|run| run.arm == "arm-<1>") {
            let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
            measures.series.insert("tps".to_owned(), Series::each_second([Some(10.0); 10]));
        }
        assert!(page(&apart).contains("one scale, a logarithmic one"));
    }

    #[test]
    fn a_missing_second_stays_missing() {
        let series = Series::each_second([Some(1.0), None, Some(3.0)]);
        assert_eq!(points(&series, 200), [Some((0.5, 1.0)), None, Some((2.5, 3.0))]);
    }
}
