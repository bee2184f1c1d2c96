//! Asks another machine which names it takes for the same, and a daemon whose files it makes.

use super::address::{Address, By, joined, quoted_path};
use super::empty_folder;
use super::ends::{PathKind, kind};
use super::listing::Listing;
use super::there::There;
use crate::error::Error;
use crate::folding::{Asked, Folder};
use crate::limits::PROBED_NAMES_MAX;
use crate::manifest::{Header, Reader};
use crate::place::Place;
use crate::tally::{Failures, Tally};
use crate::walk::Scope;
use millstream_host::{make_folder, own_file};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The root of a copy on another machine. Before it is made, the folder that it will be in is asked in its place.
pub(super) struct Root<'a> {
    pub(super) there: &'a There,
    pub(super) place: &'a Place,
    pub(super) tally: &'a Tally,
}

impl Folder for Root<'_> {
    fn answers(&self, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
        match &self.there.root.by {
            By::Shell(host) => self.by_shell(host, asked),
            By::Daemon => self.by_daemon(asked),
        }
    }

    fn names(&self) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut names = BTreeSet::new();
        // A daemon could be asked for a list only, which may be long.
        let By::Shell(host) = &self.there.root.by else { return Ok(names) };
        let lists = format!(" 2>/dev/null && ls -A | head -n {PROBED_NAMES_MAX} | tr '\\n' '\\0'");
        let script = joined([&"cd ", &quoted_path(&self.there.root.path), &lists]);
        self.there.rsync.script(host, &script, b"", self.tally, &mut |name| {
            names.insert(name.to_vec());
            Ok(())
        })?;
        Ok(names)
    }
}

impl Root<'_> {
    fn by_shell(&self, host: &OsStr, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
        let root = &self.there.root;
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
        self.there.rsync.script(host, &script, b"", self.tally, &mut |record| {
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
        let (made, place) = (empty_folder()?, self.place());
        let names: BTreeSet<&OsStr> =
            asked.iter().filter_map(|asked| Some(OsStr::from_bytes(asked.made.as_deref()?))).collect();
        for name in &names {
            let path = made.path().join(name);
            make_folder(&path).map_err(Error::file("make", &path))?;
        }
        self.send(&["-r"], &made.path().join(""), &place)?;
        let kind_of = |asked: &Asked| kind(&place.join(&asked.name), &self.there.rsync, self.tally);
        let is_there = |kind: PathKind| Some(kind != PathKind::Missing);
        let answers: Result<Vec<_>, Error> = asked.iter().map(|asked| kind_of(asked).map(is_there)).collect();
        self.remove(names, &place)?;
        answers
    }

    /// Whether a daemon gives a file the owner that it has here. `name`: that of a file which may be made there to find out.
    ///
    /// # Errors
    /// The other machine cannot be reached.
    pub(super) fn keeps_owner(&self, name: &str) -> Result<bool, Error> {
        let (here, place) = (empty_folder()?, self.place());
        let path = here.path().join(name);
        own_file(0o600).write(true).create_new(true).open(&path).map_err(Error::file("make", &path))?;
        self.send(&["-o"], &path, &place)?;
        let owner = self.owner_of(name.as_bytes(), &place);
        self.remove([OsStr::new(name)], &place)?;
        Ok(owner? == Some(rustix::process::geteuid().as_raw()))
    }

    fn owner_of(&self, name: &[u8], place: &Address) -> Result<Option<u32>, Error> {
        let (folder, failures, looked) = (empty_folder()?, Failures::default(), self.tally.aside());
        let path = folder.path().join("list");
        let scope = Scope { only: Some((name, name)), ..Scope::default() };
        let rsync = &self.there.rsync;
        let listing = Listing { rsync, root: place, scope, tally: &looked, failures: &failures, is_source: false };
        listing.list_what_is_there(&Header::default(), &path, folder.path())?;
        let mut list = Reader::open(&path).map_err(Error::manifest(&path))?;
        Ok(list.next().map_err(Error::manifest(&path))?.map(|entry| entry.facts.uid))
    }

    /// Where a daemon makes something: of a path, it makes no more than the last folder.
    fn place(&self) -> Address {
        let root = &self.there.root;
        if self.place.before.is_empty() { root.clone() } else { root.parent() }
    }

    fn send(&self, options: &[&str], from: &Path, place: &Address) -> Result<(), Error> {
        let options = options.iter().map(OsString::from);
        let args: Vec<OsString> = options.chain([from.into(), place.content()]).collect();
        self.there.rsync.run(&args, self.tally, &mut |_| {}).map(drop)
    }

    /// Removes files and empty folders.
    fn remove<'n>(&self, names: impl IntoIterator<Item = &'n OsStr>, place: &Address) -> Result<(), Error> {
        let nothing = empty_folder()?;
        let only = names.into_iter().map(|name| joined([&"--include=/", &name]));
        let mut args: Vec<OsString> = ["-r", "--delete"].map(OsString::from).to_vec();
        args.extend(only);
        args.extend(["--exclude=*".into(), nothing.path().join("").into_os_string(), place.content()]);
        self.there.rsync.run(&args, self.tally, &mut |_| {}).map(drop)
    }
}
