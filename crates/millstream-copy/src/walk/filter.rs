//! Which entries of a tree are copied.

use super::pattern::Pattern;
use crate::error::Error;
use crate::folding::Folding;
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
    /// Which names a destination takes for the same, and the rules as it would compare them.
    folded: Option<(Folding, Vec<Rule>)>,
}

impl Filter {
    pub(crate) fn new(rules: &[Rule], before: &[u8]) -> Self {
        Self { rules: rules.to_vec(), before: before.to_vec(), folded: None }
    }

    /// The same for a destination that takes names for the same: it has what a rule excludes perhaps by another name.
    pub(crate) fn folding(self, folding: Folding) -> Self {
        let fold = |rule: &Rule| Rule { pattern: Pattern::parse(&folding.key(rule.pattern.text())), ..rule.clone() };
        let folded = folding.is_any().then(|| (folding, self.rules.iter().map(fold).collect()));
        Self { folded, ..self }
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
        let takes = |rules: &[Rule], path: &[u8]| {
            rules.iter().find(|rule| rule.pattern.fits(path, is_folder)).is_none_or(|rule| rule.includes)
        };
        let takes_folded = |(folding, rules): &(Folding, Vec<Rule>)| takes(rules, &folding.key(&path));
        takes(&self.rules, &path) && self.folded.as_ref().is_none_or(takes_folded)
    }

    /// The same for entries that come in any order, whether their folders are copied or not.
    pub(crate) fn takes_with_folders(&self, path: &[u8], is_folder: bool) -> bool {
        let mut folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        folders.all(|folder| self.takes(folder, true)) && self.takes(path, is_folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_excludes_by_another_name_is_excluded_where_names_fold() {
        let rule = |text: &[u8], includes| Rule { pattern: Pattern::parse(text), includes };
        let plain = Filter::new(&[rule(b"/Kept.O", true), rule(b"*.O", false), rule(b"/Old/", false)], b"");
        let folding = plain.clone().folding(Folding { case: true, ..Folding::default() });
        for (path, is_folder, of_plain, of_folding) in [
            ("keep.o", false, true, false),
            ("Keep.O", false, false, false),
            ("Kept.O", false, true, true),
            ("old", true, true, false),
            ("old", false, true, true),
            ("other", false, true, true),
        ] {
            let takes = [&plain, &folding].map(|filter| filter.takes(path.as_bytes(), is_folder));
            assert_eq!(takes, [of_plain, of_folding], "{path}");
        }
    }
}
