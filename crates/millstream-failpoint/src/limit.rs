//! Limits to which a test gives other values.

use std::sync::LazyLock;

const VARIABLE: &str = "MILLSTREAM_LIMITS";

/// The limits that a test may set.
const LIMITS: &[&str] = &["piece-bytes"];

static SET: LazyLock<Vec<(&'static str, u64)>> = LazyLock::new(|| {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    parse(&text).unwrap_or_else(|problem| panic!("{VARIABLE}: {problem}"))
});

/// The value of a limit: the one that a test has set, else the usual one.
///
/// # Panics
/// If the limit is not in the list, or the environment variable cannot be read.
pub fn limit(name: &'static str, usual: u64) -> u64 {
    assert!(known(name).is_some(), "{name} is not in the list");
    SET.iter().find(|(set, _)| *set == name).map_or(usual, |(_, value)| *value)
}

fn known(name: &str) -> Option<&'static str> {
    LIMITS.iter().copied().find(|known| *known == name)
}

fn parse(text: &str) -> Result<Vec<(&'static str, u64)>, String> {
    text.split(';').filter(|part| !part.is_empty()).map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<(&'static str, u64), String> {
    let (name, value) = text.split_once('=').ok_or(format!("\"{text}\" is not LIMIT=VALUE"))?;
    let name = known(name).ok_or(format!("there is no limit {name}"))?;
    let value = value.parse().map_err(|_| format!("\"{value}\" is not a number"))?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_limits_is_parsed_and_wrong_ones_are_refused() {
        assert_eq!(parse("piece-bytes=4096;"), Ok(vec![("piece-bytes", 4_096)]));
        assert_eq!(parse(""), Ok(vec![]));
        for wrong in ["piece-bytes", "nothing=1", "piece-bytes=x", "piece-bytes=-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(limit("piece-bytes", 7), 7);
    }
}
