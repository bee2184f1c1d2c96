//! Inserts where a document comes from: the name of its file, and the values of its folders.

use super::annotate::whole;
use super::{Applied, Transform};
use crate::decode::Columns;
use crate::json_string::put_string;
use crate::limits::{ANNOTATION_BYTES_MAX, ORIGIN_MEMBERS_MAX};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// What writers of partitions call the folder of rows without a value.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Inserts members into all documents of a source. A member that a document has already is replaced.
#[derive(Debug)]
pub struct Origin {
    name: String,
    /// By the index of the source.
    sources: Vec<Inserted>,
}

/// What the documents of one source get.
#[derive(Debug)]
struct Inserted {
    members: Vec<Member>,
    /// Of these members in a document.
    places: Columns,
}

#[derive(Debug)]
struct Member {
    /// In quotes, with a colon behind it.
    name: Vec<u8>,
    value: Vec<u8>,
}

const OUTCOMES: &[&str] = &["added", "replaced", "none"];
const ADDED: usize = 0;
const REPLACED: usize = 1;
const NONE: usize = 2;

impl Origin {
    /// A transform. For each source in order, `sources` has the members of its documents: names and texts, or a null.
    ///
    /// # Errors
    /// Two members of a source have one name; there are too many, or they take too much room. The index is that of the
    /// source.
    pub fn new(name: String, sources: &[Vec<(String, Option<String>)>]) -> Result<Self, (usize, String)> {
        let inserted = sources.iter().enumerate().map(|(n, members)| Inserted::new(members).map_err(|why| (n, why)));
        Ok(Self { name, sources: inserted.collect::<Result<_, _>>()? })
    }
}

impl Inserted {
    fn new(members: &[(String, Option<String>)]) -> Result<Self, String> {
        if members.len() > ORIGIN_MEMBERS_MAX {
            return Err(format!("{} members for each document are more than {ORIGIN_MEMBERS_MAX}", members.len()));
        }
        for (n, (name, _)) in members.iter().enumerate() {
            if members[..n].iter().any(|(other, _)| other == name) {
                return Err(format!("two members of each document would be named {name:?}"));
            }
        }
        let paths: Vec<[String; 1]> = members.iter().map(|(name, _)| [name.clone()]).collect();
        let places = Columns::new(paths.iter().map(|path| path.as_slice()));
        let members: Vec<Member> = members.iter().map(|(name, text)| Member::new(name, text.as_deref())).collect();
        let bytes: usize = members.iter().map(|member| member.name.len() + member.value.len() + 1).sum();
        if bytes > ANNOTATION_BYTES_MAX {
            return Err(format!(
                "each document would get {bytes} bytes, and at most {ANNOTATION_BYTES_MAX} can be added"
            ));
        }
        Ok(Self { members, places })
    }

    fn apply(&self, document: &[u8], changed: &mut Vec<u8>) -> Applied {
        if self.members.is_empty() {
            return Applied::Same(NONE);
        }
        let Some(found) = self.places.find(document) else { return Applied::Unreadable };
        let mut there: Vec<(Range<usize>, &Member)> =
            found.into_iter().zip(&self.members).filter_map(|(range, member)| Some((range?, member))).collect();
        there.sort_by_key(|(range, _)| range.start);
        let object = whole(document);
        // Behind the last member: before the brace and the space in front of it.
        let mut end = object.end - 1;
        while document[end - 1].is_ascii_whitespace() {
            end -= 1;
        }
        let (begin, mut at) = (changed.len(), 0);
        let outcome = if there.is_empty() { ADDED } else { REPLACED };
        for (range, member) in &there {
            changed.extend_from_slice(&document[at..range.start]);
            changed.extend_from_slice(&member.value);
            at = range.end;
        }
        changed.extend_from_slice(&document[at..end]);
        let mut first = end == object.start + 1;
        for member in self.members.iter().filter(|member| !there.iter().any(|(_, one)| std::ptr::eq(*one, *member))) {
            if !std::mem::take(&mut first) {
                changed.push(b',');
            }
            changed.extend_from_slice(&member.name);
            changed.extend_from_slice(&member.value);
        }
        changed.extend_from_slice(&document[end..]);
        Applied::Changed(outcome, begin..changed.len())
    }
}

impl Member {
    fn new(name: &str, text: Option<&str>) -> Self {
        let (mut quoted, mut value) = (Vec::new(), Vec::new());
        put_string(name, &mut quoted);
        quoted.push(b':');
        match text {
            Some(text) => put_string(text, &mut value),
            None => value.extend_from_slice(b"null"),
        }
        Self { name: quoted, value }
    }
}

impl Transform for Origin {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn outcomes(&self) -> &'static [&'static str] {
        OUTCOMES
    }

    fn writes(&self, member: &str) -> bool {
        let member = Member::new(member, None);
        self.sources.iter().flat_map(|source| &source.members).any(|inserted| inserted.name == member.name)
    }

    fn apply(&self, source: u32, documents: &[&[u8]], changed: &mut Vec<u8>, applied: &mut Vec<Applied>) {
        let inserted = self.sources.get(source as usize);
        let one = |document: &&[u8]| inserted.map_or(Applied::Same(NONE), |one| one.apply(document, changed));
        applied.extend(documents.iter().map(one));
    }
}

/// The values of the folders of a file that are named as `year=2026`, outermost first. Of several folders of one name the
/// innermost counts. Names and values are percent-decoded, as writers of partitions encode them.
pub fn partitions(file: &Path) -> Vec<(String, Option<String>)> {
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for folder in file.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(folder) = folder else { continue };
        let folder = folder.as_bytes();
        let Some(sign) = folder.iter().position(|&byte| byte == b'=').filter(|sign| *sign > 0) else { continue };
        let (name, value) = (decoded(&folder[..sign]), decoded(&folder[sign + 1..]));
        found.retain(|(known, _)| *known != name);
        found.push((name, Some(value).filter(|value| value != NO_VALUE)));
    }
    found
}

