//! Numbers and names as a person reads them.

use crate::core::{Metric, Spread};

/// A number with about three digits, thousands apart.
pub(super) fn figure(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size == 0.0 || !size.is_finite() => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        size if size >= 0.01 => 4,
        _ => 5,
    };
    grouped(&format!("{value:.digits$}"))
}

/// A number on an axis: without needless zeros, large ones in thousands or millions.
pub(super) fn tick(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = figure(value);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// A ratio as a difference in percent, or as a factor if it is large.
pub(super) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent.abs() {
        _ if ratio >= 3.0 => format!("{}×", figure(ratio)),
        size if size >= 10.0 => signed(percent, 0),
        size if size >= 1.0 => signed(percent, 1),
        _ => signed(percent, 2),
    }
}

/// The smallest and the largest value, if they differ.
pub(super) fn range(spread: Spread) -> Option<String> {
    let Spread { min, max, .. } = spread;
    (min < max).then(|| format!("{}–{}", figure(min), figure(max)))
}

/// What the metrics of the lab are called in words, without their units.
const WORDS: &[(&str, &str)] = &[
    ("tps", "throughput"),
    ("rows_per_second", "throughput"),
    ("packets_per_second", "throughput"),
    ("ns_per_packet", "time of a packet"),
    ("cpu_ns_per_packet", "processor time of a packet"),
    ("latency_ms", "mean latency"),
    ("latency_sd_ms", "standard deviation of the latency"),
    ("p50_ms", "median latency"),
    ("p90_ms", "p90 of the latency"),
    ("p95_ms", "p95 of the latency"),
    ("p99_ms", "p99 of the latency"),
    ("p999_ms", "p99.9 of the latency"),
    ("max_ms", "largest latency"),
    ("in_time_percent", "share in time"),
    ("miss_percent", "missed"),
    ("failed_percent", "failed"),
    ("skipped_percent", "skipped"),
    ("connect_ms", "time to connect"),
    ("tps_sd", "standard deviation of the throughput"),
    ("steady_seconds", "time until steady"),
    ("read_mb_per_second", "read from the disk"),
    ("read_mb_sd", "standard deviation of the reads"),
    ("write_mb_per_second", "written to the disk"),
    ("write_mb_sd", "standard deviation of the writes"),
    ("lag_ms", "delay of the start"),
    ("service_ms", "mean service time"),
    ("service_p99_ms", "p99 of the service time"),
    ("client_cpu_seconds", "processor time of the client"),
    ("server_cpu_seconds", "processor time of the server"),
    ("wall_seconds", "time"),
    ("silent_seconds", "silence"),
    ("lost_pings", "lost pings"),
    ("first_seconds", "time to the first row"),
    ("client_peak_bytes", "peak memory of the client"),
    ("rows", "rows"),
    ("stored", "rows of the table"),
    ("heap_bytes", "size of the table"),
    ("index_bytes", "size of the indexes"),
    ("toast_bytes", "size of the TOAST"),
    ("bytes_per_row", "size for each row"),
    ("store_bytes", "size of the store"),
    ("autovacuums", "autovacuums"),
    ("client_share", "share of the client's processors"),
    ("transactions", "transactions"),
    ("seconds", "measured time"),
    ("wal_bytes", "WAL"),
    ("checkpoints", "checkpoints"),
];

/// What a metric is called in words, without its unit.
pub(super) fn name(metric: &Metric) -> String {
    if let Some((_, words)) = WORDS.iter().find(|(name, _)| *name == metric.name) {
        return (*words).to_owned();
    }
    let bare = ["_ms", "_percent", "_bytes", "_seconds"].iter().find_map(|unit| metric.name.strip_suffix(unit));
    bare.unwrap_or(&metric.name).replace('_', " ")
}

/// A number and its unit.
pub fn with_unit(value: f64, unit: &str) -> String {
    format!("{} {unit}", figure(value)).trim_end().to_owned()
}

fn signed(percent: f64, digits: usize) -> String {
    let text = format!("{percent:+.digits$} %");
    text.replace('-', "−")
}

/// Puts a comma before every three digits of the whole part.
fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("−", rest));
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (n, digit) in whole.chars().enumerate() {
        if n > 0 && (whole.len() - n).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::METRICS;

    #[test]
    fn numbers_have_about_three_digits() {
        let shown = [1_234_567.8, 999.6, 45.67, 1.234, 0.456, 0.012_34, 0.0, -1_500.0].map(figure);
        assert_eq!(shown, ["1,234,568", "1,000", "45.7", "1.23", "0.456", "0.0123", "0", "−1,500"]);
        assert_eq!([20_000.0, 2.5e6, 0.5, 1_000.0, 0.0].map(tick), ["20k", "2.5M", "0.5", "1,000", "0"]);
        assert_eq!([4.2, 1.283, 0.95, 1.002, 0.5].map(change), ["4.20×", "+28 %", "−5.0 %", "+0.20 %", "−50 %"]);
    }

    #[test]
    fn a_column_is_named_without_its_unit() {
        let names = ["tps", "p999_ms", "miss_percent", "tps_sd"].map(|one| name(Metric::by_name(one).unwrap()));
        assert_eq!(names, ["throughput", "p99.9 of the latency", "missed", "standard deviation of the throughput"]);
        for metric in METRICS {
            assert!(WORDS.iter().any(|(name, _)| *name == metric.name), "{} has no words", metric.name);
        }
        let own = Metric { name: "requests_per_hour".into(), ..METRICS[0].clone() };
        assert_eq!(name(&own), "requests per hour");
    }
}
