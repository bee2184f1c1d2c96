//! Finds both ends of a copy of which one lies on another machine, and asks that machine what it has.

use super::address::Address;
use super::rsync::Rsync;
use crate::error::Error;
use crate::path::shown_path;
use crate::place::{Ends, Single};
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

/// The ends of a copy to another machine, and the root there.
pub(super) fn to_there(
    request: &Request,
    there: &Address,
    (rsync, tally): (&Rsync, &Tally),
) -> Result<(Ends, Address), Error> {
    let source = &request.source;
    let (is_folder, own) = Ends::source(request)?;
    if is_folder {
        let root = own.map_or_else(|| there.clone(), |name| there.join(name.as_bytes())).trimmed();
        return Ok((Ends::of_folder(source, root.text(), own), root));
    }
    let from = own.ok_or_else(|| Refusal::new(format!("{} is no name of a file", shown_path(source))))?;
    let is_into = there.has_slash() || kind(there, rsync, tally)? == PathKind::Folder;
    let (root, to) = match there.name().filter(|_| !is_into) {
        Some(name) => (there.parent(), name.to_vec()),
        None => (there.clone().trimmed(), from.as_bytes().to_vec()),
    };
    let rule = format!("{} becomes {}", shown_path(source), shown_path(root.join(&to).text()));
    let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = Some(Single { from: from.as_bytes().to_vec(), to });
    let destination = PathBuf::from(root.text());
    Ok((Ends { source: folder.to_owned(), destination, file, before: Vec::new(), rule }, root))
}

/// The ends of a copy from another machine, and the root there.
pub(super) fn from_there(
    request: &Request,
    there: &Address,
    (rsync, tally): (&Rsync, &Tally),
) -> Result<(Ends, Address), Error> {
    let text = there.text();
    let destination = &request.destination;
    let kind = if there.has_slash() { PathKind::Folder } else { kind(there, rsync, tally)? };
    match (kind, there.name().filter(|_| !there.has_slash())) {
        (PathKind::Missing, _) => Err(Refusal::new(format!("there is no {}", shown_path(text))).into()),
        (PathKind::Folder, own) => {
            let name = own.map(OsStr::from_bytes);
            let to = name.map_or_else(|| destination.clone(), |name| destination.join(name));
            Ok((Ends::of_folder(text, to, name), there.clone().trimmed()))
        }
        (PathKind::Other, own) => {
            let from = own.ok_or_else(|| Refusal::new(format!("{} is no name of a file", shown_path(&text))))?;
            let (folder, to) = Ends::of_name(OsStr::from_bytes(from), destination);
            let rule = format!("{} becomes {}", shown_path(text), shown_path(folder.join(&to)));
            let file = Some(Single { from: from.to_vec(), to: to.as_bytes().to_vec() });
            let root = there.parent();
            let source = PathBuf::from(root.text());
            Ok((Ends { source, destination: folder, file, before: Vec::new(), rule }, root))
        }
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
