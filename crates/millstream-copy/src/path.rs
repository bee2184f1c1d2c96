//! Paths as bytes: their order, their parts and how they are shown.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// Orders paths by their names: a folder comes right before what is in it.
pub(crate) fn order(a: &[u8], b: &[u8]) -> Ordering {
    match a.iter().zip(b).position(|(a, b)| a != b) {
        // No name holds a zero byte, so a separator may count as one.
        Some(at) => rank(a[at]).cmp(&rank(b[at])),
        None => a.len().cmp(&b.len()),
    }
}

fn rank(byte: u8) -> u8 {
    if byte == b'/' { 0 } else { byte }
}

/// The folder of a path, and its name there.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// A path in a folder. The root is empty.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// Whether a path lies below a folder.
pub(crate) fn is_in(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || rest.starts_with(b"/"))
}

/// Whether a link at a path of a tree leads out of the tree. What is absolute does, also if it leads to the tree itself: from a
/// copy of the link, it leads to the original.
pub(crate) fn leads_out(path: &[u8], target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    target.split(|byte| *byte == b'/').any(|name| match name {
        b"" | b"." => false,
        b".." if depth == 0 => true,
        b".." => {
            depth -= 1;
            false
        }
        _ => {
            depth += 1;
            false
        }
    })
}

/// A key by which a path sorts before the folders that it is in.
pub(crate) fn deepest_first(path: &[u8]) -> Vec<u8> {
    let is_below = u32::from(!path.is_empty());
    let depth = path.iter().fold(is_below, |depth, byte| depth + u32::from(*byte == b'/'));
    [format!("{:08x}/", u32::MAX - depth).as_bytes(), path].concat()
}

/// The path of a key: what is behind the first slash.
pub(crate) fn path_of(key: &[u8]) -> &[u8] {
    key.iter().position(|byte| *byte == b'/').map_or(key, |at| &key[at + 1..])
}

/// A path of this machine for people, as [`shown`] prints it.
pub(crate) fn shown_path(path: impl AsRef<OsStr>) -> String {
    shown(path.as_ref().as_bytes())
}

/// A path for people, on one line. Control characters, backslashes and bytes that are not UTF-8 are escaped.
pub fn shown(path: &[u8]) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_comes_right_before_what_is_in_it() {
        let mut paths: Vec<&[u8]> = vec![b"a-b", b"a/b", b"", b"a", b"a/b/c", b"a.b", b"a/\x01"];
        paths.sort_by(|a, b| order(a, b));
        assert_eq!(paths, [&b""[..], b"a", b"a/\x01", b"a/b", b"a/b/c", b"a-b", b"a.b"]);
    }

    #[test]
    fn paths_are_cut_and_joined() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"a"), (&b""[..], &b"a"[..]));
        assert_eq!((join(b"", b"a"), join(b"a", b"b")), (b"a".to_vec(), b"a/b".to_vec()));
    }

    #[test]
    fn a_link_leads_out_of_a_tree_or_stays_in_it() {
        for (path, target, expected) in [
            ("a", "b", false),
            ("a", "./b//c/../..", false),
            ("a", "..", true),
            ("a", "b/../../c", true),
            ("a/b", "../c", false),
            ("a/b", "../../c", true),
            ("a/b/c", "/a", true),
        ] {
            assert_eq!(leads_out(path.as_bytes(), target.as_bytes()), expected, "{path} -> {target}");
        }
    }

    #[test]
    fn keys_sort_the_deepest_path_first() {
        let mut keys: Vec<_> = [&b""[..], b"a", b"a/b", b"b", b"a/b/c"].map(deepest_first).to_vec();
        keys.sort_by(|a, b| order(a, b));
        let paths: Vec<_> = keys.iter().map(|key| path_of(key)).collect();
        assert_eq!(paths, [&b"a/b/c"[..], b"a/b", b"a", b"b", b""]);
    }

    #[test]
    fn odd_names_are_shown_on_one_line() {
        assert_eq!(shown(b"a\nb\xff\\c \xc3\xa9"), "a\\nb\\xff\\\\c \u{e9}");
        assert_eq!(shown(b""), ".");
    }
}
