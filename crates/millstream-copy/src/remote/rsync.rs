//! Runs rsync, and tells what it did.

use super::address::joined;
use crate::error::Error;
use crate::limits::{
    ATTEMPT_PAUSE, ATTEMPTS_MAX, CONNECTING_MAX, FAILED_LINES_SHOWN_MAX, HASHED_BYTES_PER_SECOND_MIN, LOOK_EVERY,
    RSYNC_SILENCE_MAX, SSH_SILENCE_MAX, STARTING_MAX,
};
use crate::request::Request;
use crate::state::NAMES;
use crate::tally::Tally;
use crate::walk::Pattern;
use millstream_host::{Command, Ended, Stream};
use millstream_model::Refusal;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// The remote shell, unless the user has chosen one. Workers cannot be asked for passwords.
const SHELL: &str = "ssh -o BatchMode=yes -o ConnectTimeout=30";
/// What a script prints before anything else.
const BEGINS: &str = "millstream begins";
/// How rsync ends if a file could not be read or written.
const FILE_FAILED: &str = "exit status: 11";

/// Takes each record that a program writes.
type Each<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// rsync with the options that all its processes get.
#[derive(Debug)]
pub(crate) struct Rsync {
    /// The remote shell and its options, separated by spaces.
    shell: OsString,
    compress: bool,
    door: Door,
}

/// A line of what rsync says about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// What was done.
    pub(super) change: Change,
    /// Whether nothing is changed, neither bytes nor rights nor times nor names.
    pub(super) is_untouched: bool,
    /// Below the root of the tree.
    pub(super) path: Vec<u8>,
}

/// What rsync did to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Its bytes were sent, or it was made.
    Copied,
    /// It became a further name of a file.
    Linked,
    /// Its bytes were left as they are. Rights or times may have been changed.
    Kept,
    /// It was deleted.
    Deleted,
    /// It was left out: a device, which only root makes.
    LeftOut,
}

/// How a process of rsync has ended.
#[derive(Debug)]
pub(super) struct Ran {
    /// Whether everything was done. Else some entries failed, and `said` holds why.
    pub(super) is_whole: bool,
    /// What it wrote to stderr.
    pub(super) said: String,
}

impl Rsync {
    /// # Errors
    /// rsync is not on this machine.
    pub(crate) fn new(request: &Request) -> Result<Self, Error> {
        let missing = |error: millstream_host::Error| {
            Refusal::new(format!("files of another machine are moved by rsync: {error}")).hint("install rsync")
        };
        Command::new("rsync").arg("--version").run_blocking().map_err(missing)?;
        if request.shell.as_ref().is_some_and(|shell| words(shell).is_empty() && !shell.is_empty()) {
            return Err(Refusal::new("--ssh has no program, or an open quote").into());
        }
        let own = request.shell.clone().or_else(|| std::env::var_os("RSYNC_RSH"));
        Ok(Self {
            shell: watched(own.filter(|shell| !shell.is_empty()).unwrap_or_else(|| SHELL.into())),
            compress: request.compress,
            door: Door::default(),
        })
    }

    /// The remote shell as a command that runs a script on a host.
    pub(super) fn shell(&self, host: &OsStr, script: &OsStr) -> Command {
        let words = words(&self.shell);
        let none = OsString::from("ssh");
        let (program, options) = words.split_first().unwrap_or((&none, &[]));
        let mut command = Command::new(program);
        // The user's own shell may be none that POSIX knows.
        let quoted = super::address::quoted(script.as_bytes());
        command.args(options).arg(host).arg(joined([&"exec sh -c ", &quoted])).env("LC_ALL", "C");
        command
    }

    fn command(&self, args: &[OsString]) -> Command {
        let mut command = Command::new("rsync");
        // Without the locale, bytes that are not ASCII would be escaped.
        // With -s, the remote shell does not see paths, which it would read as patterns.
        command.args(["-8", "-s", "--out-format", "%i %n"]).arg(silence(0)).args(args);
        command.env("LC_ALL", "C").env("RSYNC_RSH", &self.shell);
        for other in ["RSYNC_OLD_ARGS", "RSYNC_PROTECT_ARGS", "RSYNC_PARTIAL_DIR", "RSYNC_ICONV"] {
            command.env_remove(other);
        }
        if self.compress {
            command.arg("-z");
        }
        command
    }

