//! Looks up the text at a path and inserts what is known about it as a member.

use super::{Applied, Transform};
use crate::decode::{Columns, Placed};
use crate::limits::{ANNOTATION_BYTES_MAX, ANNOTATION_SEGMENTS_MAX};
use millstream_model::{Fault, Reason, path_text};
use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Knows something about texts.
pub trait Lookup: Debug + Send + Sync {
    /// Answers for each of some texts, in their order. Appends what is known to `json`. Where there is no text, the
    /// answer is [`Answer::Unusable`].
    fn get(&self, texts: &[Option<Cow<'_, str>>], json: &mut String) -> Vec<Answer>;
}

/// How a look-up ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What is known was appended, and has this place.
    Found(Range<usize>),
    /// Nothing is known about the text.
    Missing,
    /// The text is not of the kind that can be looked up.
    Unusable,
    /// What is known is longer than [`ANNOTATION_BYTES_MAX`].
    TooLong,
}

/// What becomes of a document about whose text nothing is known, or that has no usable text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missing {
    /// It stays as it is.
    #[default]
    Keep,
    /// It gets the member with a null.
    Null,
    /// It is rejected.
    Reject,
}

impl Missing {
    /// Each with its name and meaning.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Keep, "keep", "It stays as it is"),
        (Self::Null, "null", "It gets the member with a null"),
        (Self::Reject, "reject", "It is rejected"),
    ];
}

/// What becomes of a document that has the member already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// It stays as it is.
    Keep,
    /// Its member is replaced.
    #[default]
    Replace,
    /// It is rejected.
    Reject,
}

impl Existing {
    /// Each with its name and meaning.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Keep, "keep", "It stays as it is"),
        (Self::Replace, "replace", "The member is replaced"),
        (Self::Reject, "reject", "It is rejected"),
    ];
}

/// Looks up the text at one path and inserts the answer at another.
#[derive(Debug)]
pub struct Annotate {
    name: String,
    from: Vec<String>,
    into: Vec<String>,
    missing: Missing,
    existing: Existing,
    lookup: Arc<dyn Lookup>,
    /// Of the text, then of each object on the way to the member, then of the member.
    places: Columns,
}

const OUTCOMES: &[&str] = &["enriched", "missing", "unusable", "existing"];
const ENRICHED: usize = 0;
const MISSING: usize = 1;
const UNUSABLE: usize = 2;
const EXISTING: usize = 3;

impl Annotate {
    /// A transform. `from` leads to a string, or to an array of strings, which are looked up as one text with commas. `into`
    /// leads to the member; objects on its way are made if they are missing.
    ///
    /// # Errors
    /// A path is empty or too long.
    pub fn new(
        name: String,
        from: Vec<String>,
        into: Vec<String>,
        missing: Missing,
        existing: Existing,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, String> {
        if from.is_empty() || into.is_empty() {
            return Err("a path has no segments".into());
        }
        let lies_in = |outer: &[String], inner: &[String]| outer.len() < inner.len() && inner.starts_with(outer);
        if into == from || lies_in(&into, &from) || lies_in(&from, &into) {
            let (from, into) = (path_text(&from), path_text(&into));
            return Err(format!("the member {into} would take the place of {from}, or lie in it; name another one"));
        }
        if into.len() > ANNOTATION_SEGMENTS_MAX {
            return Err(format!("{} has more than {ANNOTATION_SEGMENTS_MAX} segments", path_text(&into)));
        }
        let on_the_way = (1..=into.len()).map(|length| &into[..length]);
        let places = Columns::new(std::iter::once(from.as_slice()).chain(on_the_way));
        Ok(Self { name, from, into, missing, existing, lookup, places })
    }
}

impl Transform for Annotate {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn outcomes(&self) -> &'static [&'static str] {
        OUTCOMES
    }

    fn writes(&self, member: &str) -> bool {
        self.into.first().is_some_and(|name| name == member)
    }

