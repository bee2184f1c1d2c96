//! Arguments that several commands share.

use clap::builder::RangedU64ValueParser;
use std::time::Duration;

/// Where a command works.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// Database to use, as postgres://USER@HOST:PORT/DB or "host=.. dbname=.." [default: MILLSTREAM_DB, then
    /// DATABASE_URL, then the local server]
    ///
    /// Other users of the machine can read command lines. Keep the password in ~/.pgpass, PGPASSWORD,
    /// MILLSTREAM_DB or DATABASE_URL.
    #[arg(long, value_name = "URL")]
    pub db: Option<String>,

    /// Schema of Millstream's own tables [default: MILLSTREAM_SCHEMA, then millstream]
    #[arg(long, value_name = "NAME")]
    pub schema: Option<String>,
}

/// A number of connections that work side by side.
pub fn workers(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max as u64)
}

/// A time such as `30s`, `500ms` or `5m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match &text[number.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("expected a number with ms, s, m or h, as in 30s".into()),
    };
    if number.trim_start_matches('0').is_empty() {
        return Err("expected more than zero, as in 30s".into());
    }
    let count: u64 = number.parse().map_err(|_| "expected a whole number with its unit, as in 30s")?;
    count.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(|| "that is too long".into())
}
