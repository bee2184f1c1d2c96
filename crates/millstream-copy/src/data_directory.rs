//! Data directories of PostgreSQL in a tree that is copied like any other: at its root, or further down.

use crate::entry::EntryKind;
use crate::error::Error;
use crate::limits::DATA_DIRECTORIES_MAX;
use crate::manifest::Reader;
use crate::path::{is_in, join, leads_out, shown, shown_path, split};
use millstream_model::shell_word;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The two files by which one knows a data directory. Each database has a file of the first name, too.
const VERSION: &[u8] = b"PG_VERSION";
const CONTROL: &[u8] = b"global/pg_control";

/// Of these folders, what is in them is not part of a copy. PostgreSQL's own programs make an empty folder of one that is a
/// link.
pub(crate) const WITHOUT_CONTENT: [&str; 7] =
    ["pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans"];

/// Whether a path may be the control file of a data directory.
pub(crate) fn is_control(path: &[u8]) -> bool {
    folder_of(path, CONTROL).is_some()
}

/// The data directories of a list.
pub(crate) struct DataDirectories(BTreeSet<Vec<u8>>);

impl DataDirectories {
    /// Finds them.
    ///
    /// # Errors
    /// The list cannot be read; there are more than so many.
    pub(crate) fn of(list: &Path) -> Result<Self, Error> {
        let of_list = Error::manifest(list);
        let mut entries = Reader::open(list).map_err(&of_list)?;
        let mut found = BTreeSet::new();
        // Those above the entry that have the first file, which comes before the second one.
        let mut above: Vec<Vec<u8>> = Vec::new();
        while let Some(entry) = entries.next().map_err(&of_list)? {
            while above.last().is_some_and(|folder| !is_in(&entry.path, folder)) {
                above.pop();
            }
            if let Some(folder) = folder_of(&entry.path, VERSION) {
                above.push(folder.to_vec());
            } else if let Some(folder) = folder_of(&entry.path, CONTROL)
                && above.iter().any(|of_version| of_version == folder)
            {
                if found.len() == DATA_DIRECTORIES_MAX {
                    let says = format!("there are more than {DATA_DIRECTORIES_MAX} data directories of PostgreSQL");
                    return Err(Error::refused(says, "leave some out with --exclude"));
                }
                found.insert(folder.to_vec());
            }
        }
        Ok(Self(found))
    }

    /// The innermost one that holds a path.
    fn holding<'a>(&'a self, path: &[u8]) -> Option<&'a [u8]> {
        let mut folder = path;
        while !folder.is_empty() {
            folder = split(folder).0;
            if let Some(found) = self.0.get(folder) {
                return Some(found);
            }
        }
        None
    }

    /// Refuses links that lead out of one: a server on the copy would use what they lead to, together with the original.
    /// `before`: what stands before a path where rules ask for it.
    ///
    /// # Errors
    /// There is such a link; the list cannot be read.
    pub(crate) fn refuse_links(&self, list: &Path, source: &Path, before: &[u8]) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        let of_list = Error::manifest(list);
        let mut entries = Reader::open(list).map_err(&of_list)?;
        while let Some(entry) = entries.next().map_err(&of_list)? {
            let EntryKind::Link { target } = &entry.facts.kind else { continue };
            let Some(folder) = self.holding(&entry.path) else { continue };
            let inner = below(&entry.path, folder);
            if leads_out(inner, target) {
                let data = if folder.is_empty() { source.to_owned() } else { source.join(OsStr::from_bytes(folder)) };
                let (link, target) = (shown(inner), shown(target));
                let says = format!(
                    "{} is a data directory of PostgreSQL, and a server on the copy would use {target} together with the \
                     original: {link} is a link to it",
                    shown_path(data)
                );
                let excluded = format!("--exclude {}", shell_word(&format!("/{}", shown(&join(before, &entry.path)))));
                let out = format!(
                    "leave the link out with {excluded}, copy what it leads to by itself, and make the new link"
                );
                return Err(Error::refused(says, format!("{}; or {out}", way_out(inner))));
            }
        }
        Ok(())
    }
}