    fn apply(&self, _: u32, documents: &[&[u8]], changed: &mut Vec<u8>, applied: &mut Vec<Applied>) {
        let places: Vec<_> = documents.iter().map(|document| self.places.find(document)).collect();
        let texts: Vec<_> =
            places.iter().zip(documents).map(|(places, document)| self.text(places.as_ref(), document)).collect();
        let mut json = String::new();
        let answers = self.lookup.get(&texts, &mut json);
        assert_eq!(answers.len(), texts.len(), "a look-up answers for each text");
        for ((places, answer), document) in places.into_iter().zip(answers).zip(documents) {
            applied.push(match places {
                Some(places) => self.put(document, &places, (answer, &json), changed),
                None => Applied::Unreadable,
            });
        }
    }
}

impl Annotate {
    /// The text that is looked up for a document.
    fn text<'d>(&self, places: Option<&Placed>, document: &'d [u8]) -> Option<Cow<'d, str>> {
        let places = places?;
        let keeps = places[self.into.len()].is_some() && self.existing != Existing::Replace;
        places[0].clone().filter(|_| !keeps).and_then(|text| text_of(&document[text]))
    }

    fn put(&self, document: &[u8], found: &Placed, (answer, known): (Answer, &str), changed: &mut Vec<u8>) -> Applied {
        let depth = self.into.len();
        let existing = found[depth].clone();
        match (&existing, self.existing) {
            (Some(_), Existing::Keep) => return Applied::Same(EXISTING),
            (Some(_), Existing::Reject) => {
                let detail = format!("there is a member {} already", path_text(&self.into));
                return Applied::Rejected(EXISTING, Fault::new(Reason::NotEnriched, detail));
            }
            _ => {}
        }
        let answer = match answer {
            Answer::Found(place) if place.len() > ANNOTATION_BYTES_MAX => Answer::TooLong,
            answer => answer,
        };
        let outcome = match answer {
            Answer::Found(_) => ENRICHED,
            Answer::Missing => MISSING,
            Answer::Unusable | Answer::TooLong => UNUSABLE,
        };
        let json = match (&answer, self.missing) {
            (Answer::Found(place), _) => &known[place.clone()],
            (_, Missing::Null) => "null",
            (_, Missing::Keep) => return Applied::Same(outcome),
            (_, Missing::Reject) => return Applied::Rejected(outcome, self.nothing_known(&answer)),
        };
        let json = json.as_bytes();
        if let Some(range) = existing {
            return Applied::Changed(outcome, put(document, range, &[json], changed));
        }
        // The innermost object on the way that is there.
        let (known, object) = match (1..depth).rev().find_map(|length| Some((length, found[length].clone()?))) {
            Some(inner) => inner,
            None => (0, whole(document)),
        };
        if document[object.start] != b'{' {
            let detail = format!("{} is not an object, so that it cannot have members", path_text(&self.into[..known]));
            return match self.missing {
                Missing::Reject => Applied::Rejected(UNUSABLE, Fault::new(Reason::NotEnriched, detail)),
                Missing::Keep | Missing::Null => Applied::Same(UNUSABLE),
            };
        }
        let (before, after) = around(&self.into[known..]);
        // Behind the last member: before the brace and the space in front of it.
        let mut end = object.end - 1;
        while document[end - 1].is_ascii_whitespace() {
            end -= 1;
        }
        let comma: &[u8] = if end == object.start + 1 { b"" } else { b"," };
        Applied::Changed(outcome, put(document, end..end, &[comma, before.as_bytes(), json, after.as_bytes()], changed))
    }

    #[cold]
    fn nothing_known(&self, answer: &Answer) -> Fault {
        let path = path_text(&self.from);
        let detail = match answer {
            Answer::Missing => format!("nothing is known about what is at {path}"),
            Answer::TooLong => format!("what is known about {path} has more than {ANNOTATION_BYTES_MAX} bytes"),
            _ => format!("there is nothing at {path} that can be looked up"),
        };
        Fault::new(Reason::NotEnriched, detail)
    }
}

/// Appends a document with one range of its bytes replaced. Returns its place.
fn put(document: &[u8], range: Range<usize>, with: &[&[u8]], changed: &mut Vec<u8>) -> Range<usize> {
    let begin = changed.len();
    changed.extend_from_slice(&document[..range.start]);
    for part in with {
        changed.extend_from_slice(part);
    }
    changed.extend_from_slice(&document[range.end..]);
    begin..changed.len()
}

