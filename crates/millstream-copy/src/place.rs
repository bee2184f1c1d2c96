//! Which tree is copied to which: rsync's rule of the trailing slash.

use crate::error::Error;
use crate::path::shown_path;
use crate::request::Request;
use crate::walk::{Filter, Scope};
use millstream_model::{Refusal, shell_word};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A source and a destination, found by the paths of a request.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The folder that is listed.
    pub(crate) source: PathBuf,
    /// The folder that gets what is in it.
    pub(crate) destination: PathBuf,
    /// A single file.
    pub(crate) file: Option<Single>,
    /// What stands before a path where rules ask for it.
    pub(crate) before: Vec<u8>,
    /// What the slash at the end of the source meant, for people.
    pub(crate) rule: String,
}

/// A single file: its name in the source, and in the destination.
#[derive(Debug, Clone)]
pub(crate) struct Single {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

impl Place {
    /// Finds both ends.
    ///
    /// # Errors
    /// There is no source; the destination lies in it; there is no folder to make the destination in.
    pub(crate) fn of(request: &Request) -> Result<Self, Error> {
        let Request { source, destination, .. } = request;
        let place = match Self::source(request)? {
            (true, name) => {
                let to = name.map_or_else(|| destination.clone(), |name| destination.join(name));
                Self::of_folder(source, to, name)
            }
            (false, _) => Self::of_file(source, destination)?,
        };
        place.check(request)?;
        Ok(place)
    }

    /// Whether the source of a request, which lies on this machine, is a folder; and its name, unless only what is in it is
    /// meant.
    pub(crate) fn source(request: &Request) -> Result<(bool, Option<&OsStr>), Error> {
        let source = &request.source;
        let has_slash = ends_with_slash(source);
        let looked = if has_slash || request.copy_links { fs::metadata(source) } else { fs::symlink_metadata(source) };
        let is_folder = match looked {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let says = format!("there is no {}", shown_path(source));
                return Err(Error::refused(says, "check the path; what lies on another machine is HOST:PATH"));
            }
            looked => looked.map_err(Error::file("look at", source))?.is_dir(),
        };
        if has_slash && !is_folder {
            return Err(Refusal::new(format!("{} is no folder", shown_path(source))).into());
        }
        let is_content = has_slash || source.as_os_str().as_bytes().ends_with(b"/.");
        Ok((is_folder, source.file_name().filter(|_| !is_content)))
    }

    /// A folder and what becomes of it. `named`: its name, unless only what is in it is meant.
    pub(crate) fn of_folder(source: impl Into<PathBuf>, to: impl Into<PathBuf>, named: Option<&OsStr>) -> Self {
        let (source, destination) = (source.into(), to.into());
        let (from, to) = (shown_path(&source), shown_path(&destination));
        let rule = match named {
            Some(_) => format!("{from} becomes {to}; to copy only what is in it, write {from}/"),
            None => format!("what is in {from} goes to {to}"),
        };
        let before = named.map_or_else(Vec::new, |name| name.as_bytes().to_vec());
        Self { source, destination, file: None, before, rule }
    }

    fn of_file(source: &Path, destination: &Path) -> Result<Self, Error> {
        let no_name = || Refusal::new(format!("{} is no name of a file", shown_path(source)));
        let from = source.file_name().ok_or_else(no_name)?;
        let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (to, name) = Self::of_name(from, destination);
        let rule = format!("{} becomes {}", shown_path(source), shown_path(to.join(&name)));
        let single = Single { from: from.as_bytes().to_vec(), to: name.as_bytes().to_vec() };
        Ok(Self { source: folder.to_owned(), destination: to, file: Some(single), before: Vec::new(), rule })
    }

    /// The folder that a file goes to, and its name there: its own, if the destination is a folder.
    pub(crate) fn of_name(from: &OsStr, destination: &Path) -> (PathBuf, OsString) {
        if destination.is_dir() || ends_with_slash(destination) {
            return (destination.to_owned(), from.to_owned());
        }
        let folder = destination.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        (folder.to_owned(), destination.file_name().unwrap_or(from).to_owned())
    }

