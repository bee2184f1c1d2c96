//! The password file, `~/.pgpass`: one `host:port:database:user:password` per line.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use millstream_model::shell_word;

use crate::limits::PASSFILE_BYTES_MAX;
use crate::named_file;

/// The file's text, or `None` if it is missing or must not be used. In the latter case `warnings` gets the reason.
pub(super) fn read(path: &Path, warnings: &mut Vec<String>) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() {
        warnings.push(format!("password file \"{}\" is not a plain file; it is ignored", path.display()));
        return None;
    }
    if metadata.mode() & 0o077 != 0 {
        warnings.push(format!(
            "password file \"{}\" can be read by group or others; it is ignored (chmod 0600 {})",
            path.display(),
            shell_word(&path.display())
        ));
        return None;
    }
    match named_file::read(path, PASSFILE_BYTES_MAX) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => {
            warnings.push(format!("password file \"{}\" cannot be read: {error}", path.display()));
            None
        }
    }
}

/// The password of the first line that matches.
pub(super) fn find(text: &str, host: &str, port: u16, dbname: &str, user: &str) -> Option<String> {
    let port = port.to_string();
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let rest = [host, &port, dbname, user].iter().try_fold(line, |rest, wanted| after_match(rest, wanted))?;
        let (password, _) = field(rest);
        (!password.is_empty()).then_some(password)
    })
}

/// What follows the first field, if that field is `*` or `wanted`.
fn after_match<'a>(line: &'a str, wanted: &str) -> Option<&'a str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let (value, rest) = field(line);
    if value == wanted { rest } else { None }
}

/// The first field without its escapes, and what follows its colon.
fn field(line: &str) -> (String, Option<&str>) {
    let mut value = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' => return (value, Some(chars.as_str())),
            '\\' => value.push(chars.next().unwrap_or('\\')),
            c => value.push(c),
        }
    }
    (value, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# comment:*:*:*:no\n\
        db.example:5432:app:alice:first\n\
        db.example:*:app:alice:second\n\
        *:*:a\\:b:bob:with\\:colon\\\\\n\
        \\*:*:*:star:literal\n\
        /run/pg:*:*:*:socket:ignored tail\n\
        *:*:*:nobody:\n\
        short:line\n\
        *:*:*:last:päss\r\n\
        *:*:*:last:never";

    fn find_in(host: &str, port: u16, dbname: &str, user: &str) -> Option<String> {
        find(FILE, host, port, dbname, user)
    }

    #[test]
    fn the_first_fitting_line_wins() {
        assert_eq!(find_in("db.example", 5432, "app", "alice").as_deref(), Some("first"));
        assert_eq!(find_in("db.example", 6000, "app", "alice").as_deref(), Some("second"));
        assert_eq!(find_in("other", 6000, "app", "alice"), None);
        assert_eq!(find_in("x", 1, "y", "last").as_deref(), Some("päss"));
    }

    #[test]
    fn escapes_are_taken_literally() {
        assert_eq!(find_in("h", 1, "a:b", "bob").as_deref(), Some("with:colon\\"));
        assert_eq!(find_in("*", 1, "d", "star").as_deref(), Some("literal"));
        assert_eq!(find_in("h", 1, "d", "star"), None);
    }

    #[test]
    fn a_password_ends_at_a_colon_and_may_not_be_empty() {
        assert_eq!(find_in("/run/pg", 1, "d", "u").as_deref(), Some("socket"));
        assert_eq!(find_in("h", 1, "d", "nobody"), None);
        assert_eq!(find_in("comment", 1, "d", "u"), None);
        assert_eq!(find_in("short", 1, "d", "u"), None);
    }
}
