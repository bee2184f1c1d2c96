//! How the space of a table is used, and what a rewrite would give back.

use super::number::number;
use millstream_model::quantity::whole;
use tokio_postgres::Row;

/// Reads tables with the space that their rows need, by the statistics.
pub(crate) const SIZES: &str = include_str!("table_bloat.sql");

/// The function of the extension `pgstattuple` that measures a table.
pub(crate) const MEASURING: &str = "pgstattuple_approx";

/// What it returns of that.
pub(crate) const MEASURED: &str = "table_len, approx_free_space, dead_tuple_len, approx_tuple_count";

/// How the space of a table is used, in bytes.
pub(crate) struct Space {
    pub(crate) size: u64,
    /// After a rewrite.
    pub(crate) after: u64,
    /// What is free for new rows: measured, or what a rewrite gives back.
    pub(crate) free: u64,
    /// What dead rows take, if it was measured.
    pub(crate) dead: Option<u64>,
}

impl Space {
    /// Of a row of [`SIZES`] and, if it was measured, the four numbers of [`MEASURED`]. `None` if neither a
    /// measurement nor the statistics tell.
    pub(crate) fn of(row: &Row, measured: Option<&[u64]>) -> Option<Self> {
        if let Some([size, free, dead, rows]) = measured {
            // The measurement counts the headers of pages as rows.
            let (live, block) = (size.saturating_sub(*free).saturating_sub(*dead) as f64, row.get::<_, f64>("block"));
            let page = block * row.get::<_, f64>("filled");
            // Pieces of a value that is stored apart fill their pages.
            let pages = match row.get("is_toast") {
                true => live / page,
                false => pages(live, *rows as f64, page, row.get("is_uneven")),
            };
            return Some(Self { size: *size, after: whole(pages * block).min(*size), free: *free, dead: Some(*dead) });
        }
        let needed = u64::try_from(row.get::<_, Option<i64>>("needed")?).unwrap_or(0);
        let size = number(row, "bytes");
        Some(Self { size, after: needed, free: size.saturating_sub(needed), dead: None })
    }
}

/// Pages for rows of so many bytes in all. A row is in one page, so the end of a page stays free. If wide rows stand between
/// narrow ones, all that is known is that a row and the one after it fill at least one page.
fn pages(bytes: f64, rows: f64, page: f64, is_uneven: bool) -> f64 {
    if rows <= 0.0 || bytes <= 0.0 {
        return bytes.max(0.0) / page;
    }
    // A measured width has a part of the page's header in it.
    let fit = (page * (1.0 + HEADER_SHARE) * rows / bytes).floor().max(1.0);
    if is_uneven { rows.min(2.0 * bytes / page) } else { (rows / fit).max(bytes / page) }
}

/// The header of a page, as a share of the page, with some room for what was rounded.
const HEADER_SHARE: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_one_page() {
        let page = 8_168.0;
        for (width, rows, is_uneven, expected) in [
            (100.0, 8_100.0, false, 100.0),
            (4_084.0, 100.0, false, 50.0),
            (5_000.0, 100.0, false, 100.0),
            (5_000.0, 100.0, true, 100.0),
            (3_000.0, 100.0, false, 50.0),
        ] {
            let found = pages(width * rows, rows, page, is_uneven);
            assert!((found - expected).abs() < 2.0, "{width}: {found}");
        }
        // Nine narrow rows before each wide one, which take two pages.
        let bytes = 100.0 * (9.0 * 100.0 + 8_000.0);
        assert!(pages(bytes, 1_000.0, page, true) >= 200.0);
        assert!(pages(0.0, 0.0, page, false) < 1.0);
    }
}
