//! Links in the folders of a cluster that PostgreSQL has not made.

use crate::error::Error;
use crate::path::{join, shown, shown_path};
use crate::walk::{Filter, Rule};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Refuses a folder with a link in it: a server on the copy would write to the files of the original, and `pg_verifybackup`
/// takes links for files. `rules`: what is not copied, such as the links that PostgreSQL has made.
///
/// # Errors
/// There is such a link; a folder cannot be listed.
pub(super) fn refuse(root: &Path, rules: &[Rule]) -> Result<(), Error> {
    let filter = Filter::new(rules, b"");
    let mut folders = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(OsStr::from_bytes(&folder));
        let found = first(&path, &folder, &filter, &mut folders);
        if let Some((link, target)) = found.map_err(Error::file("list", &path))? {
            let says = format!("{} in {} is a link to {}", shown(&link), shown_path(root), shown(&target));
            let hint = "a server on the copy would write there, too: stop the server and put the file or folder in the place \
                        of the link; PostgreSQL itself links only tablespaces and pg_wal";
            return Err(Error::refused(says, hint));
        }
    }
    Ok(())
}

/// The first link in a folder, and what it holds. Folders in it are added to `folders`.
fn first(
    path: &Path,
    folder: &[u8],
    filter: &Filter,
    folders: &mut Vec<Vec<u8>>,
) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    // A database may be dropped at any time.
    let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    let entries = match fs::read_dir(path) {
        Err(error) if is_gone(&error) => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let inner = join(folder, entry.file_name().as_bytes());
        let kind = match entry.file_type() {
            Err(error) if is_gone(&error) => continue,
            kind => kind?,
        };
        if !filter.takes(&inner, kind.is_dir()) {
            continue;
        }
        if kind.is_dir() {
            folders.push(inner);
        } else if kind.is_symlink() {
            let target = match fs::read_link(entry.path()) {
                Err(error) if is_gone(&error) => continue,
                target => target?,
            };
            return Ok(Some((inner, target.as_os_str().as_bytes().to_vec())));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::omitted::excluded;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_is_refused_by_its_name_unless_a_rule_leaves_it_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("base/5")).unwrap();
        symlink("/elsewhere", path("pg_wal")).unwrap();
        let rules = [excluded("/pg_wal")];
        refuse(dir.path(), &rules).unwrap();
        symlink("/elsewhere/6", path("base/6")).unwrap();
        let refused = refuse(dir.path(), &rules).unwrap_err().to_string();
        assert!(refused.starts_with("base/6 in ") && refused.ends_with(" is a link to /elsewhere/6"), "{refused}");
        assert!(refuse(dir.path(), &[excluded("/base"), excluded("/pg_wal")]).is_ok());
        assert!(refuse(dir.path(), &[excluded("/base")]).is_err());
    }
}
