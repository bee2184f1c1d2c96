//! What to copy, where to, and how.

use crate::error::Error;
use crate::limits::{PIECE_BYTES, PIECE_BYTES_MIN};
use crate::policy::Policy;
use crate::tree::Within;
use crate::walk::Rule;
use std::ffi::OsString;
use std::path::PathBuf;

/// A copy of a tree or a file.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// What is copied. If it is a folder and ends with a slash, its content is copied, else the folder itself. As with
    /// rsync, one of both may lie on another machine: `HOST:PATH`, `HOST::MODULE/PATH` or `rsync://HOST/MODULE/PATH`.
    pub source: PathBuf,
    /// Where to.
    pub destination: PathBuf,
    /// The remote shell with its options, such as `ssh -p 2222`.
    pub shell: Option<OsString>,
    /// Compress what goes to another machine or comes from it.
    pub compress: bool,
    /// Which entries are copied. The first rule that fits an entry decides; what fits none is copied.
    pub rules: Vec<Rule>,
    /// Copy what links lead to, instead of the links.
    pub copy_links: bool,
    /// Do not leave the source's file system.
    pub one_file_system: bool,
    /// Copy extended attributes, ACLs among them.
    pub attributes: bool,
    /// Read files also where the system could copy them without that, so that every file has a hash. Files that are there
    /// already are the same only if their bytes are.
    pub hash: bool,
    /// Return only once everything is on the disk.
    pub fsync: bool,
    /// Read the copy again at the end, and compare.
    pub verify: bool,
    /// Files that are copied at once.
    pub workers: Workers,
    /// Bytes per second, of all workers together.
    pub bytes_per_second: Option<u64>,
    /// Delete what the source does not have.
    pub delete: Option<Delete>,
    /// Bytes of a piece of a large file, which several workers copy at once: a power of two, or the usual ones. Notes of
    /// pieces hold only their numbers, so a copy must be resumed with the same bytes.
    pub piece_bytes: Option<u64>,
    /// How files are treated, if it is not for the request to say.
    pub(crate) policy: Option<Policy>,
    /// The destination on this machine, if it is open already. Its path without links is that of the request.
    pub(crate) within: Option<Within>,
    /// The folder in which copies keep their manifests and journals. No other account may enter it.
    pub home: PathBuf,
}

/// How many files are copied at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Workers {
    /// As many as turn out to be fastest.
    #[default]
    Auto,
    /// So many.
    Fixed(usize),
}

/// What may be deleted at the destination.
#[derive(Debug, Clone, Default)]
pub struct Delete {
    /// Delete nothing if it would be more than this.
    pub most: Option<u64>,
    /// Move it there instead.
    pub trash: Option<PathBuf>,
    /// Also if the source is empty.
    pub even_all: bool,
    /// Also what rules exclude.
    pub excluded: bool,
}

impl Request {
    /// A copy with usual options.
    pub fn new(source: impl Into<PathBuf>, destination: impl Into<PathBuf>, home: impl Into<PathBuf>) -> Self {
        Self { source: source.into(), destination: destination.into(), home: home.into(), ..Self::default() }
    }

    /// Bytes of a piece of a large file.
    ///
    /// # Errors
    /// Such a piece has no hash of its own.
    pub(crate) fn piece_bytes(&self) -> Result<u64, Error> {
        let bytes = self.piece_bytes.unwrap_or(PIECE_BYTES);
        if bytes.is_power_of_two() && bytes >= PIECE_BYTES_MIN {
            return Ok(bytes);
        }
        let says = format!("a piece of {bytes} bytes has no hash of its own");
        Err(Error::refused(says, format!("take a power of two, at least {PIECE_BYTES_MIN}")))
    }

    /// How the files are treated.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.unwrap_or_else(|| Policy::of_files(self.hash))
    }
}
