//! Lists a tree on another machine: by GNU find there, or by rsync where only a daemon answers.

use super::address::{Address, By, joined, quoted_path};
use super::rsync::{Ran, Rsync, unescaped};
use crate::entry::{Entry, EntryKind, Facts, Inode, Time};
use crate::error::Error;
use crate::limits::ASKED_NAME_BYTES_MAX;
use crate::manifest::{Header, Sorter, Writer, encode};
use crate::path::shown_path;
use crate::tally::{Failures, Tally};
use crate::walk::{Listed, Scope};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use millstream_model::Refusal;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// What find prints of an entry, each followed by a zero byte.
const FIELDS: &str = r"%y\0%m\0%U\0%G\0%s\0%T@\0%D\0%i\0%n\0%l\0%P\0";
const FIELDS_COUNT: usize = 11;

/// Why a folder was not listed. Automounters answer so, too, if they cannot mount it.
const GONE: &str = "it was gone when its turn came: it was removed or renamed, or its file system cannot be mounted";

/// How a tree on another machine is listed.
pub(crate) struct Listing<'a> {
    pub(crate) rsync: &'a Rsync,
    /// The folder that is listed.
    pub(crate) root: &'a Address,
    pub(crate) scope: Scope<'a>,
    pub(crate) tally: &'a Tally,
    pub(crate) failures: &'a Failures,
    /// What is listed is to be fetched, so each name must be one that rsync can ask for.
    pub(crate) is_source: bool,
}

/// The entries found so far.
struct Found {
    sorter: Sorter,
    listed: Listed,
    /// First names of files with several, as far as others name them, and the number that they are given.
    firsts: HashMap<Vec<u8>, Inode>,
    /// A name is too long to be asked for.
    has_long: bool,
}