    /// Runs rsync until it gets through.
    ///
    /// # Errors
    /// It does not get through, or cannot write any more.
    pub(super) fn run(&self, args: &[OsString], tally: &Tally, each: &mut dyn FnMut(Line)) -> Result<Ran, Error> {
        self.run_with(args, Repeat::Always, tally, each)
    }

    /// Runs rsync. `repeat` says when it is started again.
    ///
    /// # Errors
    /// It does not get through, or breaks off.
    pub(super) fn run_with(
        &self,
        args: &[OsString],
        repeat: Repeat,
        tally: &Tally,
        each: &mut dyn FnMut(Line),
    ) -> Result<Ran, Error> {
        self.repeat(&|| self.command(args), repeat, b"", tally, &mut |record| {
            if let Some(line) = Line::parse(record) {
                each(line);
            }
            Ok(())
        })
    }

    /// Runs rsync, and gives each line that it writes to `each`.
    ///
    /// # Errors
    /// It does not get through, or breaks off.
    pub(super) fn lines(&self, args: &[OsString], tally: &Tally, each: Each<'_>) -> Result<Ran, Error> {
        let command = || {
            let mut command = self.command(args);
            // Times are printed in this zone.
            command.env("TZ", "UTC");
            command
        };
        self.repeat(&command, Repeat::UntilBegun, b"", tally, each)
    }

    /// Runs a script on a host that must succeed.
    ///
    /// # Errors
    /// It fails; the host cannot be reached, or the connection breaks off.
    pub(super) fn order(&self, host: &OsStr, script: &OsStr, tally: &Tally) -> Result<(), Error> {
        let ran = self.script(host, script, b"", tally, &mut |_| Ok(()))?;
        match ran.is_whole || tally.is_stopped() {
            true => Ok(()),
            false => Err(Error::There { said: ran.said.trim().to_owned(), hint: None }),
        }
    }

    /// Runs a script on a host that reads `input`, and gives what it writes to `each`, up to each zero byte.
    ///
    /// # Errors
    /// The host cannot be reached, or the connection breaks off.
    pub(super) fn script(
        &self,
        host: &OsStr,
        script: &OsStr,
        input: &[u8],
        tally: &Tally,
        each: Each<'_>,
    ) -> Result<Ran, Error> {
        // What programs there say is read.
        let begins = format!("printf '{BEGINS}\\0'; echo '{BEGINS}' >&2; export LC_ALL=C; ");
        let command = || self.shell(host, &joined([&begins, &script]));
        let ran = self.repeat(&command, Repeat::ShellUntilBegun, input, tally, each)?;
        let said = ran.said.split_once(BEGINS).map_or(&ran.said[..], |(_, said)| said).trim_start().to_owned();
        Ok(Ran { said, ..ran })
    }

    /// Runs a program until its connection holds. If the copy was stopped, nothing is whole.
    fn repeat(
        &self,
        command: &dyn Fn() -> Command,
        repeat: Repeat,
        input: &[u8],
        tally: &Tally,
        each: Each<'_>,
    ) -> Result<Ran, Error> {
        let (mut pause, separator) = (ATTEMPT_PAUSE, repeat.separator());
        for attempt in 1.. {
            let mut is_begun = false;
            // What a login prints comes before what the script does.
            let mut is_noise = repeat == Repeat::ShellUntilBegun;
            let started = self.door.enter(tally);
            let stream = command().stream().map_err(broken)?;
            let look = || {
                started.look();
                tally.is_stopped()
            };
            let ended = converse(stream, separator, input, look, |record| {
                started.is_through();
                if is_noise {
                    is_noise = !record.ends_with(BEGINS.as_bytes());
                    return Ok(());
                }
                is_begun = true;
                each(record)
            })?;
            drop(started);
            if tally.is_stopped() {
                break;
            }
            let code = ended.status.code();
            let is_through = match repeat {
                Repeat::ShellUntilBegun => !is_noise && code.is_some_and(|code| code != 255),
                // Some entries failed, or were gone, or too many were to be deleted.
                _ => matches!(code, Some(0 | 23..=25)),
            };
            if is_through {
                return Ok(Ran { is_whole: ended.status.success(), said: ended.stderr });
            }
            let can_repeat = attempt < ATTEMPTS_MAX && (repeat == Repeat::Always || !is_begun);
            if !can_repeat || !is_worth_another_try(code, &ended.stderr) {
                return Err(failure(&ended.stderr, &ended.status.to_string()));
            }
            wait(pause, tally);
            pause *= 2;
        }
        Ok(Ran { is_whole: false, said: String::new() })
    }
}

