//! Patterns of file names, which stand for the files that a shell would find.

use crate::failure::Failure;
use glob::{Pattern, PatternError};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A part of a pattern between slashes.
enum Step {
    /// A name as it is.
    Name(OsString),
    /// A pattern of names.
    Names(Pattern),
    /// `**`: folders of any depth.
    Folders,
}

/// The folder that cannot be read, and why.
type Unread = (PathBuf, io::Error);

/// The files that match a pattern, sorted by name. As in a shell, a name that begins with a dot matches only if the
/// pattern has that dot. Names that are not UTF-8 match too.
///
/// # Errors
/// It is no pattern, a folder cannot be read, or no file matches.
pub fn matching(pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let steps = steps(pattern).map_err(|error| {
        Failure::user(format!("{pattern} is not a pattern of file names"))
            .because(&error)
            .hint("* ? and [..] match characters")
    })?;
    let mut found = Vec::new();
    // Only folders match what ends in a slash.
    if !pattern.ends_with('/') {
        walk(&PathBuf::new(), &steps, &mut found).map_err(|(folder, error)| {
            Failure::user(format!("cannot look for {pattern} in {}", folder.display())).because(&error)
        })?;
    }
    if found.is_empty() && has_braces(pattern) {
        return Err(braces(pattern));
    }
    if found.is_empty() {
        let hint = "check the path and the pattern; a name that begins with a dot matches only a pattern with that dot";
        return Err(Failure::user(format!("no file matches {pattern}")).hint(hint));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Refuses a name with braces that a shell would expand, and that no file has: within quotes, no shell sees them.
///
/// # Errors
/// It says so.
pub fn refuse_braces(path: &Path) -> Result<(), Failure> {
    match path.to_str() {
        Some(text) if has_braces(text) && path.symlink_metadata().is_err() => Err(braces(text)),
        _ => Ok(()),
    }
}

fn has_braces(text: &str) -> bool {
    text.match_indices('{').any(|(start, _)| {
        let within = text[start..].split_once('}').map_or("", |(within, _)| within);
        within.contains(',') || within.contains("..")
    })
}

fn braces(text: &str) -> Failure {
    let hint = "leave the braces outside of the quotes, for the shell to expand, as in 'my logs'/{a,b}.json; or name each \
                file; * ? and [..] do work within quotes";
    Failure::user(format!("no file {text}: braces are not expanded within quotes")).hint(hint)
}

fn steps(pattern: &str) -> Result<Vec<Step>, PatternError> {
    let step = |component: Component<'_>| match component.as_os_str().to_str() {
        Some("**") => Ok(Step::Folders),
        Some(text) if text.contains(['*', '?', '[']) => Pattern::new(text).map(Step::Names),
        _ => Ok(Step::Name(component.as_os_str().to_owned())),
    };
    Path::new(pattern).components().map(step).collect()
}

/// Adds the files below a place to which the steps lead.
fn walk(place: &Path, steps: &[Step], found: &mut Vec<PathBuf>) -> Result<(), Unread> {
    let Some((step, rest)) = steps.split_first() else {
        // A link that leads nowhere is found, and reported when it is opened.
        if !place.is_dir() && place.symlink_metadata().is_ok() {
            found.push(place.to_owned());
        }
        return Ok(());
    };
    match step {
        Step::Name(name) => walk(&place.join(name), rest, found),
        Step::Names(pattern) => {
            let taken = |name: &OsStr| {
                (pattern.as_str().starts_with('.') || !is_hidden(name)) && pattern.matches(&name.to_string_lossy())
            };
            let mut names = entries(place)?.into_iter().map(|(name, _)| name).filter(|name| taken(name));
            names.try_for_each(|name| walk(&place.join(name), rest, found))
        }
        Step::Folders => {
            walk(place, rest, found)?;
            for (name, is_folder) in entries(place)?.into_iter().filter(|(name, _)| !is_hidden(name)) {
                if is_folder {
                    walk(&place.join(name), steps, found)?;
                } else if rest.is_empty() {
                    found.push(place.join(name));
                }
            }
            Ok(())
        }
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// The names in a folder, and which of them are folders and no links. Nothing if it is not a folder.
fn entries(place: &Path) -> Result<Vec<(OsString, bool)>, Unread> {
    let folder = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    let read = || -> io::Result<Vec<(OsString, bool)>> {
        let entry = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name(), entry.file_type()?.is_dir()))
        };
        std::fs::read_dir(folder)?.map(entry).collect()
    };
    match read() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Vec::new()),
        read => read.map_err(|error| (folder.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names below a folder that match.
    fn found(folder: &Path, pattern: &str) -> Vec<String> {
        let whole = format!("{}/{pattern}", folder.display());
        let paths = matching(&whole).unwrap_or_default();
        paths.iter().map(|path| path.strip_prefix(folder).unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_pattern_finds_what_a_shell_finds() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        for name in ["a/b/.git", "a/.c"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let odd = OsStr::from_bytes(b"x\xff.json");
        let names =
            ["1.json", "2.json", ".3.json", "._1.json", "a/4.json", "a/b/5.json", "a/b/.git/6.json", "a/.c/7.json"];
        for name in names.map(OsStr::new).into_iter().chain([odd]) {
            std::fs::write(folder.join(name), "{}").unwrap();
        }
        for (pattern, expected) in [
            ("*.json", &["1.json", "2.json", "x\u{fffd}.json"][..]),
            ("[12].json", &["1.json", "2.json"]),
            ("?.json", &["1.json", "2.json"]),
            (".*.json", &[".3.json", "._1.json"]),
            (".[3]*", &[".3.json"]),
            ("[.]3.json", &[]),
            ("*", &["1.json", "2.json", "x\u{fffd}.json"]),
            ("*/*.json", &["a/4.json"]),
            ("a/.c/*", &["a/.c/7.json"]),
            ("a/.?/*", &["a/.c/7.json"]),
            ("*/.c/7.js*", &["a/.c/7.json"]),
            ("**/*.json", &["1.json", "2.json", "a/4.json", "a/b/5.json", "x\u{fffd}.json"]),
            ("a/**", &["a/4.json", "a/b/5.json"]),
            ("a/**/**/5*", &["a/b/5.json"]),
            ("a/../[1]*", &["a/../1.json"]),
            ("*/", &[]),
            ("none/*", &[]),
            ("1.json/*", &[]),
        ] {
            assert_eq!(found(folder, pattern), expected, "{pattern}");
        }
        assert!(matching("a**").unwrap_err().to_string().contains("not a pattern"));
    }

    #[test]
    fn braces_that_no_file_has_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["a1.json", "b{1,2}.json", "{}.json"] {
            std::fs::write(path(name), "{}").unwrap();
        }
        for name in ["a{1,2}.json", "a{1..2}.json", "{a,{b,c}}1.json"] {
            assert!(refuse_braces(&path(name)).unwrap_err().to_string().contains("braces are not expanded"), "{name}");
        }
        for name in ["b{1,2}.json", "{}.json", "a{1}.json", "a}{.json", "a{1", "a,}"] {
            assert!(refuse_braces(&path(name)).is_ok(), "{name}");
        }
        let matching = |name: &str| matching(path(name).to_str().unwrap());
        assert!(matching("{a,c}*.json").unwrap_err().to_string().contains("braces are not expanded"));
        assert_eq!(matching("b{1,*.json").unwrap(), [path("b{1,2}.json")]);
        assert_eq!(matching("?{1,2}.json").unwrap(), [path("b{1,2}.json")]);
    }

    #[test]
    fn a_name_that_is_not_utf8_and_does_not_match_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        for name in [OsStr::from_bytes(b"x\xff"), OsStr::new("1.json")] {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        assert_eq!(found(dir.path(), "*.json"), ["1.json"]);
    }
}