    /// Refuses what would copy a tree into itself. A destination that will not be listed may lie in the source.
    fn check(&self, request: &Request) -> Result<(), Error> {
        let source = without_links(&self.source)?;
        let destination = self.canonical_destination()?;
        let whole = match &self.file {
            None => {
                let below = destination.strip_prefix(&source);
                below.is_ok_and(|below| !self.is_left_out(request, &source, below))
            }
            Some(single) => destination == source && single.from == single.to,
        };
        if whole {
            let says = format!("{} lies in {}", shown_path(destination), shown_path(source));
            return Err(Error::refused(says, "choose a destination outside of the source"));
        }
        Ok(())
    }

    /// Whether a path below the source is not copied: a rule excludes it, or it lies on another file system.
    fn is_left_out(&self, request: &Request, source: &Path, below: &Path) -> bool {
        let filter = Filter::new(&request.rules, &self.before);
        let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
        let mut path = PathBuf::new();
        below.iter().any(|name| {
            path.push(name);
            let is_other = request.one_file_system
                && device(&source.join(&path)).is_some_and(|other| device(source) != Some(other));
            is_other || !filter.takes(path.as_os_str().as_bytes(), true)
        })
    }

    /// The destination without links. It may not exist yet, but the folder that it will be in must.
    ///
    /// # Errors
    /// That folder does not exist.
    pub(crate) fn canonical_destination(&self) -> Result<PathBuf, Error> {
        // The destination, and the folder named like the source in it.
        let made_max = if self.before.is_empty() { 1 } else { 2 };
        let mut existing = self.destination.as_path();
        let mut missing = Vec::new();
        loop {
            match fs::canonicalize(existing) {
                Ok(found) if missing.len() <= made_max => {
                    return Ok(missing.iter().rev().fold(found, |path: PathBuf, name| path.join(name)));
                }
                Ok(found) => {
                    let says = format!("there is no folder for {}", shown_path(&self.destination));
                    let needed = missing.iter().skip(1).rev().fold(found, |path: PathBuf, name| path.join(name));
                    return Err(Error::refused(says, format!("mkdir -p {}", shell_word(&needed.display()))));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    missing.push(existing.file_name().unwrap_or(OsStr::new("..")).to_owned());
                    let folder = existing.parent().filter(|folder| !folder.as_os_str().is_empty());
                    existing = folder.unwrap_or(Path::new("."));
                }
                Err(error) => return Err(Error::file("find", existing)(error)),
            }
        }
    }

    /// The root of the copy, or the file that it is.
    pub(crate) fn target(&self, root: &Path) -> PathBuf {
        let Some(single) = &self.file else { return root.to_owned() };
        let name = OsStr::from_bytes(&single.to);
        // The home folder of another machine: a slash would make it the root.
        match root.as_os_str().as_bytes().ends_with(b":") {
            true => [root.as_os_str(), name].join(OsStr::new("")).into(),
            false => root.join(name),
        }
    }

    /// What of the source a request copies.
    pub(crate) fn scope(&self, request: &Request) -> Scope<'_> {
        Scope {
            filter: Filter::new(&request.rules, &self.before),
            copy_links: request.copy_links,
            one_file_system: request.one_file_system,
            only: self.file.as_ref().map(|single| (&single.from[..], &single.to[..])),
            piece_bytes: None,
        }
    }

    /// The name in the source of a path of the copy.
    pub(crate) fn source_path<'a>(&'a self, path: &'a [u8]) -> &'a [u8] {
        self.file.as_ref().map_or(path, |single| &single.from)
    }
}

/// A path that exists, without links.
pub(crate) fn without_links(path: &Path) -> Result<PathBuf, Error> {
    fs::canonicalize(path).map_err(Error::file("find", path))
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}
