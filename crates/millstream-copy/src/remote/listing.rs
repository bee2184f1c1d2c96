//! Lists a tree on another machine: by GNU find there, or by rsync where only a daemon answers.

use super::address::{Address, By, quoted_path};
use super::rsync::{Rsync, unescaped};
use crate::entry::{Entry, EntryKind, Facts, Inode, Time};
use crate::error::Error;
use crate::manifest::{Header, Sorter, Writer, encode};
use crate::path::shown_path;
use crate::state::is_large;
use crate::tally::{Failures, Tally};
use crate::walk::{Filter, Listed};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use millstream_model::Refusal;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// What find prints of an entry, each followed by a zero byte.
const FIELDS: &str = r"%y\0%m\0%U\0%G\0%s\0%T@\0%D\0%i\0%n\0%l\0%P\0";
const FIELDS_COUNT: usize = 11;

/// How a tree on another machine is listed.
pub(crate) struct Listing<'a> {
    pub(crate) rsync: &'a Rsync,
    /// The folder that is listed.
    pub(crate) root: &'a Address,
    pub(crate) filter: &'a Filter,
    pub(crate) copy_links: bool,
    pub(crate) one_file_system: bool,
    /// Only this name, under which it is listed.
    pub(crate) only: Option<(&'a [u8], &'a [u8])>,
    pub(crate) tally: &'a Tally,
    pub(crate) failures: &'a Failures,
}

/// The entries found so far.
struct Found {
    sorter: Sorter,
    listed: Listed,
    /// First names of files with several, as far as others name them, and the number that they are given.
    firsts: HashMap<Vec<u8>, Inode>,
}

