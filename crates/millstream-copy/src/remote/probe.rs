//! Asks another machine which names it takes for the same.

use super::address::{By, joined, quoted_path};
use super::place::{PathKind, kind};
use super::{Remote, empty_folder};
use crate::error::Error;
use crate::folding::{Asked, Folder};
use crate::limits::PROBED_NAMES_MAX;
use crate::place::Ends;
use crate::tally::Tally;
use millstream_host::make_folder;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The root of a copy on another machine. Before it is made, the folder that it will be in is asked in its place.
pub(crate) struct Root<'a> {
    remote: &'a Remote,
    place: &'a Ends,
    tally: &'a Tally,
}

impl Remote {
    /// The root of the copy, to ask it.
    pub(crate) fn folder<'a>(&'a self, place: &'a Ends, tally: &'a Tally) -> Root<'a> {
        Root { remote: self, place, tally }
    }
}

impl Folder for Root<'_> {
    fn answers(&self, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
        match &self.remote.root.by {
            By::Shell(host) => self.by_shell(host, asked),
            By::Daemon => self.by_daemon(asked),
        }
    }

    fn names(&self) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut names = BTreeSet::new();
        // A daemon could be asked for a list only, which may be long.
        let By::Shell(host) = &self.remote.root.by else { return Ok(names) };
        let lists = format!(" 2>/dev/null && ls -A | head -n {PROBED_NAMES_MAX} | tr '\\n' '\\0'");
        let script = joined([&"cd ", &quoted_path(&self.remote.root.path), &lists]);
        self.remote.rsync.script(host, &script, b"", self.tally, &mut |name| {
            names.insert(name.to_vec());
            Ok(())
        })?;
        Ok(names)
    }
}

impl Root<'_> {
    fn by_shell(&self, host: &OsStr, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
        let root = &self.remote.root;
        let above = root.parent();
        // The folder that is named like the source may be the second one that is missing.
        let places = if self.place.before.is_empty() { 2 } else { 3 };
        let mut script = OsString::new();
        for place in [root, &above, &above.parent()].into_iter().take(places) {
            script.push(joined([&"cd ", &quoted_path(&place.path), &" 2>/dev/null || "]));
        }
        script.push("exit 0; ");
        for (n, Asked { made, name, .. }) in asked.iter().enumerate() {
            let answers = format!(" ]; then printf '{n} yes\\0'; else printf '{n} no\\0'; fi; ");
            let looks = joined([&"if [ -e ", &quoted_path(name), &answers]);
            script.push(match made.as_deref().map(quoted_path) {
                None => looks,
                // A file might be written through a link; a folder is not.
                Some(made) => {
                    let begins = joined([&"if mkdir ", &made, &" 2>/dev/null || [ -d ", &made, &" ]; then "]);
                    joined([&begins, &looks, &"rmdir ", &made, &"; fi; "])
                }
            });
        }
        script.push("exit 0");
        let mut answers = vec![None; asked.len()];
        self.remote.rsync.script(host, &script, b"", self.tally, &mut |record| {
            let said = std::str::from_utf8(record).ok().and_then(|said| said.split_once(' '));
            if let Some((n, says)) = said
                && let Ok(n) = n.parse::<usize>()
                && let Some(answer) = answers.get_mut(n)
            {
                *answer = Some(says == "yes");
            }
            Ok(())
        })?;
        Ok(answers)
    }

    /// A daemon makes folders that are sent to it, and says whether it has one. What is asked for was made.
    fn by_daemon(&self, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
        let Remote { root, rsync, .. } = self.remote;
        // It makes no more than the last folder of a path.
        let place = if self.place.before.is_empty() { root.clone() } else { root.parent() };
        let (made, nothing) = (empty_folder()?, empty_folder()?);
        let names: BTreeSet<&OsStr> =
            asked.iter().filter_map(|asked| Some(OsStr::from_bytes(asked.made.as_deref()?))).collect();
        for name in &names {
            let path = made.path().join(name);
            make_folder(&path).map_err(Error::file("make", &path))?;
        }
        let send = |more: &[OsString], from: &tempfile::TempDir| {
            let ends = [from.path().join("").into_os_string(), place.content()];
            let args = [&[OsString::from("-r")], more, &ends[..]].concat();
            rsync.run(&args, self.tally, &mut |_| {}).map(drop)
        };
        send(&[], &made)?;
        let kind_of = |asked: &Asked| kind(&place.join(&asked.name), rsync, self.tally);
        let is_there = |kind: PathKind| Some(kind != PathKind::Missing);
        let answers: Result<Vec<_>, Error> = asked.iter().map(|asked| kind_of(asked).map(is_there)).collect();
        let mut only = vec![OsString::from("--delete")];
        only.extend(names.iter().map(|name| joined([&"--include=/", name, &"/***"])));
        only.push("--exclude=*".into());
        send(&only, &nothing)?;
        answers
    }
}
