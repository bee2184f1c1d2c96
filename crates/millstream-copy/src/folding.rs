//! Destinations that take different names for the same, such as exFAT, where upper and lower case mean nothing.

use crate::error::Error;
use crate::limits::{ASKED_AT_ONCE_MAX, FOLDED_NAMES_MAX, PROBED_NAMES_MAX, SAME_NAMES_ASKED_MAX};
use crate::manifest::{Reader, Sorter};
use crate::path::shown;
use crate::tree::{self, Tree, named};
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization;

/// Which names a destination takes for the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Folding {
    /// Those that differ in upper and lower case alone.
    pub(crate) case: bool,
    /// Those that differ in how they write a letter with an accent: as one character, or as two.
    pub(crate) form: bool,
    /// Those that differ in dots at their end alone.
    pub(crate) dots: bool,
}

/// A way in which names are taken for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Case,
    Form,
    Dots,
}

/// What a folder is asked: whether it holds a name.
#[derive(Debug)]
pub(crate) struct Asked {
    kind: Kind,
    /// The name of what is made there before, and removed afterwards.
    pub(crate) made: Option<Vec<u8>>,
    /// The name, which nothing has there. If the folder holds it even so, it takes it for another one.
    pub(crate) name: Vec<u8>,
}

/// A folder of a destination, on whichever machine.
pub(crate) trait Folder {
    /// The answers to questions, in their order. `None`: what is made for one cannot be made.
    ///
    /// # Errors
    /// It cannot be asked.
    fn answers(&self, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error>;

    /// Names in it, without `.` and `..`. There may be more.
    ///
    /// # Errors
    /// It cannot be listed.
    fn names(&self) -> Result<BTreeSet<Vec<u8>>, Error>;
}

impl Folding {
    /// Everything that is known of any destination.
    pub(crate) const ALL: Self = Self { case: true, form: true, dots: true };

    /// Finds out which names a folder takes for the same. `probe`: the name in lower case of what may be made there for that;
    /// without one, and where nothing can be made, the names that are there show it.
    ///
    /// # Errors
    /// The folder cannot be asked.
    pub(crate) fn of(folder: &dyn Folder, probe: Option<&str>) -> Result<Self, Error> {
        if let Some(name) = probe {
            let asked = probes(name);
            let answers = folder.answers(&asked)?;
            if answers.iter().any(Option::is_some) {
                return Ok(Self::said(&asked, &answers));
            }
        }
        let asked = twins(&folder.names()?);
        if asked.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self::said(&asked, &folder.answers(&asked)?))
    }

    fn said(asked: &[Asked], answers: &[Option<bool>]) -> Self {
        let is = |kind| asked.iter().zip(answers).any(|(asked, answer)| asked.kind == kind && *answer == Some(true));
        Self { case: is(Kind::Case), form: is(Kind::Form), dots: is(Kind::Dots) }
    }

    /// Whether there are such names at all.
    pub(crate) fn is_any(self) -> bool {
        self != Self::default()
    }

    /// A path as such a destination compares it.
    pub(crate) fn key(self, path: &[u8]) -> Vec<u8> {
        path.split(|byte| *byte == b'/').map(|name| self.key_of_name(name)).collect::<Vec<_>>().join(&b'/')
    }

    fn key_of_name(self, name: &[u8]) -> Vec<u8> {
        // Letters of which only the capital is the same, too.
        let lower = |c: char| {
            let mut upper = c.to_uppercase();
            let single = upper.next().filter(|_| upper.next().is_none()).unwrap_or(c);
            single.to_lowercase()
        };
        let mut key = match std::str::from_utf8(name) {
            Ok(text) if !text.is_ascii() => {
                let text: String = if self.form { text.nfd().collect() } else { text.to_owned() };
                let text = if self.case { text.chars().flat_map(lower).collect() } else { text };
                text.into_bytes()
            }
            _ if self.case => name.to_ascii_lowercase(),
            _ => name.to_vec(),
        };
        if self.dots
            && let Some(last) = key.iter().rposition(|byte| *byte != b'.')
        {
            key.truncate(last + 1);
        }
        key
    }
}