impl Listing<'_> {
    /// Lists the tree into a manifest. What cannot be listed is a failure.
    ///
    /// # Errors
    /// There is nothing; the other machine cannot be reached, or has no GNU find; the manifest cannot be written.
    pub(crate) fn list(&self, header: &Header, manifest: &Path, folder: &Path) -> Result<Listed, Error> {
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
        let mut found = Found { sorter: Sorter::new(folder), listed: Listed::default(), firsts: HashMap::new() };
        let said = match &self.root.by {
            By::Shell(host) => self.by_find(host, &mut found)?,
            By::Daemon => self.by_rsync(&mut found)?,
        };
        let problems = said.lines().map(str::trim).filter(|line| {
            // What was removed meanwhile is no failure; neither is what a shell says when somebody logs in.
            let is_of_list = line.starts_with("find: ") || line.starts_with("rsync: ");
            is_of_list && !line.contains("No such file or directory")
        });
        let mut is_whole = !self.tally.is_stopped();
        for problem in problems {
            is_whole = false;
            self.tally.found(0);
            match unlisted(problem) {
                Some((path, why)) => self.failures.add(path.as_bytes(), format!("it cannot be listed: {why}")),
                None => self.failures.add(b"", format!("it cannot be listed whole: {problem}")),
            }
        }
        let Found { sorter, mut listed, firsts } = found;
        let nothing = (listed.entries == 0 && !self.tally.is_stopped()).then(|| why_nothing(&said));
        listed.is_whole = is_whole;
        let written = (|| {
            let mut sorted = sorter.finish()?;
            let mut writer = Writer::create(manifest, header)?;
            while let Some(record) = sorted.next()? {
                match firsts.get(&record.path) {
                    Some(inode) => {
                        let mut entry = crate::manifest::decode(record.path, &record.body)?;
                        entry.facts.shared = Some(*inode);
                        writer.push_entry(&entry)?;
                    }
                    None => writer.push(&record.path, &record.body)?,
                }
            }
            writer.finish_unsynced()
        })();
        written.map_err(Error::file("write", manifest))?;
        Ok((listed, nothing))
    }

    fn by_find(&self, host: &OsStr, found: &mut Found) -> Result<String, Error> {
        let mut script = OsString::from("cd ");
        script.push(quoted_path(&self.root.path));
        script.push(" && exec find ");
        script.push(if self.copy_links { "-L " } else { "-P " });
        let what = self.only.map_or(b"."[..].to_vec(), |(from, _)| [b"./", from].concat());
        script.push(quoted_path(&what));
        script.push(if self.only.is_some() { " -maxdepth 0" } else { "" });
        script.push(if self.one_file_system { " -xdev" } else { "" });
        script.push(format!(" -printf '{FIELDS}'"));
        let mut fields: Vec<Vec<u8>> = Vec::with_capacity(FIELDS_COUNT);
        // The root comes first.
        let mut own_device: Option<Vec<u8>> = None;
        let ran = self.rsync.script(host, &script, &|_| Ok(()), self.tally, &mut |field| {
            fields.push(field.to_vec());
            if fields.len() < FIELDS_COUNT {
                return Ok(());
            }
            let mut entry = entry_of(&fields)?;
            let is_elsewhere = own_device.get_or_insert_with(|| fields[6].clone()) != &fields[6];
            entry.facts.is_closed = self.one_file_system && entry.facts.kind == EntryKind::Folder && is_elsewhere;
            fields.clear();
            self.keep(entry, found)
        })?;
        if ran.said.contains("-printf") || ran.said.contains("find: not found") || ran.said.contains("find: command") {
            let says = format!("{} has no GNU find", shown_path(host));
            return Err(Refusal::new(says).hint("install findutils there, or copy from a daemon of rsync").into());
        }
        Ok(ran.said)
    }

    fn by_rsync(&self, found: &mut Found) -> Result<String, Error> {
        let empty = tempfile::tempdir().map_err(Error::file("make a folder in", Path::new("/tmp")))?;
        let mut args: Vec<OsString> = ["-lptgoDHn", "-ii", "--numeric-ids"].map(OsString::from).to_vec();
        args.push(if self.only.is_some() { "-d".into() } else { "-r".into() });
        args.extend(self.copy_links.then(|| "-L".into()));
        args.extend(self.one_file_system.then(|| "-x".into()));
        args.push("--out-format=%i\t%B\t%l\t%M\t%U\t%G\t%n//%L".into());
        args.push(self.only.map_or_else(|| self.root.content(), |(from, _)| self.root.join(from).text()));
        args.push(empty.path().join("").into());
        let listed = self.rsync.lines(&args, self.tally, &mut |record| {
            let Some((entry, first)) = listed_entry(record) else {
                // A greeting has no tabs. What cannot be read must not be taken for what is not there.
                return if record.contains(&b'\t') { Err(wrong()) } else { Ok(()) };
            };
            if let Some(first) = first {
                let number = xxh3_64(&first);
                let inode = Inode { device: 0, number };
                found.firsts.insert(first, inode);
            }
            self.keep(entry, found)
        })?;
        Ok(listed.said)
    }

    fn keep(&self, mut entry: Entry, found: &mut Found) -> io::Result<()> {
        if let Some((_, to)) = self.only {
            entry.path = to.to_vec();
        } else if !self.filter.takes_with_folders(&entry.path, entry.facts.kind == EntryKind::Folder) {
            return Ok(());
        }
        let (size, listed) = (entry.facts.size(), &mut found.listed);
        self.tally.found(size);
        listed.entries += 1;
        listed.bytes += size;
        listed.folders += u64::from(entry.facts.kind == EntryKind::Folder);
        listed.shared += u64::from(entry.facts.shared.is_some());
        listed.large += u64::from(is_large(&entry.facts));
        found.sorter.push(&entry.path, &encode(&entry.facts)?)
    }
}

/// The folder that find could not list, and why.
fn unlisted(problem: &str) -> Option<(&str, &str)> {
    problem.strip_prefix("find: './")?.split_once("': ")
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
        b"l" => EntryKind::Link { target: target.clone() },
        b"p" => EntryKind::Pipe,
        b"s" => EntryKind::Socket,
        // Their numbers are known once they have arrived.
        b"b" => EntryKind::Device { is_block: true, number: 0 },
        b"c" => EntryKind::Device { is_block: false, number: 0 },
        // With links followed, what leads nowhere is printed like this.
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
        assert_eq!(unlisted("find: './a/b': Permission denied"), Some(("a/b", "Permission denied")));
        assert_eq!(unlisted("find: missing argument"), None);
        assert!(why_nothing("a banner\nsh: 1: cd: can't cd to /x").contains("no such folder"));
        assert_eq!(why_nothing("sh: line 1: cd: /x: Permission denied"), "/x: Permission denied");
        assert!(entry_of(&fields("f|rwx|7|8|12|1.0|65024|99|2||a")).is_err() && entry_of(&fields("f")).is_err());
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
