//! What of a data directory is not copied, as rules: the list of the manual ("Backing Up the Data Directory"), and what
//! `pg_basebackup` leaves out besides.

use crate::data_directory::WITHOUT_CONTENT;
use crate::error::Error;
use crate::walk::{Pattern, Rule};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files that belong to the running server, or that a copy has of its own.
const FILES: [&str; 12] = [
    "/pg_wal",
    "/postmaster.pid",
    "/postmaster.opts",
    "/.s.PGSQL.*",
    "/backup_label",
    "/tablespace_map",
    "/backup_manifest",
    "/.millstream-copy.owner",
    "/postgresql.auto.conf.tmp",
    "/current_logfiles.tmp",
    "pg_internal.init*",
    "pgsql_tmp*",
];

/// The file that is copied last.
pub(super) const CONTROL: &str = "/global/pg_control";

/// Rules for a data directory.
///
/// # Errors
/// It cannot be listed.
pub(super) fn of_data(data: &Path) -> Result<Vec<Rule>, Error> {
    let mut rules: Vec<Rule> = FILES.into_iter().chain([CONTROL]).map(excluded).collect();
    rules.extend(WITHOUT_CONTENT.map(|folder| excluded(&format!("/{folder}/*"))));
    rules.extend(linked(data).map(|folder| excluded(&format!("/{folder}"))));
    of_relations(&data.join("base"), "/base", &mut rules)?;
    Ok(rules)
}

/// Those of the folders without content that are links, such as one to a file system in memory.
pub(super) fn linked(data: &Path) -> impl Iterator<Item = &'static str> {
    WITHOUT_CONTENT.into_iter().filter(move |folder| data.join(folder).is_symlink())
}

/// Rules for a tablespace, of which only the folder of this version is copied.
///
/// # Errors
/// It cannot be listed.
pub(super) fn of_tablespace(location: &Path, version: &str) -> Result<Vec<Rule>, Error> {
    let mut rules = vec![excluded("pg_internal.init*"), excluded("pgsql_tmp*")];
    of_relations(&location.join(version), &format!("/{version}"), &mut rules)?;
    rules.push(included(&format!("/{version}")));
    rules.push(excluded("/*"));
    Ok(rules)
}

pub(super) fn included(pattern: &str) -> Rule {
    Rule { pattern: Pattern::parse(pattern.as_bytes()), includes: true }
}

pub(super) fn excluded(pattern: &str) -> Rule {
    Rule { pattern: Pattern::parse(pattern.as_bytes()), includes: false }
}

/// Leaves out a path itself, whatever bytes it has.
pub(super) fn excluded_path(path: &Path) -> Rule {
    let pattern = [b"/", &Pattern::literal(path.as_os_str().as_bytes())[..]].concat();
    Rule { pattern: Pattern::parse(&pattern), includes: false }
}

/// Rules for temporary relations, and for unlogged ones, of which only the empty first form is copied.
fn of_relations(folder: &Path, before: &str, rules: &mut Vec<Rule>) -> Result<(), Error> {
    rules.push(excluded(&format!("{before}/*/t[0-9]*_[0-9]*")));
    for database in entries(folder)? {
        let (path, name) = (folder.join(&database), format!("{before}/{database}"));
        if !path.is_dir() {
            continue;
        }
        for relation in entries(&path)?.iter().filter_map(|name| name.strip_suffix("_init")) {
            let forks = ["", ".[0-9]*", "_fsm*", "_vm*"];
            rules.extend(forks.map(|fork| excluded(&format!("{name}/{relation}{fork}"))));
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<BTreeSet<String>, Error> {
    let failed = Error::file("list", folder);
    let listed = match fs::read_dir(folder) {
        // A database may be dropped at any time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        listed => listed.map_err(&failed)?,
    };
    listed.map(|entry| Ok(entry.map_err(&failed)?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::Filter;

    #[test]
    fn what_is_unlogged_temporary_or_of_the_running_server_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("base/5");
        fs::create_dir_all(&database).unwrap();
        for name in ["100", "100_init", "101", "t3_102"] {
            fs::write(database.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("/tmp", dir.path().join("pg_notify")).unwrap();
        assert_eq!(linked(dir.path()).collect::<Vec<_>>(), ["pg_notify"]);
        let filter = Filter::new(&of_data(dir.path()).unwrap(), b"");
        let left_out = |path: &str| !filter.takes(path.as_bytes(), false);
        for path in ["base/5/100", "base/5/100.1", "base/5/100_vm", "base/5/100_fsm.1", "base/5/t3_102"] {
            assert!(left_out(path), "{path}");
        }
        for path in [
            "postmaster.pid",
            ".s.PGSQL.5432",
            ".s.PGSQL.5432.lock",
            "base/5/pg_internal.init",
            "global/pg_control",
            "pg_stat_tmp/x",
            "base/pgsql_tmp",
            "pg_notify",
        ] {
            assert!(left_out(path), "{path}");
        }
        for path in ["base/5/100_init", "base/5/101", "base/5/1001", "PG_VERSION", "pg_xact/0000", "pg_tblspc/1"] {
            assert!(!left_out(path), "{path}");
        }
        assert!(filter.takes(b"pg_stat_tmp", true) && !filter.takes(b"pg_wal", true));
    }
}
