//! Finds both ends of a copy of which one lies on another machine, and asks that machine what it has.

use super::address::{Address, By};
use super::rsync::Rsync;
use super::there::There;
use crate::end::Role;
use crate::error::Error;
use crate::path::{shown, shown_path};
use crate::place::{Place, Single};
use crate::request::Request;
use crate::tally::Tally;
use millstream_model::Refusal;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a path of another machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathKind {
    Folder,
    Other,
    Missing,
}

/// What an address of a request is looked for with.
struct Search<'a> {
    request: &'a Request,
    there: &'a Address,
    rsync: &'a Rsync,
    tally: &'a Tally,
}

/// Finds both ends of a copy, and the one that lies on another machine. `None` if both lie on this one.
///
/// # Errors
/// Both lie on others; what is asked for is not possible between machines; the other one cannot be reached.
pub(crate) fn find(request: &Request, tally: &Tally) -> Result<Option<(There, Place)>, Error> {
    let (role, there) = match [Address::parse(&request.source)?, Address::parse(&request.destination)?] {
        [None, None] => return refuse_what_needs_another(request).map(|()| None),
        [None, Some(there)] => (Role::Destination, there),
        [Some(there), None] => (Role::Source, there),
        [Some(_), Some(_)] => {
            let says = "both ends lie on other machines";
            return Err(Error::refused(says, "run the copy on one of them"));
        }
    };
    if there.by == By::Daemon {
        refuse_what_needs_a_shell(request, role, &there)?;
    }
    let rsync = Rsync::new(request)?;
    let search = Search { request, there: &there, rsync: &rsync, tally };
    let (place, root) = match role {
        Role::Destination => search.to_there()?,
        Role::Source => search.source()?,
    };
    refuse_patterns(&root.path)?;
    if let Some(single) = &place.file {
        refuse_patterns(if role == Role::Destination { &single.to } else { &single.from })?;
    }
    Ok(Some((There::new(role, root, rsync), place)))
}

fn refuse_what_needs_another(request: &Request) -> Result<(), Error> {
    for (name, is_given) in [("--ssh", request.shell.is_some()), ("--compress", request.compress)] {
        if is_given {
            let says = format!("{name} is for copies to other machines, and both ends are on this one");
            return Err(Error::refused(says, "a path on another machine begins with its name: HOST:PATH"));
        }
    }
    Ok(())
}

/// Refuses what a daemon cannot do.
fn refuse_what_needs_a_shell(request: &Request, role: Role, there: &Address) -> Result<(), Error> {
    if there.path.iter().all(|byte| *byte == b'/') {
        let says = format!("{} names no module of the daemon", shown_path(there.text()));
        return Err(Error::refused(says, "write HOST::MODULE/PATH or rsync://HOST/MODULE/PATH"));
    }
    if request.fsync && role == Role::Destination {
        let says = "--fsync needs a shell on the other machine, and only a daemon answers";
        return Err(Refusal::new(says).into());
    }
    if request.one_file_system && request.delete.is_some() && role == Role::Source {
        let says = "a daemon does not tell what --one-file-system leaves out, so --delete would delete it";
        return Err(Error::refused(says, "copy over ssh: HOST:PATH, or leave out --one-file-system"));
    }
    Ok(())
}

/// Refuses paths that rsync on the other machine would take for patterns, and copy to or from what fits them.
fn refuse_patterns(path: &[u8]) -> Result<(), Error> {
    if !path.iter().any(|byte| b"*?[\\\n".contains(byte)) {
        return Ok(());
    }
    let says = format!("rsync would take the path {} of the other machine for a pattern", shown(path));
    Err(Error::refused(says, "name the folder above it: names in a tree may hold anything"))
}

impl Search<'_> {
    /// The ends of a copy to another machine, and the root there.
    fn to_there(&self) -> Result<(Place, Address), Error> {
        let Self { request, there, .. } = self;
        let source = &request.source;
        let (is_folder, own) = Place::source(request)?;
        if is_folder {
            let root = own.map_or_else(|| (*there).clone(), |name| there.join(name.as_bytes())).trimmed();
            return Ok((Place::of_folder(source, root.text(), own), root));
        }
        let from = own.ok_or_else(|| Refusal::new(format!("{} is no name of a file", shown_path(source))))?;
        let is_into = there.has_slash() || self.kind()? == PathKind::Folder;
        let (root, to) = match there.name().filter(|_| !is_into) {
            Some(name) => (there.parent(), name.to_vec()),
            None => ((*there).clone().trimmed(), from.as_bytes().to_vec()),
        };
        let rule = format!("{} becomes {}", shown_path(source), shown_path(root.join(&to).text()));
        let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = Some(Single { from: from.as_bytes().to_vec(), to });
        let destination = PathBuf::from(root.text());
        Ok((Place { source: folder.to_owned(), destination, file, before: Vec::new(), rule }, root))
    }

    /// The ends of a copy from another machine, and the root there.
    fn source(&self) -> Result<(Place, Address), Error> {
        let Self { request, there, .. } = self;
        let text = there.text();
        let destination = &request.destination;
        let kind = if there.has_slash() { PathKind::Folder } else { self.kind()? };
        match (kind, there.name().filter(|_| !there.has_slash())) {
            (PathKind::Missing, _) => Err(Refusal::new(format!("there is no {}", shown_path(text))).into()),
            (PathKind::Folder, own) => {
                let name = own.map(OsStr::from_bytes);
                let to = name.map_or_else(|| destination.clone(), |name| destination.join(name));
                Ok((Place::of_folder(text, to, name), (*there).clone().trimmed()))
            }
            (PathKind::Other, own) => {
                let from = own.ok_or_else(|| Refusal::new(format!("{} is no name of a file", shown_path(&text))))?;
                let (folder, to) = Place::of_name(OsStr::from_bytes(from), destination);
                let rule = format!("{} becomes {}", shown_path(text), shown_path(folder.join(&to)));
                let file = Some(Single { from: from.to_vec(), to: to.as_bytes().to_vec() });
                let root = there.parent();
                let source = PathBuf::from(root.text());
                Ok((Place { source, destination: folder, file, before: Vec::new(), rule }, root))
            }
        }
    }

    /// What the address is.
    fn kind(&self) -> Result<PathKind, Error> {
        kind(self.there, self.rsync, self.tally)
    }
}

/// What rsync there says of a path.
///
/// # Errors
/// The other machine cannot be reached, or the copy was stopped.
pub(super) fn kind(there: &Address, rsync: &Rsync, tally: &Tally) -> Result<PathKind, Error> {
    let args = [OsString::from("-d"), "--list-only".into(), there.text()];
    let mut kind = PathKind::Missing;
    let listed = rsync.lines(&args, tally, &mut |line| {
        // It begins like a line of `ls -l`; a greeting may come before it.
        if line.len() > 11 && line[10] == b' ' && line[1..10].iter().all(|byte| b"rwxsStT-".contains(byte)) {
            kind = if line[0] == b'd' { PathKind::Folder } else { PathKind::Other };
        }
        Ok(())
    })?;
    if tally.is_stopped() {
        return Err(Error::Stopped);
    }
    let is_answered = kind != PathKind::Missing || listed.said.contains("No such file or directory");
    if !is_answered {
        return Err(super::rsync::failure(&listed.said, "it lists nothing"));
    }
    Ok(kind)
}