impl Listing<'_> {
    /// Lists the tree into a manifest. What cannot be listed is a failure.
    ///
    /// # Errors
    /// There is nothing; the rules exclude the root; the other machine cannot be reached, or has no GNU find; the manifest
    /// cannot be written.
    pub(crate) fn list(&self, header: &Header, manifest: &Path, folder: &Path) -> Result<Listed, Error> {
        if self.scope.only.is_none() {
            self.scope.filter.refuse_root(self.root.text())?;
        }
        let (listed, nothing) = self.list_what_is_there(header, manifest, folder)?;
        match nothing {
            None => Ok(listed),
            Some(why) => Err(Refusal::new(format!("{} cannot be listed: {why}", shown_path(self.root.text()))).into()),
        }
    }

    /// The same, with why there is nothing.
    ///
    /// # Errors
    /// The other machine cannot be reached, or has no GNU find; the manifest cannot be written.
    pub(super) fn list_what_is_there(
        &self,
        header: &Header,
        manifest: &Path,
        folder: &Path,
    ) -> Result<(Listed, Option<String>), Error> {
        let (sorter, listed, firsts) = (Sorter::new(folder), Listed::new(&self.scope), HashMap::new());
        let mut found = Found { sorter, listed, firsts, has_long: false };
        let ran = match &self.root.by {
            By::Shell(host) => self.by_find(host, &mut found)?,
            By::Daemon => self.by_rsync(&mut found)?,
        };
        let Found { sorter, mut listed, firsts, has_long } = found;
        let nothing = (listed.entries == 0 && !self.tally.is_stopped()).then(|| why_nothing(&ran.said));
        let (is_whole, gone) = self.account(&ran);
        listed.is_whole = is_whole && !has_long && !self.tally.is_stopped();
        let written = Writer::write_list(manifest, header, sorter, |path| {
            if gone.contains(path) {
                listed.is_whole = false;
                self.failed(path, GONE);
            }
            let inode = *firsts.get(path)?;
            Some(move |facts: &mut Facts| facts.shared = Some(inode))
        });
        written.map_err(Error::file("write", manifest))?;
        Ok((listed, nothing))
    }

    /// Names what could not be listed. Returns whether nothing else is missing, and what was gone when its turn came.
    ///
    /// What rules exclude cannot fail.
    fn account(&self, ran: &Ran) -> (bool, BTreeSet<Vec<u8>>) {
        let (mut is_whole, mut is_explained, mut gone) = (true, false, BTreeSet::new());
        let Scope { filter, only, .. } = &self.scope;
        let takes = |path: &[u8], is_folder| only.is_some() || filter.takes_with_folders(path, is_folder);
        for said in ran.said.lines().filter_map(|line| Said::of(line.trim(), self.root)) {
            is_explained = true;
            match said {
                Said::Gone(path) => drop(gone.insert(path)),
                Said::DeadLink(path) if takes(&path, false) => {
                    is_whole = false;
                    self.failed(&path, "the link leads nowhere");
                }
                Said::Failed(path, why) if takes(&path, true) => {
                    is_whole = false;
                    self.failed(&path, why);
                }
                Said::DeadLink(_) | Said::Failed(..) => {}
            }
        }
        // Only so much of what it says is kept.
        let is_cut = !ran.said.is_empty() && !ran.said.ends_with('\n');
        if !ran.is_whole && (!is_explained || is_cut) && !self.tally.is_stopped() {
            is_whole = false;
            let last = ran.said.lines().last().unwrap_or("the list ended with an error, without a word");
            self.failed(b"", format!("it cannot be listed whole: {}", last.trim()));
        }
        (is_whole, gone)
    }

    fn failed(&self, path: &[u8], why: impl Into<String>) {
        self.tally.found(0);
        self.failures.add(path, why);
    }

    fn by_find(&self, host: &OsStr, found: &mut Found) -> Result<Ran, Error> {
        let Scope { copy_links, one_file_system, only, .. } = self.scope;
        let links = if copy_links { "-L " } else { "-P " };
        let what = quoted_path(&only.map_or(b"."[..].to_vec(), |(from, _)| [b"./", from].concat()));
        let depth = if only.is_some() { " -maxdepth 0" } else { "" };
        let devices = if one_file_system { " -xdev" } else { "" };
        let print = format!(" -printf '{FIELDS}'");
        let root = quoted_path(&self.root.path);
        let script = joined([&"cd ", &root, &" && exec find ", &links, &what, &depth, &devices, &print]);
        let mut fields: Vec<Vec<u8>> = Vec::with_capacity(FIELDS_COUNT);
        // The root comes first.
        let mut own_device: Option<Vec<u8>> = None;
        let ran = self.rsync.script(host, &script, b"", self.tally, &mut |field| {
            fields.push(field.to_vec());
            if fields.len() < FIELDS_COUNT {
                return Ok(());
            }
            let mut entry = entry_of(&fields)?;
            let is_elsewhere = own_device.get_or_insert_with(|| fields[6].clone()) != &fields[6];
            entry.facts.is_closed = one_file_system && entry.facts.kind == EntryKind::Folder && is_elsewhere;
            fields.clear();
            self.keep(entry, found)
        })?;
        if ran.said.contains("-printf") || ran.said.contains("find: not found") || ran.said.contains("find: command") {
            let says = format!("{} has no GNU find", shown_path(host));
            return Err(Error::refused(says, "install findutils there, or copy from a daemon of rsync"));
        }
        Ok(ran)
    }

    fn by_rsync(&self, found: &mut Found) -> Result<Ran, Error> {
        let empty = super::empty_folder()?;
        let mut args: Vec<OsString> = ["-lptgoDHn", "-ii", "--numeric-ids"].map(OsString::from).to_vec();
        let Scope { copy_links, one_file_system, only, .. } = self.scope;
        args.push(if only.is_some() { "-d".into() } else { "-r".into() });
        args.extend(copy_links.then(|| "-L".into()));
        args.extend(one_file_system.then(|| "-x".into()));
        args.push("--out-format=%i\t%B\t%l\t%M\t%U\t%G\t%n//%L".into());
        args.push(only.map_or_else(|| self.root.content(), |(from, _)| self.root.join(from).text()));
        args.push(empty.path().join("").into());
        self.rsync.lines(&args, self.tally, &mut |record| {
            let Some((entry, first)) = listed_entry(record) else {
                // A greeting has no tabs. What cannot be read must not be taken for what is not there.
                let says = "the daemon lists something that cannot be read";
                let wrong = || io::Error::new(io::ErrorKind::InvalidData, says);
                return if record.contains(&b'\t') { Err(wrong()) } else { Ok(()) };
            };
            if let Some(first) = first {
                let number = xxh3_64(&first);
                let inode = Inode { device: 0, number };
                found.firsts.insert(first, inode);
            }
            self.keep(entry, found)
        })
    }

    fn keep(&self, mut entry: Entry, found: &mut Found) -> io::Result<()> {
        if let Some((_, to)) = self.scope.only {
            entry.path = to.to_vec();
        } else if !self.scope.filter.takes_with_folders(&entry.path, entry.facts.kind == EntryKind::Folder) {
            return Ok(());
        }
        if self.is_source && entry.path.len() > ASKED_NAME_BYTES_MAX {
            found.has_long = true;
            let says = "its path is longer than 1,900 bytes, so rsync could not check what it is sent for it";
            self.failed(&entry.path, format!("{says}; copy a folder further down"));
            return Ok(());
        }
        found.listed.count(&entry, self.tally);
        found.sorter.push(&entry.path, &encode(&entry.facts)?)
    }
}