/// When a program is started again because its connection was refused or lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Always: it goes on where it was.
    Always,
    /// As long as it has said nothing.
    UntilBegun,
    /// The same for a remote shell, whose exit code is that of the script.
    ShellUntilBegun,
}

impl Repeat {
    /// What stands behind each record of such a program.
    fn separator(self) -> u8 {
        if self == Self::ShellUntilBegun { 0 } else { b'\n' }
    }
}

/// Feeds a program and reads its records until it ends.
fn converse(
    mut stream: Stream,
    separator: u8,
    input: &[u8],
    is_stopped: impl Fn() -> bool,
    each: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<Ended, Error> {
    let pipe = stream.input();
    let (sent, ended) = std::thread::scope(|scope| {
        let sent = scope.spawn(move || pipe.map_or(Ok(()), |mut pipe| pipe.write_all(input)));
        let read = stream.records(separator, is_stopped, each);
        // Nobody reads it any more, so it ends, and so does what feeds it.
        let ended = stream.finish();
        (sent.join(), read.map(|()| ended))
    });
    let ended = ended.map_err(|source| Error::There { said: source.to_string(), hint: None })?.map_err(broken)?;
    match sent.map_err(|_| Error::Bug)? {
        // It ended before it had read everything: its exit code says why.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ended),
        Err(source) => Err(Error::There { said: format!("its list of names: {source}"), hint: None }),
        Ok(()) => Ok(ended),
    }
}

/// Names that rsync reads. They lie in a file: a name that rsync 3.5 reads from a pipe in two parts counts as two names, and
/// what comes from the other machine is refused.
#[derive(Debug)]
pub(super) struct NameList(NamedTempFile);

impl NameList {
    /// Makes a list in a folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn new<P: AsRef<[u8]>>(
        folder: &Path,
        paths: impl IntoIterator<Item = Result<P, Error>>,
    ) -> Result<Self, Error> {
        // A name that begins with `#` or `;` would be a comment.
        Self::write(folder, b"./", paths)
    }

    /// Makes a list of what is not deleted.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn of_protected(folder: &Path, paths: &[Vec<u8>]) -> Result<Self, Error> {
        Self::write(folder, b"P /", paths.iter().map(|path| Ok(Pattern::literal(path))))
    }

    fn write<P: AsRef<[u8]>>(
        folder: &Path,
        before: &[u8],
        paths: impl IntoIterator<Item = Result<P, Error>>,
    ) -> Result<Self, Error> {
        let failed = Error::file("write to", folder);
        let mut file = BufWriter::new(tempfile::Builder::new().prefix(NAMES).tempfile_in(folder).map_err(&failed)?);
        for path in paths {
            let path = path?;
            [before, path.as_ref(), &[0]].iter().try_for_each(|part| file.write_all(part)).map_err(&failed)?;
        }
        Ok(Self(file.into_inner().map_err(io::IntoInnerError::into_error).map_err(&failed)?))
    }

    /// The options that let rsync read it.
    pub(super) fn options(&self) -> [OsString; 2] {
        ["--from0".into(), joined([&"--files-from=", &self.0.path()])]
    }

    /// The options that let rsync read it as a list of what is not deleted.
    pub(super) fn protection(&self) -> [OsString; 2] {
        ["--from0".into(), joined([&"--filter=merge ", &self.0.path()])]
    }
}