/// Questions for which something is made.
fn probes(name: &str) -> Vec<Asked> {
    // Not every file system takes other letters than those of ASCII.
    let [composed, apart] = ["\u{e9}", "e\u{301}"].map(|letter| format!("{name}{letter}"));
    let all = [
        (Kind::Case, name.to_owned(), name.to_ascii_uppercase()),
        (Kind::Form, composed, apart),
        (Kind::Dots, name.to_owned(), format!("{name}.")),
    ];
    all.map(|(kind, made, name)| Asked { kind, made: Some(made.into_bytes()), name: name.into_bytes() }).into()
}

/// What another name would be the same as it, if there is one.
type Twin = fn(&[u8]) -> Option<Vec<u8>>;

/// Questions for which nothing is made: each is about a name like one that is there.
fn twins(names: &BTreeSet<Vec<u8>>) -> Vec<Asked> {
    let ways: [(Kind, Twin); 3] = [(Kind::Case, other_case), (Kind::Form, other_form), (Kind::Dots, with_dot)];
    let asked = ways.into_iter().filter_map(|(kind, twin)| {
        let name = names.iter().filter_map(|name| twin(name)).find(|twin| !names.contains(twin))?;
        Some(Asked { kind, made: None, name })
    });
    asked.collect()
}

fn other_case(name: &[u8]) -> Option<Vec<u8>> {
    let swapped =
        |byte: &u8| if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
    Some(name.iter().map(swapped).collect())
}

fn with_dot(name: &[u8]) -> Option<Vec<u8>> {
    Some([name, b"."].concat())
}

fn other_form(name: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(name).ok()?;
    let forms: [String; 2] = [text.nfc().collect(), text.nfd().collect()];
    forms.into_iter().find(|form| form != text).map(String::into_bytes)
}

impl Folder for Tree {
    fn answers(&self, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
        let folder = self.folder(b"").map_err(Error::file("open", self.path()))?;
        Ok(asked.iter().map(|asked| answer(&folder, asked).ok()).collect())
    }

    fn names(&self) -> Result<BTreeSet<Vec<u8>>, Error> {
        let listed = || {
            let mut names = BTreeSet::new();
            for entry in Dir::read_from(self.folder(b"")?)?.take(PROBED_NAMES_MAX) {
                let entry = entry?;
                let name = entry.file_name();
                if name != c"." && name != c".." {
                    names.insert(name.to_bytes().to_vec());
                }
            }
            io::Result::Ok(names)
        };
        listed().map_err(Error::file("list", self.path()))
    }
}

impl Folder for Arc<Tree> {
    fn answers(&self, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
        Tree::answers(self, asked)
    }

    fn names(&self) -> Result<BTreeSet<Vec<u8>>, Error> {
        Tree::names(self)
    }
}

