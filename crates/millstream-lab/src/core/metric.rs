//! Metrics: what can be measured, each with its unit and the direction that is better.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The direction in which a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A larger value is better.
    Higher,
    /// A smaller value is better.
    Lower,
    /// Neither: the value only describes the run.
    Neither,
}

/// Something that is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Its name in records and reports, with the unit last.
    pub name: Cow<'static, str>,
    /// The unit, as a report prints it.
    pub unit: Cow<'static, str>,
    /// The direction that is better.
    pub better: Better,
    /// What it is, in one sentence.
    pub about: Cow<'static, str>,
}

/// Every metric that the lab knows, in the order of the reports. An experiment may have others.
pub const METRICS: &[Metric] = &[
    higher("tps", "tx/s", "Transactions per second, without the time to connect the first sessions."),
    higher("rows_per_second", "rows/s", "Rows per second."),
    higher(
        "packets_per_second",
        "packets/s",
        "Packets per second that one processor sends, with what the filter does.",
    ),
    lower("ns_per_packet", "ns", "Time for a packet."),
    lower("cpu_ns_per_packet", "ns", "Processor time of the sender for a packet."),
    lower("latency_ms", "ms", "Mean latency of a transaction; with a rate, from its scheduled start."),
    lower("latency_sd_ms", "ms", "Standard deviation of the latency."),
    lower("p50_ms", "ms", "Median latency."),
    lower("p90_ms", "ms", "Latency that 90 % of the transactions do not exceed."),
    lower("p95_ms", "ms", "Latency that 95 % of the transactions do not exceed."),
    lower("p99_ms", "ms", "Latency that 99 % of the transactions do not exceed."),
    lower("p999_ms", "ms", "Latency that 99.9 % of the transactions do not exceed."),
    lower("max_ms", "ms", "Largest latency."),
    higher(
        "in_time_percent",
        "%",
        "Transactions that were neither late, skipped nor failed, of all that were scheduled.",
    ),
    lower("miss_percent", "%", "Transactions that were late, skipped or failed, of all that were scheduled."),
    lower("failed_percent", "%", "Transactions that failed, of all that were scheduled."),
    lower("skipped_percent", "%", "Transactions that were not begun because they would have been late."),
    lower("connect_ms", "ms", "Mean time to open a session."),
    lower("tps_sd", "tx/s", "Standard deviation of the transactions per second, from second to second."),
    lower("steady_seconds", "s", "Time until the transactions per second are steady; the whole run if they never are."),
    higher("read_mb_per_second", "MB/s", "Bytes read from the disk that holds the data."),
    lower("read_mb_sd", "MB/s", "Standard deviation of what is read, from second to second."),
    neither("write_mb_per_second", "MB/s", "Bytes written to the disk that holds the data."),
    lower("write_mb_sd", "MB/s", "Standard deviation of what is written, from second to second."),
    lower("lag_ms", "ms", "Mean delay between the scheduled start of a transaction and its real start."),
    lower("service_ms", "ms", "Mean time from sending a request to its answer."),
    lower("service_p99_ms", "ms", "Time from sending to answer that 99 % of the requests do not exceed."),
    lower("client_cpu_seconds", "s", "Processor time of the client."),
    lower("server_cpu_seconds", "s", "Processor time of the server's processes meanwhile, also of those that ended."),
    lower("wall_seconds", "s", "Time from start to end; of a process, from its start to its exit."),
    lower("silent_seconds", "s", "Time until the network answers again."),
    lower("lost_pings", "pings", "Packets that were not answered."),
    lower("first_seconds", "s", "Time until the first row of an answer arrived."),
    lower("client_peak_bytes", "B", "Largest resident memory of the client's process with its children."),
    neither("rows", "rows", "Documents that were loaded, or rows that were queried."),
    neither("stored", "rows", "Rows of the table afterwards."),
    lower("heap_bytes", "B", "The table afterwards, with its free space map and visibility map."),
    lower("index_bytes", "B", "The table's indexes afterwards."),
    lower("toast_bytes", "B", "The table's TOAST afterwards, with its index."),
    lower("bytes_per_row", "B", "The table with its indexes and its TOAST afterwards, for each of its rows."),
    lower("store_bytes", "B", "Bytes on disk of data and indexes afterwards, in a store other than PostgreSQL."),
    neither("autovacuums", "", "Autovacuums of the table so far."),
    neither(
        "client_share",
        "",
        "Processor time of the client, divided by that which its threads could use: 1 is a whole core for each thread of pgbench.",
    ),
    neither("transactions", "tx", "Transactions in the measured time."),
    neither("seconds", "s", "Measured time."),
    neither("wal_bytes", "B", "WAL that the server wrote meanwhile."),
    neither("checkpoints", "", "Checkpoints that began meanwhile."),
];

impl Metric {
    /// The metric of that name, if the lab knows it.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|one| one.name == name)
    }
}

const fn higher(name: &'static str, unit: &'static str, about: &'static str) -> Metric {
    metric(name, unit, Better::Higher, about)
}

const fn lower(name: &'static str, unit: &'static str, about: &'static str) -> Metric {
    metric(name, unit, Better::Lower, about)
}

const fn neither(name: &'static str, unit: &'static str, about: &'static str) -> Metric {
    metric(name, unit, Better::Neither, about)
}

const fn metric(name: &'static str, unit: &'static str, better: Better, about: &'static str) -> Metric {
    Metric { name: Cow::Borrowed(name), unit: Cow::Borrowed(unit), better, about: Cow::Borrowed(about) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_names_of_their_own() {
        for one in METRICS {
            assert_eq!(Metric::by_name(&one.name), Some(one));
            assert!(one.about.ends_with('.'), "{}", one.name);
        }
        assert_eq!(Metric::by_name("nothing"), None);
    }
}