impl Line {
    /// Reads what `%i %n` prints, and what rsync says of a device that it leaves out. `None` for whatever else rsync says.
    fn parse(record: &[u8]) -> Option<Self> {
        let left_out = record.strip_prefix(b"skipping non-regular file \"").and_then(|rest| rest.strip_suffix(b"\""));
        if let Some(name) = left_out {
            return Some(Self { change: Change::LeftOut, is_untouched: false, path: unescaped(name) });
        }
        let (flags, name) = record.split_at_checked(12)?;
        let change = match (flags[0], flags[1]) {
            (b'*', _) if flags.starts_with(b"*deleting ") => Change::Deleted,
            (b'<' | b'>' | b'c', b'f' | b'd' | b'L' | b'D' | b'S') => Change::Copied,
            (b'h', b'f' | b'L' | b'D' | b'S') => Change::Linked,
            (b'.', b'f' | b'd' | b'L' | b'D' | b'S') => Change::Kept,
            _ => return None,
        };
        let path = unescaped(name);
        let path = path.strip_suffix(b"/").unwrap_or(&path);
        // A further name that is there already is called a link, too.
        let is_untouched = b".h".contains(&flags[0]) && flags[2..].iter().all(|flag| b" .".contains(flag));
        Some(Self { change, is_untouched, path: if path == b"." { Vec::new() } else { path.to_vec() } })
    }
}

/// Replaces `\#` and three octal digits by their byte.
pub(super) fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        if let [b'\\', b'#', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] = rest {
            bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
            rest = &rest[5..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}

/// How long rsync may say nothing, as its option: before that, it may have to hash so many bytes.
pub(super) fn silence(hashed_bytes: u64) -> OsString {
    let seconds = RSYNC_SILENCE_MAX.as_secs() + hashed_bytes / HASHED_BYTES_PER_SECOND_MIN;
    format!("--timeout={seconds}").into()
}

/// A remote shell that notices that its connection is lost. Of two options of ssh, the first one counts: the user's own.
fn watched(mut shell: OsString) -> OsString {
    if words(&shell).first().is_some_and(|program| Path::new(program).file_name() == Some(OsStr::new("ssh"))) {
        shell.push(format!(" -o ServerAliveInterval={}", SSH_SILENCE_MAX.as_secs()));
    }
    shell
}

/// The words of a remote shell.
fn words(shell: &OsStr) -> Vec<OsString> {
    shlex::bytes::Shlex::new(shell.as_bytes()).map(OsString::from_vec).collect()
}

/// Whether the connection was refused or lost, rather than the work.
fn is_worth_another_try(code: Option<i32>, said: &str) -> bool {
    const FINAL: [&str; 8] = [
        "Host key verification failed",
        "Could not resolve hostname",
        "Connection refused",
        "No route to host",
        "ommand not found",
        "rsync: not found",
        "auth failed",
        "Unknown module",
    ];
    // Those of ssh, of a broken stream, of a socket, of a greeting, and of timeouts. Without a code it was killed.
    matches!(code, None | Some(255 | 12 | 10 | 5 | 30 | 35))
        && !is_refused(said)
        && !FINAL.iter().any(|text| said.contains(text))
}

pub(super) fn failure(said: &str, status: &str) -> Error {
    let hints = [
        ("Host key verification failed", "connect once by hand, and compare the key of the host"),
        ("ommand not found", "install rsync there"),
        ("rsync: not found", "install rsync there"),
        ("max connections", "use fewer workers: --workers"),
        ("] mkdir ", "make the folder there first"),
        ("there is no folder for the destination", "make the folder there first"),
    ];
    let known = hints.iter().find(|(text, _)| said.contains(text)).map(|(_, hint)| *hint);
    let login = "let the shell log in without a password; docs/guides/copy.md says how";
    let hint = is_refused(said).then_some(login).or(known);
    let lines: Vec<_> = said.lines().filter(|line| !line.starts_with("rsync error:")).collect();
    let first = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    let said = first.take(FAILED_LINES_SHOWN_MAX).collect::<Vec<_>>().join("; ");
    let is_full = ["No space left on device", "Disk quota exceeded", "Read-only file system"];
    let is_full = is_full.iter().any(|text| said.contains(text)) || said.is_empty() && status == FILE_FAILED;
    let hint = if is_full { Some("make room there and run the same command again: it resumes") } else { hint };
    // Its last words are lost when it ends before they are sent.
    let said = match said.is_empty() {
        true if status == FILE_FAILED => {
            "rsync could not read or write a file, perhaps because the disk is full".to_owned()
        }
        true => format!("it ended without a word ({status})"),
        false => said,
    };
    Error::There { said, hint: hint.map(str::to_owned) }
}

/// Whether ssh does not let us in. It lists the ways that it would take; a system's error has a number there.
fn is_refused(said: &str) -> bool {
    let ways = said.match_indices("Permission denied (").map(|(at, text)| &said[at + text.len()..]);
    ways.into_iter().any(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()))
}