/// What a line of find or rsync says about a list.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// Something was there, and is not any more.
    Gone(Vec<u8>),
    /// A link is to be followed and leads nowhere.
    DeadLink(Vec<u8>),
    /// A folder cannot be listed, for this reason.
    Failed(Vec<u8>, String),
}

impl Said {
    /// `None` for other lines, such as those that a shell says when somebody logs in.
    fn of(line: &str, root: &Address) -> Option<Self> {
        let found = line.strip_prefix("find: './").and_then(|rest| rest.rsplit_once("': "));
        if let Some((path, why)) = found {
            let path = unquoted(path);
            return Some(match why {
                "No such file or directory" => Self::Gone(path),
                why => Self::Failed(path, format!("it cannot be listed: {why}")),
            });
        }
        let of_daemon = |begins: &str| Some(below(root, line.strip_prefix(begins)?.rsplit_once('"')?.0));
        if let Some(path) = of_daemon("file has vanished: \"").or_else(|| of_daemon("directory has vanished: \"")) {
            return Some(Self::Gone(path));
        }
        if let Some(path) = of_daemon("symlink has no referent: \"") {
            return Some(Self::DeadLink(path));
        }
        let is_of_list = line.starts_with("find: ") || line.starts_with("rsync: ");
        is_of_list.then(|| Self::Failed(Vec::new(), format!("it cannot be listed whole: {line}")))
    }
}

/// A path of a daemon's module as one of the tree.
fn below(root: &Address, path: &str) -> Vec<u8> {
    let path = unescaped(path.trim_start_matches('/').as_bytes());
    let root = root.path.iter().position(|byte| *byte == b'/').map_or(&b""[..], |at| &root.path[at + 1..]);
    let inner = path.strip_prefix(root).map(|rest| rest.strip_prefix(b"/").unwrap_or(rest).to_vec());
    inner.unwrap_or(path)
}

/// A name that find has put in quotes, where backslashes stand before what is not printed as it is.
fn unquoted(name: &str) -> Vec<u8> {
    const LETTERS: [(u8, u8); 7] =
        [(b'a', 7), (b'b', 8), (b't', b'\t'), (b'n', b'\n'), (b'v', 11), (b'f', 12), (b'r', b'\r')];
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, ..] = rest {
        let (byte, len) = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                ((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'), 4)
            }
            [b'\\', letter, ..] => {
                (LETTERS.iter().find(|(name, _)| name == letter).map_or(*letter, |(_, byte)| *byte), 2)
            }
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[len..];
    }
    bytes
}

/// Why nothing was listed.
fn why_nothing(said: &str) -> String {
    let why = said.lines().last().unwrap_or("there is nothing").trim();
    // What shells say after their names and numbers: one of them gives no reason.
    match why.rsplit_once("cd: ") {
        Some((_, rest)) if rest.starts_with("can't cd to") => {
            "there is no such folder, or it may not be entered".to_owned()
        }
        Some((_, rest)) => rest.to_owned(),
        None => why.to_owned(),
    }
}