/// What helps against a link in a data directory.
fn way_out(link: &[u8]) -> &'static str {
    let is_without_content = WITHOUT_CONTENT.iter().any(|folder| folder.as_bytes() == link);
    if link == b"pg_wal" || split(link).0 == b"pg_tblspc" || is_without_content {
        "start the server and run millstream copy --postgres URL DESTINATION --tablespace OLD=NEW"
    } else {
        "put the file or folder in the place of the link"
    }
}

/// The folder in which a path is this file.
fn folder_of<'a>(path: &'a [u8], file: &[u8]) -> Option<&'a [u8]> {
    let before = path.strip_suffix(file)?;
    if before.is_empty() { Some(before) } else { before.strip_suffix(b"/") }
}

/// A path that is in a folder, counted from there.
fn below<'a>(path: &'a [u8], folder: &[u8]) -> &'a [u8] {
    let rest = path.strip_prefix(folder).unwrap_or(path);
    rest.strip_prefix(b"/").unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, Facts};
    use crate::manifest::{Header, Writer};
    use crate::path::order;

    /// A list of files, and of links with what they hold.
    fn list(path: &Path, entries: &[(&str, Option<&str>)]) {
        let of_file = Facts::of(&rustix::fs::stat("/proc/self/exe").unwrap());
        let mut entries = entries.to_vec();
        entries.sort_by(|a, b| order(a.0.as_bytes(), b.0.as_bytes()));
        let mut writer = Writer::create(path, &Header::default()).unwrap();
        for (path, target) in entries {
            let mut facts = of_file.clone();
            if let Some(target) = target {
                facts.kind = EntryKind::Link { target: target.into() };
            }
            writer.push_entry(&Entry { path: path.into(), facts }).unwrap();
        }
        writer.finish().unwrap();
    }

    fn refused(entries: &[(&str, Option<&str>)], before: &str) -> Option<Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        list(&path, entries);
        let found = DataDirectories::of(&path).unwrap();
        found.refuse_links(&path, Path::new("/deb"), before.as_bytes()).err()
    }

    #[test]
    fn a_link_that_leads_out_of_a_data_directory_is_refused_wherever_the_directory_lies() {
        for data in ["", "15/main/"] {
            let at = |name: &str| format!("{data}{name}");
            let of_data = [at("PG_VERSION"), at("base/5/PG_VERSION"), at("global/pg_control")];
            let with = |link: &str, target: &str| {
                let mut all: Vec<_> = of_data.iter().map(|path| (&path[..], None)).collect();
                all.push((link, Some(target)));
                refused(&all, "").map(|error| error.to_string())
            };
            for (link, target) in [("pg_tblspc/1", "/space"), ("pg_wal", "../wal"), ("base/6", "../../six")] {
                let says = with(&at(link), target).unwrap();
                let root = if data.is_empty() { "/deb" } else { "/deb/15/main" };
                let begins =
                    format!("{root} is a data directory of PostgreSQL, and a server on the copy would use {target}");
                assert!(says.starts_with(&begins) && says.contains(&format!(": {link} is a link")), "{says}");
            }
            assert_eq!(with(&at("postgresql.conf"), "base/5/PG_VERSION"), None);
        }
        let elsewhere = [("15/main/PG_VERSION", None), ("15/main/global/pg_control", None), ("link", Some("/space"))];
        assert!(refused(&elsewhere, "").is_none());
        // One of the two files alone makes none.
        for file in ["15/PG_VERSION", "15/global/pg_control"] {
            assert!(refused(&[(file, None), ("15/link", Some("/space"))], "").is_none(), "{file}");
        }
    }

    #[test]
    fn the_way_out_is_one_that_is_not_refused() {
        let data = [("15/PG_VERSION", None), ("15/global/pg_control", None)];
        for (link, running) in [("pg_tblspc/1", true), ("pg_wal", true), ("pg_stat_tmp", true), ("log", false)] {
            let link = format!("15/{link}");
            let all = [data[0], data[1], (&link[..], Some("/elsewhere"))];
            let Some(Error::Refused(refusal)) = refused(&all, "deb") else { panic!("{link}") };
            let hint = refusal.hint.unwrap();
            assert_eq!(hint.contains("start the server"), running, "{hint}");
            assert!(hint.contains(&format!("/deb/{link}")), "{hint}");
        }
    }
}
