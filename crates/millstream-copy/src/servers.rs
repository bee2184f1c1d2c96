//! Servers of PostgreSQL that run on a machine, and the folders that they use: no copy may write there.

use crate::place::without_links;
use millstream_host::read_note;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A folder that a running server uses. Its paths have no links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InUse {
    /// The data directory of the server.
    pub(crate) data: PathBuf,
    /// The folder: the data directory, or one to which a link in it leads.
    pub(crate) folder: PathBuf,
}

impl InUse {
    /// What it has in common with a destination: its path below it, which is empty if the destination is it or lies in it.
    pub(crate) fn below(&self, destination: &Path) -> Option<&Path> {
        match self.folder.strip_prefix(destination) {
            Ok(below) => Some(below),
            Err(_) => destination.starts_with(&self.folder).then_some(Path::new("")),
        }
    }
}

/// The folders of a machine's servers that a destination is, holds or lies in. Servers of accounts that we may not look at are
/// left out: we may not write to their folders either.
pub(crate) fn around(destination: &Path) -> Vec<InUse> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let data = processes.filter_map(|process| {
        let process = process.ok()?;
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let data = fs::read_link(process.path().join("cwd")).ok()?;
        let account = process.metadata().ok()?.uid();
        // One that lies in a data directory without a server may have been copied there.
        (server_of(&data)? == pid).then_some((data, account))
    });
    let used = data.flat_map(|(data, account)| {
        folders(&data, account).into_iter().map(move |folder| InUse { data: data.clone(), folder })
    });
    used.filter(|used| used.below(destination).is_some()).collect()
}

/// The process that is noted in a data directory.
fn server_of(data: &Path) -> Option<u32> {
    let text = read_note(&data.join("postmaster.pid")).ok()??;
    text.lines().next()?.trim().parse().ok()
}

/// A data directory, and what its links lead to of the account that the server runs as. With a link to a folder of others,
/// every account could keep copies away from it.
fn folders(data: &Path, account: u32) -> Vec<PathBuf> {
    let inner = |name: &str| fs::read_dir(data.join(name)).into_iter().flatten().filter_map(Result::ok);
    let own = ["pg_wal", "base", "global"].map(|name| data.join(name));
    let all = own.into_iter().chain(["pg_tblspc", "base"].into_iter().flat_map(inner).map(|entry| entry.path()));
    let is_own = |path: &PathBuf| fs::metadata(path).is_ok_and(|folder| folder.is_dir() && folder.uid() == account);
    let linked = all.filter(|path| path.is_symlink() && is_own(path)).filter_map(|path| without_links(&path).ok());
    std::iter::once(data.to_owned()).chain(linked).collect()
}

/// The same for a shell of another machine, which first says where it is. It is one line, because not every login shell takes
/// several. A pipe of somebody else in place of the note would keep it waiting.
pub(crate) const SCRIPT: &str = "printf '%s %s\\0' \"$is\" \"$(pwd -P)\"; for of in /proc/[0-9]*; do \
    cd -P \"$of/cwd\" 2>/dev/null && [ -f postmaster.pid ] && [ -r postmaster.pid ] && read -r pid < postmaster.pid \
    && [ \"/proc/$pid\" = \"$of\" ] || continue; printf 'server %s\\0' \"$(pwd -P)\"; \
    own=$(stat -L -c %u \"$of\"); for link in pg_wal base global pg_tblspc/* base/*; do \
    [ -L \"$link\" ] && [ -d \"$link\" ] && [ \"$(stat -L -c %u \"$link\")\" = \"$own\" ] && \
    printf 'uses %s\\0' \"$(cd -P \"$link\" && pwd -P)\"; done; done; exit 0";

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

    #[test]
    fn a_server_uses_its_data_directory_and_what_its_links_lead_to_while_its_process_works_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [data, space, wal, other] = ["data", "space", "wal", "other"].map(|name| root.join(name));
        for folder in [&data, &space, &wal, &other, &data.join("pg_tblspc"), &data.join("log")] {
            fs::create_dir(folder).unwrap();
        }
        symlink(&space, data.join("pg_tblspc/1")).unwrap();
        symlink(&wal, data.join("pg_wal")).unwrap();
        let note = |pid: u32| fs::write(data.join("postmaster.pid"), format!("{pid}\n/data\n")).unwrap();
        note(std::process::id());
        assert!(around(&root).is_empty(), "this process works elsewhere");
        let mut child = Command::new("cat").current_dir(&data).stdin(Stdio::piped()).spawn().unwrap();
        assert!(around(&root).is_empty(), "the note is of another process");
        note(child.id());
        let below = |destination: &Path| {
            let used = around(destination);
            assert!(used.iter().all(|used| used.data == data));
            let mut below: Vec<_> =
                used.iter().filter_map(|used| used.below(destination)?.to_str().map(str::to_owned)).collect();
            below.sort();
            below
        };
        let found = [&root, &data, &space, &data.join("log"), &wal.join("x"), &other].map(|path| below(path));
        assert_eq!(folders(&data, u32::MAX), std::slice::from_ref(&data), "what it links is not its own");
        let script = Command::new("timeout").args(["30", "sh", "-c", SCRIPT]).output().unwrap();
        let said = String::from_utf8(script.stdout).unwrap();
        for word in [format!("server {}\0", data.display()), format!("uses {}\0", space.display())] {
            assert!(said.contains(&word), "{said}");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(found[0], ["data", "space", "wal"]);
        assert!(found[1..5].iter().all(|below| *below == [""]), "{found:?}");
        assert!(found[5].is_empty() && around(&root).is_empty());
    }

    #[test]
    fn a_pipe_in_place_of_the_note_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert!(Command::new("mkfifo").arg(root.join("postmaster.pid")).status().unwrap().success());
        let mut child = Command::new("cat").current_dir(&root).stdin(Stdio::piped()).spawn().unwrap();
        assert!(around(&root).is_empty());
        let script = Command::new("timeout").args(["30", "sh", "-c", SCRIPT]).output().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(script.status.success(), "{script:?}");
        assert!(!String::from_utf8_lossy(&script.stdout).contains(root.to_str().unwrap()));
    }
}