/// An entry as find prints it.
fn entry_of(fields: &[Vec<u8>]) -> io::Result<Entry> {
    let [kind, mode, uid, gid, size, time, device, number, names, target, path] = fields else {
        return Err(wrong());
    };
    let links = decimal(names)?;
    let kind = match &kind[..] {
        b"f" => EntryKind::File { size: decimal(size)?, hash: None },
        b"d" => EntryKind::Folder,
        b"p" => EntryKind::Pipe,
        b"s" => EntryKind::Socket,
        // Their numbers are known once they have arrived.
        b"b" => EntryKind::Device { is_block: true, number: 0 },
        b"c" => EntryKind::Device { is_block: false, number: 0 },
        // "l", or with links followed what leads nowhere.
        _ => EntryKind::Link { target: target.clone() },
    };
    let inode = Inode { device: decimal(device)?, number: decimal(number)? };
    let facts = Facts {
        mode: u32::from_str_radix(text(mode)?, 8).map_err(|_| wrong())?,
        uid: u32::try_from(decimal(uid)?).map_err(|_| wrong())?,
        gid: u32::try_from(decimal(gid)?).map_err(|_| wrong())?,
        modified: time_of(text(time)?).ok_or_else(wrong)?,
        shared: (links > 1 && kind != EntryKind::Folder).then_some(inode),
        attributes: Vec::new(),
        is_closed: false,
        kind,
    };
    Ok(Entry { path: path.clone(), facts })
}

/// Seconds with a fraction.
fn time_of(text: &str) -> Option<Time> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let (seconds, nanos): (i64, u32) = (seconds.parse().ok()?, digits.parse().ok()?);
    // Before 1970, too, find adds the fraction to the seconds: -2.5 is a second and a half before.
    Some(Time { seconds, nanos })
}

/// An entry as a daemon lists it, and the name of which it is a further one.
fn listed_entry(record: &[u8]) -> Option<(Entry, Option<Vec<u8>>)> {
    // Names may hold tabs, but no two slashes side by side.
    let fields: Vec<_> = record.splitn(7, |byte| *byte == b'\t').collect();
    let [flags, rights, size, time, uid, gid, name] = fields[..] else { return None };
    let at = name.windows(2).position(|pair| pair == b"//")?;
    let (name, link) = (&name[..at], &name[at + 2..]);
    // Behind the slash of a folder, the third one is left.
    let link = link.strip_prefix(b"/").unwrap_or(link);
    let path = unescaped(name);
    let path = path.strip_suffix(b"/").unwrap_or(&path);
    let path = if path == b"." { Vec::new() } else { path.to_vec() };
    let kind = match flags.get(1)? {
        b'f' => EntryKind::File { size: text(size).ok()?.parse().ok()?, hash: None },
        b'd' => EntryKind::Folder,
        b'L' => EntryKind::Link { target: unescaped(link.strip_prefix(b" -> ").unwrap_or(link)) },
        // What exactly it is, is known once it has arrived.
        b'S' => EntryKind::Pipe,
        b'D' => EntryKind::Device { is_block: false, number: 0 },
        _ => return None,
    };
    let first = link.strip_prefix(b" => ").map(unescaped);
    let shared = first.as_ref().map(|first| Inode { device: 0, number: xxh3_64(first) });
    let number = |field: &[u8]| text(field).ok()?.parse().ok();
    let facts = Facts {
        kind,
        mode: mode_of(rights)?,
        uid: number(uid)?,
        gid: number(gid)?,
        modified: Time { seconds: seconds_of(text(time).ok()?)?, nanos: 0 },
        shared,
        attributes: Vec::new(),
        is_closed: false,
    };
    Some((Entry { path, facts }, first))
}

/// Rights as `ls` prints them, such as `rwxr-sr-t`.
fn mode_of(rights: &[u8]) -> Option<u32> {
    let bits = rights.get(..9)?;
    let mut mode = 0;
    for (place, letter) in bits.iter().enumerate() {
        let special = 0o4000 >> (place / 3);
        mode |= match letter {
            b'-' => 0,
            b'S' | b'T' => special,
            b's' | b't' => special | 0o400 >> place,
            _ => 0o400 >> place,
        };
    }
    Some(mode)
}

