//! Whether a server runs in a data directory, and cleanup after a dead one.

use crate::error::Error;
use crate::home::Home;
use crate::limits::{DATA_FILE_BYTES_MAX, ORPHAN_SECONDS_MAX, POLL};
use crate::options::Progress;
use millstream_host::{Account, Ended, is_living_in, living_in, read_plain, signal, wait_until};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// Name of the server's processes.
const PROGRAM: &str = "postgres";

/// A pid that no process can have: Linux stops at 2^22.
const NOBODY: &str = "2147483647";

/// The contents of `postmaster.pid` (`miscadmin.h` lists its lines).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PidFile {
    pub(crate) pid: u32,
    pub(crate) port: u16,
    /// Directory of the unix socket, if there is one.
    pub(crate) socket_dir: Option<String>,
    pub(crate) phase: Phase,
}

impl PidFile {
    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }
}

/// State of a living server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It is starting, or recovering from a crash.
    Starting,
    /// It accepts connections.
    Ready,
    /// It is stopping.
    Stopping,
}

/// The living processes of the server with that data directory: the postmaster and its children, even if the postmaster
/// is dead.
pub fn processes(account: &Account, data: &Path) -> Vec<u32> {
    // By the name too, because a user's shell may be in this directory.
    living_in(account, data, PROGRAM)
}

/// The server in the data directory, if one is alive.
pub(crate) fn alive(account: &Account, data: &Path) -> Result<Option<PidFile>, Error> {
    let Some(file) = read(data)? else {
        return Ok(None);
    };
    let living = processes(account, data).contains(&file.pid);
    Ok(living.then_some(file))
}

/// As `alive`, but without starting another process. `None` proves nothing: we may lack the rights to see the server.
pub(crate) fn seen_alive(data: &Path) -> Option<PidFile> {
    read(data).ok()?.filter(|file| is_living_in(file.pid, data, PROGRAM))
}

fn read(data: &Path) -> Result<Option<PidFile>, Error> {
    let path = data.join("postmaster.pid");
    match read_plain(&path, DATA_FILE_BYTES_MAX) {
        Ok(text) => Ok(text.as_deref().and_then(parse)),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

fn parse(text: &str) -> Option<PidFile> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    // A server that is just starting has not written all lines yet.
    let line = |number: usize| lines.get(number - 1).copied().unwrap_or("");
    let socket_dir = Some(line(5)).filter(|dir| !dir.is_empty());
    Some(PidFile {
        pid: line(1).parse().ok()?,
        port: line(4).parse().unwrap_or(0),
        socket_dir: socket_dir.map(str::to_owned),
        phase: match line(8) {
            "ready" | "standby" => Phase::Ready,
            "stopping" => Phase::Stopping,
            _ => Phase::Starting,
        },
    })
}

/// Prepares a data directory without a living postmaster for the next start. Processes that outlived their postmaster
/// get time to end, then a signal. The dead postmaster's pid file stays, because the next server learns from it which
/// shared memory must be free. The pid in it is replaced by one that nobody has: the old one may belong to another
/// process by now, or to a dead process that nobody has waited for.
pub(crate) async fn tidy_up(account: &Account, home: &Home, progress: Progress<'_>) -> Result<(), Error> {
    let data = home.data();
    for name in ["", "QUIT", "KILL"] {
        let orphans = processes(account, &data);
        if orphans.is_empty() {
            break;
        }
        progress(&format!("waiting for {} processes of a crashed server", orphans.len()));
        if !name.is_empty() {
            signal(account, name, &orphans);
        }
        wait_for_end(account, &data, Duration::from_secs(ORPHAN_SECONDS_MAX)).await;
    }
    let orphans = processes(account, &data);
    if !orphans.is_empty() {
        return Err(Error::Orphans { data, pids: orphans });
    }
    disown(account, &data)?;
    remove_sockets(home);
    Ok(())
}

/// Waits until no process of the server is left. Returns whether that happened in time.
pub(crate) async fn wait_for_end(account: &Account, data: &Path, longest: Duration) -> bool {
    wait_until(longest, POLL, || processes(account, data).is_empty().then_some(())).await.is_some()
}

fn disown(account: &Account, data: &Path) -> Result<(), Error> {
    let path = data.join("postmaster.pid");
    // The account gets to read what we write: it must not be the text of a file that it put a link to.
    let Ok(Some(text)) = read_plain(&path, DATA_FILE_BYTES_MAX) else {
        return Ok(());
    };
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    write_as(account, &path, &format!("{NOBODY}\n{rest}"))
}

/// Removes the sockets and their lock files, which also name the dead postmaster.
fn remove_sockets(home: &Home) {
    for entry in fs::read_dir(home.socket_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".s.PGSQL.") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a private file as the account. In a directory of its own the account could have put a link in the file's
/// place, which root must not follow.
///
/// # Errors
/// Errors of the disk; the account may not write there.
pub fn write_as(account: &Account, path: &Path, text: &str) -> Result<(), Error> {
    let mut command = account.command("/bin/sh");
    // The old text stays until the new one is there.
    command.args(["-c", "umask 077 && cat >\"$1.new\" && exec mv -f \"$1.new\" \"$1\"", "sh"]).arg(path);
    // As input, because everybody can see arguments.
    let Err(error) = command.input(text).run_blocking().and_then(Ended::succeeded) else { return Ok(()) };
    let text = error.to_string();
    let kind = if text.contains("No space left") { ErrorKind::StorageFull } else { ErrorKind::Other };
    Err(Error::io("write", path)(std::io::Error::new(kind, text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::server_account;

    #[test]
    fn a_pid_file_is_read_in_every_phase() {
        let text = "4711\n/data\n1795232196\n54850\n/run\n127.0.0.1\n  9977987        17\nready   \n";
        let file = parse(text).unwrap();
        let expected = PidFile { pid: 4711, port: 54_850, socket_dir: Some("/run".to_owned()), phase: Phase::Ready };
        assert_eq!(file, expected);
        assert_eq!(parse(&text.replace("ready   ", "stopping")).unwrap().phase, Phase::Stopping);
        assert_eq!(parse(&text.replace("ready   ", "starting")).unwrap().phase, Phase::Starting);
        assert_eq!(parse("4711\n/data\n").unwrap().phase, Phase::Starting);
        assert_eq!(parse(&text.replace("/run", "")).unwrap().socket_dir, None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("not a number\n"), None);
    }

    #[test]
    fn a_disowned_pid_file_keeps_all_but_the_pid() {
        let account = server_account().unwrap();
        let dir = tempfile::tempdir().unwrap();
        account.own(dir.path()).unwrap();
        let path = dir.path().join("postmaster.pid");
        fs::write(&path, "1\n/data\n1795232196\n").unwrap();
        account.own(&path).unwrap();
        disown(&account, dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2147483647\n/data\n1795232196\n");
    }

    #[test]
    fn a_link_in_the_place_of_the_pid_file_is_neither_believed_nor_copied() {
        let account = server_account().unwrap();
        let (dir, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        account.own(dir.path()).unwrap();
        let (path, secret) = (dir.path().join("postmaster.pid"), ours.path().join("secret"));
        fs::write(&secret, "4711\nsecret\n").unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert!(alive(&account, dir.path()).unwrap_err().to_string().ends_with("it is a link"));
        assert_eq!(seen_alive(dir.path()), None);
        disown(&account, dir.path()).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), secret, "it is as it was");
    }
}
