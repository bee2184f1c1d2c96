//! The `key=value key='va lue'` form of a connection string.

use super::{Said, keyword};
use crate::error::Error;

/// Reads pairs. If a keyword occurs twice, the last value counts, as in libpq.
pub(super) fn parse(text: &str) -> Result<Said, Error> {
    let mut said = Said::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(rest.len());
        let name = &rest[..end];
        let Some(value) = rest[end..].trim_start().strip_prefix('=') else {
            return Err(Error::settings(format!("missing \"=\" after \"{}\" in connection string", shown(name))));
        };
        let known = keyword::known(name)
            .ok_or_else(|| Error::settings(format!("invalid connection option \"{}\"", shown(name))))?;
        let (value, after) = value_of(value.trim_start())?;
        said.insert(known, value);
        rest = after.trim_start();
    }
    Ok(said)
}

/// Writes pairs in the form that [`parse`] reads.
pub(super) fn shown_pairs(said: &Said) -> String {
    let is_plain = |c: char| !c.is_ascii_whitespace() && c != '\'' && c != '\\';
    let pair = |(name, value): (&&str, &String)| match !value.is_empty() && value.chars().all(is_plain) {
        true => format!("{name}={value}"),
        false => format!("{name}='{}'", value.replace('\\', r"\\").replace('\'', r"\'")),
    };
    said.iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// The first value of `text`, unescaped, and what follows it.
fn value_of(text: &str) -> Result<(String, &str), Error> {
    let quoted = text.strip_prefix('\'');
    let mut value = String::new();
    let mut chars = quoted.unwrap_or(text).char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if quoted.is_some() => return Ok((value, chars.as_str())),
            c if quoted.is_none() && c.is_ascii_whitespace() => return Ok((value, &text[at..])),
            c => value.push(c),
        }
    }
    if quoted.is_some() {
        return Err(Error::settings("unterminated quoted string in connection string"));
    }
    Ok((value, ""))
}

/// A misplaced word may be part of a password that contains a blank. So errors repeat only a plausible keyword.
fn shown(name: &str) -> &str {
    let plausible = name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    if plausible { name } else { "..." }
}