fn answer(folder: &OwnedFd, asked: &Asked) -> io::Result<bool> {
    let made = asked.made.as_deref().map(named).transpose()?;
    if let Some(made) = &made {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match openat(folder, made, flags, Mode::RUSR | Mode::WUSR) {
            // A killed run has left it.
            Ok(_) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let found = named(&asked.name).and_then(|name| tree::stat(folder, &name));
    if let Some(made) = &made {
        tree::remove(folder, made)?;
    }
    Ok(found?.is_some())
}

/// Entries of a list whose names a destination takes for those of other entries, each with the one that comes first.
///
/// # Errors
/// The list cannot be read; there are more than so many.
pub(crate) fn same_names(list: &Path, folder: &Path, folding: Folding) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let mut same = BTreeMap::new();
    each_same_name(list, folder, folding, |path, first| {
        if same.len() == FOLDED_NAMES_MAX {
            let says = format!(
                "the destination takes more than {FOLDED_NAMES_MAX} names for others, such as {} for {}",
                shown(path),
                shown(first)
            );
            return Err(Error::refused(says, "leave them out with --exclude, or rename them"));
        }
        same.insert(path.to_vec(), first.to_vec());
        Ok(true)
    })?;
    Ok(same)
}

/// Those of [`same_names`] that a folder really takes for the same, each with the one that it would replace: the tables of file
/// systems differ in letters beyond ASCII. `probe`: as in [`Folding::of`].
///
/// # Errors
/// The folder cannot be asked.
pub(crate) fn really_same(
    same: &BTreeMap<Vec<u8>, Vec<u8>>,
    folder: &dyn Folder,
    probe: &str,
) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let mut groups: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for (path, first) in same {
        groups.entry(first).or_insert_with(|| vec![first.as_slice()]).push(path);
    }
    let mut pairs = BTreeSet::new();
    for group in groups.values().filter(|group| group.len() <= SAME_NAMES_ASKED_MAX) {
        for (n, path) in group.iter().enumerate() {
            pairs.extend(group[..n].iter().flat_map(|other| different_names(other, path)));
        }
    }
    let (pairs, mut apart) = (pairs.into_iter().collect::<Vec<_>>(), BTreeSet::new());
    for some in pairs.chunks(ASKED_AT_ONCE_MAX) {
        let made = |name: &[u8]| [probe.as_bytes(), name].concat();
        let asked =
            some.iter().map(|(one, other)| Asked { kind: Kind::Case, made: Some(made(one)), name: made(other) });
        let answers = folder.answers(&asked.collect::<Vec<_>>())?;
        apart.extend(some.iter().zip(answers).filter(|(_, answer)| *answer == Some(false)).map(|(pair, _)| pair));
    }
    let mut left = BTreeMap::new();
    for group in groups.values() {
        let mut kept: Vec<&[u8]> = Vec::new();
        for path in group {
            let is_other = |other: &[u8]| different_names(other, path).iter().any(|pair| apart.contains(pair));
            match kept.iter().find(|other| !is_other(other)) {
                Some(other) => drop(left.insert(path.to_vec(), other.to_vec())),
                None => kept.push(path),
            }
        }
    }
    Ok(left)
}

/// The names in which two paths of the same key differ, without what they have in common at both ends: it could make them too
/// long. In letters of ASCII, all destinations agree.
fn different_names(one: &[u8], other: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let names = one.split(|byte| *byte == b'/').zip(other.split(|byte| *byte == b'/'));
    let differ = names.filter(|(one, other)| one != other && !(one.is_ascii() && other.is_ascii()));
    let cut = |(one, other): (&[u8], &[u8])| match (std::str::from_utf8(one), std::str::from_utf8(other)) {
        (Ok(a), Ok(b)) => without_common_ends(a, b),
        _ => (one.to_vec(), other.to_vec()),
    };
    differ.map(cut).collect()
}

fn without_common_ends(one: &str, other: &str) -> (Vec<u8>, Vec<u8>) {
    let common = |pair: &(char, char)| pair.0 == pair.1;
    let before: usize = one.chars().zip(other.chars()).take_while(common).map(|(c, _)| c.len_utf8()).sum();
    let (one, other) = (&one[before..], &other[before..]);
    let behind: usize = one.chars().rev().zip(other.chars().rev()).take_while(common).map(|(c, _)| c.len_utf8()).sum();
    [one, other].map(|name| name.as_bytes()[..name.len() - behind].to_vec()).into()
}

/// Whether there may be destinations that take names of a list for the same.
///
/// # Errors
/// The list cannot be read.
pub(crate) fn has_same_names(list: &Path, folder: &Path) -> Result<bool, Error> {
    let mut is_found = false;
    each_same_name(list, folder, Folding::ALL, |_, _| {
        is_found = true;
        Ok(false)
    })?;
    Ok(is_found)
}