/// The object of a document, without space around it.
pub(super) fn whole(document: &[u8]) -> Range<usize> {
    let inner = document.trim_ascii();
    let start = document.len() - document.trim_ascii_start().len();
    start..start + inner.len()
}

/// What comes before and after the value of a member, whose path begins in the object: `"client":{"geo":` and `}`.
fn around(path: &[String]) -> (String, String) {
    let names: Vec<String> = path.iter().map(|name| serde_json::Value::from(name.as_str()).to_string() + ":").collect();
    (names.join("{"), "}".repeat(path.len() - 1))
}

/// The text of a JSON string, or of an array of strings: its texts with commas between them.
fn text_of(json: &[u8]) -> Option<Cow<'_, str>> {
    match json.first()? {
        b'"' if !json.contains(&b'\\') => std::str::from_utf8(&json[1..json.len() - 1]).ok().map(Cow::Borrowed),
        b'"' => serde_json::from_slice(json).ok().map(Cow::Owned),
        b'[' => serde_json::from_slice::<Vec<String>>(json).ok().map(|texts| Cow::Owned(texts.join(","))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows letters only.
    #[derive(Debug)]
    struct Letters;

    impl Lookup for Letters {
        fn get(&self, texts: &[Option<Cow<'_, str>>], json: &mut String) -> Vec<Answer> {
            let answer = |text: &Option<Cow<'_, str>>| match text.as_deref().unwrap_or("7") {
                text if !text.chars().all(char::is_alphabetic) => Answer::Unusable,
                "none" => Answer::Missing,
                text => {
                    let begin = json.len();
                    json.push_str(&format!("{{\"is\":{text:?}}}"));
                    Answer::Found(begin..json.len())
                }
            };
            texts.iter().map(answer).collect()
        }
    }

    fn annotated(into: &str, missing: Missing, existing: Existing, document: &str) -> (String, String) {
        let path = |text: &str| text.split('.').map(str::to_owned).collect();
        let transform =
            Annotate::new("letters".into(), path("c.ip"), path(into), missing, existing, Arc::new(Letters)).unwrap();
        let mut changed = b"before".to_vec();
        let mut applied = Vec::new();
        let others: [&[u8]; 2] = [b"{", br#"{"c":{"ip":"z"}}"#];
        transform.apply(0, &[others[0], document.as_bytes(), others[1]], &mut changed, &mut applied);
        assert_eq!((applied.len(), &applied[0]), (3, &Applied::Unreadable), "each document has its own answer");
        let text = |place: &Range<usize>| String::from_utf8(changed[place.clone()].to_vec()).unwrap();
        match &applied[1] {
            Applied::Unreadable => ("unreadable".into(), String::new()),
            Applied::Same(outcome) => (format!("same {}", OUTCOMES[*outcome]), String::new()),
            Applied::Changed(outcome, place) => (OUTCOMES[*outcome].into(), text(place)),
            Applied::Rejected(outcome, fault) => (format!("{} {}", OUTCOMES[*outcome], fault.detail), String::new()),
        }
    }

    #[test]
    fn a_member_is_inserted_and_all_else_keeps_its_spelling() {
        for (into, document, expected) in [
            ("geo", r#"{"c":{"ip":"a"}}"#, r#"{"c":{"ip":"a"},"geo":{"is":"a"}}"#),
            (
                "geo",
                " {\"c\" : {\"ip\":\"a\"} , \"n\":1.50\n} \n",
                " {\"c\" : {\"ip\":\"a\"} , \"n\":1.50,\"geo\":{\"is\":\"a\"}\n} \n",
            ),
            ("c.geo", r#"{"c":{"ip":"a"},"z":0}"#, r#"{"c":{"ip":"a","geo":{"is":"a"}},"z":0}"#),
            ("x.y.geo", r#"{"c":{"ip":"a"}}"#, r#"{"c":{"ip":"a"},"x":{"y":{"geo":{"is":"a"}}}}"#),
            ("x.y.geo", r#"{"x":{},"c":{"ip":"a"}}"#, r#"{"x":{"y":{"geo":{"is":"a"}}},"c":{"ip":"a"}}"#),
            ("x.geo", r#"{"x":{ },"c":{"ip":"a"}}"#, r#"{"x":{"geo":{"is":"a"} },"c":{"ip":"a"}}"#),
            ("geo", r#"{"geo":[1, 2],"c":{"ip":"a"}}"#, r#"{"geo":{"is":"a"},"c":{"ip":"a"}}"#),
            // jsonb keeps the last of two members.
            ("geo", r#"{"geo":1,"c":{"ip":"a"},"geo":2}"#, r#"{"geo":1,"c":{"ip":"a"},"geo":{"is":"a"}}"#),
            ("geo", r#"{"c":{"ip":"\u0061"}}"#, r#"{"c":{"ip":"\u0061"},"geo":{"is":"a"}}"#),
            ("\"q\"", r#"{"c":{"ip":"a"}}"#, r#"{"c":{"ip":"a"},"\"q\"":{"is":"a"}}"#),
        ] {
            let (outcome, changed) = annotated(into, Missing::Keep, Existing::Replace, document);
            assert_eq!((outcome.as_str(), changed.as_str()), ("enriched", expected), "{document}");
        }
    }

    #[test]
    fn documents_without_an_answer_are_kept_or_get_a_null_or_are_rejected() {
        for (document, outcome, said) in [
            (r#"{"c":{"ip":"none"}}"#, "missing", "nothing is known about what is at c.ip"),
            (r#"{"c":{"ip":"1"}}"#, "unusable", "there is nothing at c.ip that can be looked up"),
            (r#"{"c":{"ip":7}}"#, "unusable", "there is nothing at c.ip that can be looked up"),
            (r#"{"c":{"ip":["a","b"]}}"#, "unusable", "there is nothing at c.ip that can be looked up"),
            (r#"{}"#, "unusable", "there is nothing at c.ip that can be looked up"),
        ] {
            let of = |missing| annotated("geo", missing, Existing::Replace, document);
            assert_eq!(of(Missing::Keep), (format!("same {outcome}"), String::new()));
            assert_eq!(of(Missing::Reject), (format!("{outcome} {said}"), String::new()));
            let (named, changed) = of(Missing::Null);
            assert_eq!(named, outcome);
            assert!(changed.ends_with("\"geo\":null}"), "{changed}");
        }
        let conflict = r#"{"c":{"ip":"a"},"x":7}"#;
        assert_eq!(annotated("x.geo", Missing::Keep, Existing::Replace, conflict).0, "same unusable");
        let (said, _) = annotated("x.geo", Missing::Reject, Existing::Replace, conflict);
        assert_eq!(said, "unusable x is not an object, so that it cannot have members");
        for text in ["", "{", "[1]", "7", r#"{"c":{"ip":"a"}} x"#] {
            assert_eq!(annotated("geo", Missing::Reject, Existing::Replace, text).0, "unreadable", "{text}");
        }
    }

    #[test]
    fn a_member_that_lies_in_the_address_or_around_it_is_refused() {
        let of = |from: &str, into: &str| {
            let path = |text: &str| text.split('.').map(str::to_owned).collect();
            let (missing, existing) = (Missing::default(), Existing::default());
            Annotate::new("letters".into(), path(from), path(into), missing, existing, Arc::new(Letters)).is_ok()
        };
        assert!(of("c.ip", "geo") && of("c.ip", "c.geo") && of("c.ip", "c.ip2"));
        assert!(!of("c.ip", "c") && !of("c.ip", "c.ip.geo") && !of("c.ip", "c.ip"));
    }

    #[test]
    fn a_member_that_is_there_is_kept_or_replaced_or_rejected() {
        let of = |existing| annotated("geo", Missing::Keep, existing, r#"{"geo":1,"c":{"ip":"a"}}"#);
        assert_eq!(of(Existing::Keep), ("same existing".into(), String::new()));
        assert_eq!(of(Existing::Replace).1, r#"{"geo":{"is":"a"},"c":{"ip":"a"}}"#);
        assert_eq!(of(Existing::Reject).0, "existing there is a member geo already");
    }
}