/// The text with each `%XX` replaced by its byte. It stays as it is where that gives no text that jsonb takes.
fn decoded(bytes: &[u8]) -> String {
    let (mut decoded, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let [first, after @ ..] = rest {
        let byte = match after {
            [high, low, ..] if *first == b'%' => digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    match String::from_utf8(decoded) {
        Ok(text) if !text.contains('\0') => text,
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserted(members: &[(&str, Option<&str>)], document: &str) -> (String, String) {
        let members = members.iter().map(|(name, text)| ((*name).to_owned(), text.map(str::to_owned))).collect();
        let origin = Origin::new("origin".into(), &[Vec::new(), members]).unwrap();
        let (mut changed, mut applied) = (b"before".to_vec(), Vec::new());
        origin.apply(1, &[b"{", document.as_bytes()], &mut changed, &mut applied);
        assert_eq!(applied.len(), 2, "each document has its own answer");
        match &applied[1] {
            Applied::Changed(outcome, place) => {
                (OUTCOMES[*outcome].into(), String::from_utf8(changed[place.clone()].to_vec()).unwrap())
            }
            other => (format!("{other:?}"), String::new()),
        }
    }

    #[test]
    fn members_are_added_or_replaced_and_all_else_keeps_its_spelling() {
        let members = [("file", Some("a \"b\".json")), ("day", None)];
        for (document, outcome, expected) in [
            ("{}", "added", r#"{"file":"a \"b\".json","day":null}"#),
            (" { } \n", "added", " {\"file\":\"a \\\"b\\\".json\",\"day\":null } \n"),
            (r#"{"n":1.50 }"#, "added", r#"{"n":1.50,"file":"a \"b\".json","day":null }"#),
            (r#"{"day":[1, 2],"n":1}"#, "replaced", r#"{"day":null,"n":1,"file":"a \"b\".json"}"#),
            (r#"{"day":1,"file":{"x":"}"}}"#, "replaced", r#"{"day":null,"file":"a \"b\".json"}"#),
            // jsonb keeps the last of two members.
            (r#"{"day":1,"day":2}"#, "replaced", r#"{"day":1,"day":null,"file":"a \"b\".json"}"#),
            (r#"{"in":{"day":1}}"#, "added", r#"{"in":{"day":1},"file":"a \"b\".json","day":null}"#),
        ] {
            assert_eq!(inserted(&members, document), (outcome.into(), expected.into()), "{document}");
        }
        for document in ["", "{", "[1]", "7", "{} x"] {
            assert_eq!(inserted(&members, document).0, "Unreadable", "{document}");
        }
        assert_eq!(inserted(&[], "{}").0, "Same(2)", "its source has none");
    }

    #[test]
    fn every_source_has_members_of_its_own() {
        let of = |text: &str| vec![("file".to_owned(), Some(text.to_owned()))];
        let origin = Origin::new("origin".into(), &[of("a"), of("b")]).unwrap();
        for (source, expected) in [(0, "{\"file\":\"a\"}"), (1, "{\"file\":\"b\"}"), (2, "")] {
            let (mut changed, mut applied) = (Vec::new(), Vec::new());
            origin.apply(source, &[b"{}"], &mut changed, &mut applied);
            assert_eq!((applied.len(), String::from_utf8(changed).unwrap().as_str()), (1, expected));
        }
    }

    #[test]
    fn members_that_cannot_all_be_inserted_are_refused() {
        let of = |names: &[&str], text: &str| {
            let members = names.iter().map(|name| ((*name).to_owned(), Some(text.to_owned()))).collect();
            Origin::new("origin".into(), &[Vec::new(), members]).map(drop)
        };
        assert_eq!(of(&["file", "year"], "x"), Ok(()));
        let (source, why) = of(&["file", "file"], "x").unwrap_err();
        assert!(source == 1 && why.contains("would be named \"file\""), "{why}");
        let names: Vec<String> = (0..=ORIGIN_MEMBERS_MAX).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(of(&names, "x").unwrap_err().1.contains("are more than"));
        assert_eq!(of(&names[1..], "x"), Ok(()));
        assert!(of(&["file"], &"x".repeat(ANNOTATION_BYTES_MAX)).unwrap_err().1.contains("can be added"));
    }

    #[test]
    fn folders_named_by_a_sign_are_partitions() {
        let of = |path: &str| -> Vec<String> {
            let text =
                |(name, value): (String, Option<String>)| format!("{name}:{}", value.as_deref().unwrap_or("NULL"));
            partitions(Path::new(path)).into_iter().map(text).collect()
        };
        for (path, expected) in [
            ("a.json", &[][..]),
            ("/lake/sales/a=b.json", &[]),
            ("/lake/year=2026/month=06/a.json", &["year:2026", "month:06"]),
            ("year=2025/sub/year=2026/a.json", &["year:2026"]),
            ("k=a=b/a.json", &["k:a=b"]),
            ("=b/c=/a.json", &["c:"]),
            ("region=a%3Db%2Fc/city%20name=K%C3%B6ln/a.json", &["region:a=b/c", "city name:Köln"]),
            ("p=100%/q=%zz/r=%4/a.json", &["p:100%", "q:%zz", "r:%4"]),
            ("bytes=%ff/nul=%00/a.json", &["bytes:%ff", "nul:%00"]),
            ("d=__HIVE_DEFAULT_PARTITION__/a.json", &["d:NULL"]),
            ("../d=1/./a.json", &["d:1"]),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }
}
