//! Which entries of a tree are copied.

use super::pattern::Pattern;
use crate::error::Error;
use crate::path::{join, shown_path};
use std::ffi::OsStr;

/// A rule: the first one that fits an entry decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What fits.
    pub pattern: Pattern,
    /// Whether what fits is copied.
    pub includes: bool,
}

/// All rules, in order. What fits none is copied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    rules: Vec<Rule>,
    /// What stands before a path: the name of the tree, if its folder itself is copied.
    before: Vec<u8>,
}

impl Filter {
    pub(crate) fn new(rules: &[Rule], before: &[u8]) -> Self {
        Self { rules: rules.to_vec(), before: before.to_vec() }
    }

    /// Refuses rules that exclude the root of a tree itself.
    pub(crate) fn refuse_root(&self, root: impl AsRef<OsStr>) -> Result<(), Error> {
        if self.takes(b"", true) {
            return Ok(());
        }
        let says = format!("the rules exclude {} itself", shown_path(root));
        Err(Error::refused(says, "end it with a slash to copy what is in it"))
    }

    /// Whether an entry is copied. What is in a folder that is not copied is not asked for.
    pub(crate) fn takes(&self, path: &[u8], is_folder: bool) -> bool {
        let is_unnamed = path.is_empty() && self.before.is_empty();
        if self.rules.is_empty() || is_unnamed {
            return true;
        }
        let path = if path.is_empty() { self.before.clone() } else { join(&self.before, path) };
        self.rules.iter().find(|rule| rule.pattern.fits(&path, is_folder)).is_none_or(|rule| rule.includes)
    }
    /// The same for entries that come in any order, whether their folders are copied or not.
    pub(crate) fn takes_with_folders(&self, path: &[u8], is_folder: bool) -> bool {
        let mut folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        folders.all(|folder| self.takes(folder, true)) && self.takes(path, is_folder)
    }
}
