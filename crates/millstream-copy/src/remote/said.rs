//! What rsync says about an entry.

/// Why rsync could not copy an entry: the line about it.
pub(super) fn reason(path: &[u8], said: &str) -> String {
    let name = crate::path::split(path).1;
    // It prints odd bytes in another way.
    let plain = name.split(|byte| !(b' '..=b'~').contains(byte)).max_by_key(|part| part.len()).unwrap_or(name);
    let plain = String::from_utf8_lossy(plain);
    let is_rsync = |line: &&str| line.starts_with("rsync: ");
    let is_about = |line: &&str| line.contains(": ") && line.contains(&*plain) && !line.starts_with("rsync error: ");
    let line = said.lines().find(|line| is_rsync(line) && is_about(line));
    let line = line.or_else(|| said.lines().find(|line| !plain.is_empty() && is_about(line)));
    let line = line.or_else(|| said.lines().find(is_rsync));
    match line.and_then(|line| line.split_once("failed: ")) {
        Some((_, why)) => format!("rsync says: {why}"),
        None => line.map_or("rsync could not copy it".to_owned(), |line| format!("rsync says: {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_that_of_the_entry() {
        let said = "rsync: [sender] send_files failed to open \"/s/a\": Permission denied (13)\n\
            rsync: [receiver] mkstemp \"/d/.b.Xa12bc\" failed: Read-only file system (30)\n\
            rsync error: some files/attrs were not transferred";
        assert_eq!(reason(b"in/b", said), "rsync says: Read-only file system (30)");
        assert!(reason(b"a", said).ends_with("Permission denied (13)"), "{}", reason(b"a", said));
        let blocked = "could not make way for new regular file: in/f\nrsync error: some files/attrs";
        assert_eq!(reason(b"in/f", blocked), "rsync says: could not make way for new regular file: in/f");
        assert_eq!(reason(b"c", ""), "rsync could not copy it");
    }
}
