//! Columns of a report: what each shows, and what it means.

use crate::core::Spread;
use crate::ingest::line::Line;
use crate::limits::MEBIBYTE;

/// A column next to the rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Its heading. The ratio's heading depends on the experiment.
    pub(crate) heading: &'static str,
    /// It is shown only if a line has it: records of earlier versions do not.
    pub(crate) optional: bool,
    /// What it means in every experiment; empty if the experiment explains it.
    pub(crate) legend: &'static str,
    /// The cell of a line; `None` if there is nothing to show.
    pub(crate) cell: fn(&Line) -> Option<String>,
}

pub(crate) const RATIO: Column = Column {
    heading: "RATIO",
    optional: false,
    legend: "",
    cell: |line| line.ratio.map(|spread| between(&spread, short)),
};

pub(crate) const CPU: Column = Column {
    heading: "CPU",
    optional: false,
    legend: "cpu: processor seconds of the client per million documents.",
    cell: |line| line.cpu_seconds_per_million.map(|spread| short(spread.median)),
};

pub(crate) const SERVER: Column = Column {
    heading: "SERVER",
    optional: true,
    legend: "server: processor seconds of the whole server per million documents.",
    cell: |line| line.server_cpu_seconds_per_million.map(|spread| short(spread.median)),
};

pub(crate) const MEMORY: Column = Column {
    heading: "MIB",
    optional: false,
    legend: "mib: the client's largest resident memory.",
    cell: |line| line.peak_bytes.map(|spread| format!("{:.0}", spread.median / MEBIBYTE)),
};

pub(crate) const WAL: Column = Column {
    heading: "WAL",
    optional: false,
    legend: "wal: bytes a document that the whole server logged meanwhile.",
    cell: |line| line.wal_bytes_per_row.map(|spread| whole(&spread)),
};

pub(crate) const WAL_PER_BYTE: Column = Column {
    heading: "OF INPUT",
    optional: false,
    legend: "of input: bytes of WAL per byte of the documents, median (min-max).",
    cell: |line| line.wal_bytes_per_byte.map(|spread| between(&spread, short)),
};

pub(crate) const IMAGES: Column = Column {
    heading: "IMAGES",
    optional: false,
    legend: "images: bytes a document of full-page images in that WAL, as they were logged.",
    cell: |line| line.page_image_bytes_per_row.map(|spread| whole(&spread)),
};

pub(crate) const SIZE: Column = Column {
    heading: "SIZE",
    optional: false,
    legend: "size: bytes a row of table, indexes and TOAST after the phase.",
    cell: |line| line.table_bytes_per_row.map(|spread| whole(&spread)),
};

pub(crate) const MILLISECONDS: Column = Column {
    heading: "MS",
    optional: false,
    legend: "ms: milliseconds until the end.",
    cell: |line| Some(short(line.milliseconds())),
};

pub(crate) const FIRST_ROW: Column = Column {
    heading: "FIRST ROW",
    optional: false,
    legend: "first row: milliseconds until it was there, median (min-max).",
    cell: |line| line.first_seconds.map(|spread| between(&spread, |seconds| short(seconds * 1e3))),
};

pub(crate) const VACUUMS: Column = Column {
    heading: "VAC",
    optional: false,
    legend: "vac: how often the server had vacuumed the table by itself.",
    cell: |line| line.autovacuums.map(|spread| whole(&spread)),
};

fn whole(spread: &Spread) -> String {
    format!("{:.0}", spread.median)
}

/// `MEDIAN (MIN-MAX)`.
pub(crate) fn between(spread: &Spread, show: impl Fn(f64) -> String) -> String {
    format!("{} ({}-{})", show(spread.median), show(spread.min), show(spread.max))
}

/// A number with as many decimals as fit four characters.
pub(crate) fn short(number: f64) -> String {
    match number {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

/// A rate with three digits: `812`, `43.2k`, `213k`.
pub(crate) fn rate(rows_per_second: f64) -> String {
    match rows_per_second {
        small if small < 999.5 => format!("{small:.0}"),
        middle if middle < 99_950.0 => format!("{:.1}k", middle / 1e3),
        large => format!("{:.0}k", large / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        let rates = [0.4, 812.0, 999.4, 999.6, 43_210.0, 99_960.0, 213_400.0, 1_500_000.0].map(rate);
        assert_eq!(rates, ["0", "812", "999", "1.0k", "43.2k", "100k", "213k", "1500k"]);
    }
}