/// Seconds of `2026/11/27-08:18:20`, in universal time.
fn seconds_of(text: &str) -> Option<i64> {
    let time = DateTime::strptime("%Y/%m/%d-%H:%M:%S", text).ok()?;
    Some(TimeZone::UTC.to_timestamp(time).ok()?.as_second())
}

fn text(field: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(field).map_err(|_| wrong())
}

fn decimal(field: &[u8]) -> io::Result<u64> {
    text(field)?.parse().map_err(|_| wrong())
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "find there prints something else than GNU find does")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_find_prints_them() {
        let fields = |text: &str| text.split('|').map(|field| field.as_bytes().to_vec()).collect::<Vec<_>>();
        let file = entry_of(&fields("f|4755|7|8|12|1612008000.0450000000|65024|99|2||a/b")).unwrap();
        let inode = Inode { device: 65_024, number: 99 };
        assert_eq!(file.path, b"a/b");
        assert_eq!((file.facts.mode, file.facts.uid, file.facts.shared), (0o4755, 7, Some(inode)));
        assert_eq!(file.facts.modified, Time { seconds: 1_612_008_000, nanos: 45_000_000 });
        let link = entry_of(&fields("l|777|0|0|7|5.0|1|2|1|no where|a")).unwrap();
        assert_eq!(link.facts.kind, EntryKind::Link { target: b"no where".to_vec() });
        assert_eq!(time_of("-2.5"), Some(Time { seconds: -2, nanos: 500_000_000 }));
        assert!(why_nothing("a banner\nsh: 1: cd: can't cd to /x").contains("no such folder"));
        assert_eq!(why_nothing("sh: line 1: cd: /x: Permission denied"), "/x: Permission denied");
        assert!(entry_of(&fields("f|rwx|7|8|12|1.0|65024|99|2||a")).is_err() && entry_of(&fields("f")).is_err());
    }

    #[test]
    fn what_could_not_be_listed_is_told_from_what_is_gone() {
        let root = Address::parse(Path::new("rsync://host/files/a/b")).unwrap().unwrap();
        let said = |line: &str| Said::of(line, &root);
        let failed = |path: &str, why: &str| Some(Said::Failed(path.as_bytes().to_vec(), why.to_owned()));
        let gone = |path: &[u8]| Some(Said::Gone(path.to_vec()));
        let denied = r"find: './a\'\': \\b\n': Permission denied";
        assert_eq!(said(denied), failed("a'': \\b\n", "it cannot be listed: Permission denied"));
        assert_eq!(said(r"find: './a/\303\251': No such file or directory"), gone("a/é".as_bytes()));
        let odd = "find: File system loop detected; './a' is part of it";
        assert_eq!(said(odd), failed("", &format!("it cannot be listed whole: {odd}")));
        assert_eq!(said("directory has vanished: \"/a/b/c\" (in files)"), gone(b"c"));
        assert_eq!(said("file has vanished: \"/a/b/\\#011/c\" (in files)"), gone(b"\t/c"));
        let link = "symlink has no referent: \"/a/b/c\" (in files)";
        assert_eq!(said(link), Some(Said::DeadLink(b"c".to_vec())));
        assert!(said("rsync: [sender] opendir \"/a\" failed: Permission denied (13)").is_some());
        assert_eq!((said("rsync error: some files"), said("a banner")), (None, None));
    }

    #[test]
    fn entries_are_read_as_a_daemon_lists_them() {
        let read = |text: &str| listed_entry(text.as_bytes());
        let (file, first) =
            read(">f+++++++++\trwsr-x--T\t12\t2026/11/27-08:18:20\t0\t5\ta\\#012\tb// => first").unwrap();
        assert_eq!((file.path, first), (b"a\n\tb".to_vec(), Some(b"first".to_vec())));
        assert_eq!((file.facts.mode, file.facts.gid), (0o5750, 5));
        assert_eq!(file.facts.modified.seconds, 1_795_767_500);
        let (root, _) = read("cd+++++++++\trwxr-xr-x\t4096\t1970/01/01-00:00:00\t0\t0\t.///").unwrap();
        assert_eq!((root.path, root.facts.kind, root.facts.modified.seconds), (vec![], EntryKind::Folder, 0));
        assert_eq!((read("a motd"), read("")), (None, None));
    }
}
