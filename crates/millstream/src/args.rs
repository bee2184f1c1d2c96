//! Arguments that several commands share.

use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, StyledStr, TypedValueParser};
use millstream_model::{KeyError, KeyRequest};
use millstream_pg::Explained;
use std::str::FromStr;
use std::time::Duration;

/// Where a command works.
#[derive(Debug, Clone, Default, clap::Args)]
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

    /// Use the schema although this role owns a part of it [default: MILLSTREAM_TRUST_OWNER]
    ///
    /// The owner of Millstream's own tables and functions can run code with the rights of everybody who uses them. So
    /// they must belong to your role, to a superuser, or to a role of which yours is a member. Name another owner here
    /// if you trust it with your rights. May be repeated.
    #[arg(long, value_name = "ROLE")]
    pub trust_owner: Vec<String>,
}

/// A number of connections that work side by side.
pub fn workers(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max as u64)
}

/// A choice from names, which the help explains.
pub fn named<A: Into<StyledStr>>(all: impl IntoIterator<Item = (&'static str, A)>) -> PossibleValuesParser {
    all.into_iter().map(|(name, about)| PossibleValue::new(name).help(about)).collect::<Vec<_>>().into()
}

/// A choice from values with their names, which the help explains.
pub fn one_of<T: Clone + Send + Sync + 'static>(
    all: impl IntoIterator<Item = (T, &'static str, &'static str)>,
) -> impl TypedValueParser<Value = T> {
    let all: Vec<_> = all.into_iter().collect();
    named(all.iter().map(|(_, name, about)| (*name, *about))).map(move |typed| {
        let (value, ..) = all.iter().find(|(_, name, _)| *name == typed).expect("it is a possible value");
        value.clone()
    })
}

/// A value, or why the text is none and what to write.
pub fn hinted<T: FromStr<Err: Explained>>(text: &str) -> Result<T, String> {
    text.parse::<T>().map_err(|error| match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
}

/// One path of members. `None`: the text names several, or something else.
pub fn one_path(text: &str) -> Result<Option<Vec<String>>, KeyError> {
    let mut paths = KeyRequest::parse_paths(text)?;
    Ok(paths.pop().filter(|path| paths.is_empty() && path.is_path()).map(|path| path.path))
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