fn broken(error: millstream_host::Error) -> Error {
    Refusal::from(error).into()
}

fn wait(pause: Duration, tally: &Tally) {
    let begun = Instant::now();
    while begun.elapsed() < pause && !tally.is_stopped() {
        std::thread::sleep(LOOK_EVERY.min(pause));
    }
}

/// Lets few connections be made at once: ssh refuses some of those above `MaxStartups`.
#[derive(Debug, Default)]
struct Door {
    starting: Mutex<usize>,
    changed: Condvar,
}

/// A place at the door, until the connection is made.
struct Starting<'a> {
    door: &'a Door,
    begun: Instant,
    is_through: std::cell::Cell<bool>,
}

impl Door {
    fn enter(&self, tally: &Tally) -> Starting<'_> {
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        while *starting >= STARTING_MAX && !tally.is_stopped() {
            starting = self.changed.wait_timeout(starting, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
        *starting += 1;
        Starting { door: self, begun: Instant::now(), is_through: false.into() }
    }
}

impl Starting<'_> {
    fn is_through(&self) {
        if !self.is_through.replace(true) {
            *self.door.starting.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            self.door.changed.notify_one();
        }
    }

    /// A process that has nothing to say is through after a while.
    fn look(&self) {
        if self.begun.elapsed() > CONNECTING_MAX {
            self.is_through();
        }
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.is_through();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_rsync_prints_them() {
        type Case<'a> = (&'a [u8], Option<(Change, &'a [u8])>);
        let cases: [Case<'_>; 10] = [
            (b"<f+++++++++ new\\#012l\xff", Some((Change::Copied, b"new\nl\xff"))),
            (b">f..t...... \\#134#012", Some((Change::Copied, b"\\#012"))),
            (b"cd+++++++++ a/b/", Some((Change::Copied, b"a/b"))),
            (b".d..t...... ./", Some((Change::Kept, b""))),
            (b"hf+++++++++ a b", Some((Change::Linked, b"a b"))),
            (b".f...p..... c\\#1", Some((Change::Kept, b"c\\#1"))),
            (b"*deleting   old", Some((Change::Deleted, b"old"))),
            (b"skipping non-regular file \"a/\"b\"", Some((Change::LeftOut, b"a/\"b"))),
            (b"Welcome to the daemon of", None),
            (b"", None),
        ];
        for (record, expected) in cases {
            let expected = expected.map(|(change, path)| (change, path.to_vec()));
            let read = Line::parse(record).map(|line| (line.change, line.path));
            assert_eq!(read, expected, "{}", String::from_utf8_lossy(record));
        }
    }

    #[test]
    fn what_would_be_changed_is_told_from_what_would_not() {
        let is_untouched = |record: &[u8]| Line::parse(record).unwrap().is_untouched;
        assert!(is_untouched(b".d          a/") && is_untouched(b".f......... a") && is_untouched(b"hf          a"));
        assert!(!is_untouched(b".d..t...... a/") && !is_untouched(b"cd+++++++++ a/"));
        assert!(!is_untouched(b".f...p..... a") && !is_untouched(b"hf+++++++++ a"));
    }

    #[test]
    fn connections_that_are_lost_are_noticed() {
        assert_eq!(watched("/usr/bin/ssh -p 2".into()), "/usr/bin/ssh -p 2 -o ServerAliveInterval=20");
        assert_eq!(watched("rsh".into()), "rsh");
        assert_eq!((silence(0), silence(1 << 40)), ("--timeout=600".into(), "--timeout=105457".into()));
    }

    #[test]
    fn failures_are_understood() {
        let closed = "kex_exchange_identification: Connection closed by remote host";
        assert!(is_worth_another_try(Some(255), closed) && is_worth_another_try(None, ""));
        assert!(!is_worth_another_try(Some(255), "me@host: Permission denied (publickey)."));
        assert!(!is_worth_another_try(Some(11), closed));
        let failed =
            failure("rsync: [receiver] write failed on \"/a\": No space left on device (28)\nrsync error: x\n", "");
        let Error::There { said, hint } = failed else { panic!("{failed}") };
        assert!(!said.contains("rsync error") && hint.unwrap().contains("make room"));
    }
}
