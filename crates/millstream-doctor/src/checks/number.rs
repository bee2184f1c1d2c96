//! Numbers of a server's answers as a person reads them.

use millstream_model::Finding;
use millstream_model::quantity;
use tokio_postgres::Row;

/// A column that counts.
pub(crate) fn number(row: &Row, column: &str) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

/// A column that counts, with its thousands set apart.
pub(super) fn count(row: &Row, column: &str) -> String {
    quantity::count(number(row, column))
}

/// A column of bytes.
pub(super) fn bytes(row: &Row, column: &str) -> String {
    quantity::bytes(number(row, column))
}

/// The finding with the age of the planner's statistics on which it rests: seconds since the last analyze, if one is
/// known.
pub(super) fn with_analyzed(finding: Finding, seconds: Option<f64>) -> Finding {
    let ago = |seconds| format!("{} ago", quantity::age(seconds));
    let shown = seconds.map_or_else(|| "none since the counters began".to_owned(), ago);
    finding.with("last analyze", shown, "pg_stat_all_tables")
}

/// `Err`: what a check does not see, because the counters have not counted for so many seconds.
pub(crate) fn needs(what: &str, of: &str, needed: f64, counted: f64) -> Result<(), String> {
    let [needs, has] = [needed, counted].map(quantity::age);
    if counted < needed { Err(format!("{what}: needs {needs} {of}, has {has}")) } else { Ok(()) }
}

/// A number of bytes.
pub(super) fn size(number: f64) -> String {
    quantity::bytes(quantity::whole(number))
}

/// A share of a whole in percent; 0 of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}