/// Gives `each` the paths whose keys others have, too, with the first path of the same key. It says whether it takes more.
fn each_same_name(
    list: &Path,
    folder: &Path,
    folding: Folding,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, Error>,
) -> Result<(), Error> {
    let failed = Error::file("write to", folder);
    let mut sorter = Sorter::new(folder);
    let mut entries = Reader::open(list).map_err(Error::manifest(list))?;
    while let Some(entry) = entries.next().map_err(Error::manifest(list))? {
        sorter.push(&folding.key(&entry.path), &entry.path).map_err(&failed)?;
    }
    let mut sorted = sorter.finish().map_err(&failed)?;
    let mut first: (Vec<u8>, Vec<u8>) = Default::default();
    while let Some((key, path)) = sorted.next().map_err(&failed)? {
        // The root has the empty path, and comes first.
        if key != first.0 || path.is_empty() {
            first = (key, path);
        } else if !each(&path, &first.1)? {
            break;
        }
    }
    Ok(())
}

/// Why an entry is left out, if it or a folder that it is in is one of [`same_names`].
pub(crate) fn why_left_out(same: &BTreeMap<Vec<u8>, Vec<u8>>, path: &[u8]) -> Option<String> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let (name, other) = ends.chain([path.len()]).find_map(|end| same.get_key_value(&path[..end]))?;
    Some(format!("the destination takes the names {} and {} for the same", shown(other), shown(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, Facts};
    use crate::manifest::{Header, Writer};
    use std::fs;

    const CASE: Folding = Folding { case: true, form: false, dots: false };

    #[test]
    fn names_fold_letter_by_letter() {
        for (path, folded) in
            [("Dir/A.TXT", "dir/a.txt"), ("ÄÖ/ς", "äö/σ"), ("weiß", "weiß"), ("", ""), ("a//B", "a//b")]
        {
            assert_eq!(CASE.key(path.as_bytes()), folded.as_bytes(), "{path}");
        }
        assert_eq!(CASE.key(b"\xc3\x84/\xffA"), b"\xc3\xa4/\xffa");
    }

    #[test]
    fn names_fold_by_each_way_alone_and_by_all() {
        let key = |folding: Folding, path: &str| String::from_utf8(folding.key(path.as_bytes())).unwrap();
        let (form, dots) = (Folding { form: true, ..Folding::default() }, Folding { dots: true, ..Folding::default() });
        assert_eq!(key(form, "\u{c9}T\u{c9}."), "E\u{301}TE\u{301}.");
        assert_eq!([key(dots, "A.../b."), key(dots, ".../.a")], ["A/b", ".../.a"]);
        assert_eq!(key(Folding::ALL, "\u{c9}T./E\u{301}"), "e\u{301}t/e\u{301}");
        assert_eq!(key(Folding::default(), "\u{c9}T./"), "\u{c9}T./");
    }

    #[test]
    fn names_that_become_one_are_found_with_what_is_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        let facts = Facts::of(&rustix::fs::stat(dir.path()).unwrap());
        let mut writer = Writer::create(&list, &Header::default()).unwrap();
        for path in ["", "Dir", "Dir/a", "X", "dir", "dir/b", "x", "x-y"] {
            writer.push_entry(&Entry { path: path.into(), facts: facts.clone() }).unwrap();
        }
        writer.finish().unwrap();
        let same = same_names(&list, dir.path(), CASE).unwrap();
        let why = |path: &str| why_left_out(&same, path.as_bytes());
        assert_eq!(same.len(), 2);
        assert_eq!(why("x").unwrap(), "the destination takes the names X and x for the same");
        assert_eq!(why("dir/b").unwrap(), "the destination takes the names Dir and dir for the same");
        assert!(["", "X", "Dir/a", "x-y"].iter().all(|path| why(path).is_none()));
        let dots = Folding { dots: true, ..Folding::default() };
        assert!(same_names(&list, dir.path(), dots).unwrap().is_empty());
        assert!(has_same_names(&list, dir.path()).unwrap());
    }

    /// A folder that tells a dotless i from another one, as exFAT does.
    struct Dotless;

    impl Folder for Dotless {
        fn answers(&self, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
            let key = |name: &[u8]| CASE.key(String::from_utf8_lossy(name).replace('\u{131}', "\u{1}").as_bytes());
            Ok(asked.iter().map(|asked| Some(key(asked.made.as_deref().unwrap()) == key(&asked.name))).collect())
        }

        fn names(&self) -> Result<BTreeSet<Vec<u8>>, Error> {
            Ok(BTreeSet::new())
        }
    }

    #[test]
    fn names_that_the_destination_tells_apart_are_not_left_out() {
        let left = |pairs: &[(&str, &str)]| {
            let same =
                pairs.iter().map(|(path, first)| (path.as_bytes().to_vec(), first.as_bytes().to_vec())).collect();
            let left = really_same(&same, &Dotless, "probe").unwrap();
            left.into_iter()
                .map(|pair| <[Vec<u8>; 2]>::from(pair).map(|path| String::from_utf8(path).unwrap()))
                .collect::<Vec<_>>()
        };
        assert!(left(&[("k\u{131}z", "kiz"), ("D\u{131}r/a", "Dir/a"), ("D\u{131}r", "Dir")]).is_empty());
        assert_eq!(left(&[("x", "X"), ("\u{e9}", "\u{c9}")]), [["x", "X"], ["\u{e9}", "\u{c9}"]]);
        // The others may still be the same as one another.
        let three = [("\u{131}\u{c9}", "i\u{e9}"), ("\u{131}\u{e9}", "i\u{e9}")];
        assert_eq!(left(&three), [["\u{131}\u{e9}", "\u{131}\u{c9}"]]);
    }

    #[test]
    fn only_what_differs_in_two_names_is_asked() {
        let cut = |one: &str, other: &str| {
            let different = different_names(one.as_bytes(), other.as_bytes());
            different
                .into_iter()
                .map(|pair| <[Vec<u8>; 2]>::from(pair).map(|name| String::from_utf8(name).unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut("a/k\u{131}z", "A/kiz"), [["\u{131}", "i"]]);
        assert_eq!(cut("\u{e9}.", "\u{e9}"), [[".", ""]]);
        assert_eq!(cut("\u{e9}", "e\u{301}"), [["\u{e9}", "e\u{301}"]]);
        assert!(cut("a/X", "a/x").is_empty());
    }

    #[test]
    fn an_ordinary_folder_keeps_names_apart_and_the_probe_goes() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::open(dir.path(), false).unwrap();
        let folding = |probe| Folding::of(&tree, probe).unwrap();
        assert_eq!([folding(Some("probe")), folding(None)], [Folding::default(); 2]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        for name in ["a", "A", "\u{e9}", "a."] {
            fs::write(dir.path().join(name), "").unwrap();
            assert_eq!(folding(None), Folding::default(), "{name}");
        }
    }

    /// A folder of names by which they are taken for the same.
    struct Odd {
        folding: Folding,
        names: &'static [&'static str],
        takes: bool,
    }

    impl Folder for Odd {
        fn answers(&self, asked: &[Asked]) -> Result<Vec<Option<bool>>, Error> {
            let answer = |asked: &Asked| {
                let made = asked.made.as_ref().map(|made| self.folding.key(made));
                let mut keys = self.names.iter().map(|name| self.folding.key(name.as_bytes())).chain(made);
                (self.takes || asked.made.is_none()).then(|| keys.any(|key| key == self.folding.key(&asked.name)))
            };
            Ok(asked.iter().map(answer).collect())
        }

        fn names(&self) -> Result<BTreeSet<Vec<u8>>, Error> {
            Ok(self.names.iter().map(|name| name.as_bytes().to_vec()).collect())
        }
    }

    #[test]
    fn what_a_folder_takes_for_the_same_is_found_by_a_probe_or_by_its_names() {
        for n in 0..8_u8 {
            let folding = Folding { case: n & 1 > 0, form: n & 2 > 0, dots: n & 4 > 0 };
            for takes in [true, false] {
                let odd = Odd { folding, names: &["a\u{e9}"], takes };
                assert_eq!([Some("p"), None].map(|probe| Folding::of(&odd, probe).unwrap()), [folding; 2], "{takes}");
            }
            let nothing = Odd { folding, names: &[], takes: false };
            assert_eq!(Folding::of(&nothing, Some("p")).unwrap(), Folding::default());
        }
    }
}
