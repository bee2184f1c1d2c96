//! The URL form of a connection string: `postgres://user:password@host:port,host:port/dbname?key=value`.

use super::{Said, keyword};
use crate::error::Error;
use std::net::Ipv6Addr;

const SCHEMES: &[&str] = &["postgresql://", "postgres://"];

/// The hint for a password whose special characters are not percent-encoded.
const ESCAPES: &str = "percent-encode special characters of the password: \"/\" is %2F, \"@\" is %40, \":\" is %3A, \
                       \"#\" is %23, \"?\" is %3F";

/// Whether a text is a URL.
pub(super) fn is_url(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// Whether a text looks like a URL without its scheme: `USER:PASSWORD@HOST..`, and not `KEYWORD=VALUE`. Read as the
/// name of a database it would be shown, with the password in it.
pub(super) fn lacks_scheme(text: &str) -> bool {
    let word = text.split('=').next().unwrap_or_default().trim();
    let is_keyword = text.contains('=') && word.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    !is_keyword && (text.contains('@') || text.contains("://"))
}

/// Reads a URL as libpq's `conninfo_uri_parse` does. Error texts contain no part of the user information.
pub(super) fn parse(text: &str) -> Result<Said, Error> {
    let mut said = Said::new();
    let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    // A second `@`, or one after a `/`, is part of a password. The rest of that password would be read as the host.
    let authority = rest.split('?').next().unwrap_or_default();
    if authority.matches('@').count() > 1 || authority.find('/').is_some_and(|slash| authority[slash..].contains('@')) {
        return Err(Error::settings_hint("the URL's password holds a character with a meaning in URLs", ESCAPES));
    }
    let mut rest = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => {
            user(&rest[..at], &mut said)?;
            &rest[at + 1..]
        }
        _ => rest,
    };

    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    loop {
        let (host, port, after) = host(rest)?;
        hosts.push(host);
        ports.push(port);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => {
                rest = after;
                break;
            }
        }
    }
    put_list(&mut said, "host", hosts);
    put_list(&mut said, "port", ports);

    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if let Some(dbname) = path.strip_prefix('/').filter(|d| !d.is_empty()) {
        said.insert("dbname", decode(dbname)?);
    }
    if !query.is_empty() {
        parameters(query, &mut said)?;
    }
    Ok(said)
}

/// Percent-encodes the characters that have a meaning in a URL.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn user(text: &str, said: &mut Said) -> Result<(), Error> {
    let (user, password) = text.split_once(':').map_or((text, None), |(u, p)| (u, Some(p)));
    if !user.is_empty() {
        said.insert("user", decode(user)?);
    }
    if let Some(password) = password.filter(|p| !p.is_empty()) {
        said.insert("password", decode(password)?);
    }
    Ok(())
}

/// One host and port, decoded, and what follows them.
fn host(text: &str) -> Result<(String, String, &str), Error> {
    let (host, after) = if let Some(bracketed) = text.strip_prefix('[') {
        let Some((host, after)) = bracketed.split_once(']') else {
            return Err(Error::settings("a \"[\" without \"]\" in the URL's IPv6 host address"));
        };
        if host.is_empty() {
            return Err(Error::settings("the URL's IPv6 host address is empty"));
        }
        if !after.is_empty() && !after.starts_with([':', '/', '?', ',']) {
            return Err(Error::settings("unexpected character after the URL's IPv6 host address"));
        }
        (host, after)
    } else {
        text.split_at(text.find([':', '/', '?', ',']).unwrap_or(text.len()))
    };
    let (port, after) = match after.strip_prefix(':') {
        Some(port) => port.split_at(port.find(['/', '?', ',']).unwrap_or(port.len())),
        None => ("", after),
    };
    let port = port.trim_matches(' ');
    // A port that is not a number may be part of a password with a `@`, `/` or `:` that is not percent-encoded. So
    // never repeat it.
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        let whole = &text[..text.len() - after.len()];
        if is_bare_ipv6(whole) {
            let hint = "put an IPv6 address in square brackets, such as [::1]:5432";
            return Err(Error::settings_hint("the URL's IPv6 host address has no brackets", hint));
        }
        return Err(Error::settings_hint("the URL's port is not a number", ESCAPES));
    }
    Ok((decode(host)?, port.to_owned(), after))
}

/// Whether the text is an IPv6 address, perhaps with a port behind it, and no part of a password.
fn is_bare_ipv6(text: &str) -> bool {
    let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    is_address(text) || text.rsplit_once(':').is_some_and(|(address, _)| is_address(address))
}

fn put_list(said: &mut Said, keyword: &'static str, values: Vec<String>) {
    let list = values.join(",");
    if !list.is_empty() {
        said.insert(keyword, list);
    }
}

fn parameters(query: &str, said: &mut Said) -> Result<(), Error> {
    for parameter in query.strip_suffix('&').unwrap_or(query).split('&') {
        let Some((name, value)) = parameter.split_once('=') else {
            // It may be the end of a password that holds a "?".
            return Err(Error::settings_hint("missing \"=\" in a parameter of the URL's query", ESCAPES));
        };
        if value.contains('=') {
            return Err(Error::settings(format!("extra \"=\" in URL query parameter \"{name}\"")));
        }
        let (name, value) = (decode(name)?, decode(value)?);
        // JDBC's spelling, which libpq accepts.
        if name == "ssl" && value == "true" {
            said.insert("sslmode", "require".to_owned());
            continue;
        }
        let known =
            keyword::known(&name).ok_or_else(|| Error::settings(format!("invalid URL query parameter \"{name}\"")))?;
        said.insert(known, value);
    }
    Ok(())
}

/// Percent-decodes a part. Drops blanks around it and refuses blanks inside, as libpq does since 18.
fn decode(text: &str) -> Result<String, Error> {
    let text = text.trim_matches(' ');
    if text.contains(' ') {
        return Err(Error::settings_hint("there are blanks inside the connection URL", "write a blank as %20"));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        match (digit(rest.next()), digit(rest.next())) {
            (Some(0), Some(0)) => return Err(Error::settings("%00 is not allowed in a connection URL")),
            (Some(high), Some(low)) => bytes.push(high << 4 | low),
            _ => {
                return Err(Error::settings_hint(
                    "a \"%\" in the connection URL is not followed by two hexadecimal digits",
                    "write a percent sign as %25",
                ));
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| Error::settings("percent-encoded bytes of the connection URL are not UTF-8"))
}
