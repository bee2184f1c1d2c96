//! Documents without the members that the columns of their key give back.

use super::text::put_unescaped;
use crate::members;
use crate::scan::{Next, Scanner, Stop};
use millstream_model::limits::KEY_COLUMNS_MAX;
use millstream_model::{DocumentForm, KeyColumn, KeyType};

/// The members that documents leave out.
#[derive(Debug, Clone)]
pub struct LeftOut {
    /// Their names, and the types of the columns that have them.
    members: Vec<(String, KeyType)>,
}

/// What is cut out of a document for each member: from its name to the end of its value. Nothing begins at the end of memory.
type Cuts = [(usize, usize); KEY_COLUMNS_MAX];

const NOTHING: (usize, usize) = (usize::MAX, usize::MAX);

impl LeftOut {
    /// What documents of this form leave out; `None` if that is nothing.
    pub fn of(form: DocumentForm, key: &[KeyColumn]) -> Option<Self> {
        let member = |column: &KeyColumn| Some((column.path.first()?.clone(), column.key_type));
        let members: Vec<_> = form.left_out(key).into_iter().filter_map(member).collect();
        (!members.is_empty()).then_some(Self { members })
    }

    /// The names of the members.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(name, _)| name.as_str())
    }

    /// Appends what is left of a document that a [`Decoder`](super::Decoder) has accepted. A member stays if its column would
    /// give back another value.
    ///
    /// # Panics
    /// It may, unless the decoder has accepted the document.
    pub fn put(&self, document: &[u8], out: &mut Vec<u8>) {
        let mut cuts = [NOTHING; KEY_COLUMNS_MAX];
        match self.find(document, &mut cuts) {
            Ok(true) => put_around(document, cuts, out),
            Ok(false) => self.put_rewritten(document, out),
            Err(Stop) => out.extend_from_slice(document),
        }
    }

    /// Finds what to cut out. `false` if one of the members comes twice.
    fn find(&self, document: &[u8], cuts: &mut Cuts) -> Result<bool, Stop> {
        let mut scanner = Scanner::new(document);
        let mut seen = [false; KEY_COLUMNS_MAX];
        let mut at = scanner.space(scanner.space(0) + 1);
        while scanner.byte(at) == Some(b'"') {
            let (start, escaped_strings) = (at, scanner.escaped_strings);
            let name_end = scanner.string(at)?;
            let escaped = scanner.escaped_strings != escaped_strings;
            let which = self.which(&document[start + 1..name_end - 1], escaped);
            let value = scanner.space(scanner.space(name_end) + 1);
            at = value_end(&mut scanner, value)?;
            if let Some(which) = which {
                if std::mem::replace(&mut seen[which], true) {
                    return Ok(false);
                }
                let json = document.get(value..at).unwrap_or_default().trim_ascii_end();
                if self.members[which].1.gives_back(json) {
                    cuts[which] = (start, value + json.len());
                }
            }
            if scanner.byte(at) == Some(b',') {
                at = scanner.space(at + 1);
            }
        }
        Ok(true)
    }

    /// Which member has this name, as written in the document.
    fn which(&self, name: &[u8], escaped: bool) -> Option<usize> {
        if escaped {
            let mut plain = Vec::with_capacity(name.len());
            put_unescaped(name, &mut plain);
            return self.which(&plain, false);
        }
        self.members.iter().position(|(known, _)| known.as_bytes() == name)
    }

    /// The same for a document that has one of the members twice, of which the last counts.
    #[cold]
    fn put_rewritten(&self, document: &[u8], out: &mut Vec<u8>) {
        let mut all = members::read(members::text(document));
        for (name, key_type) in &self.members {
            if all.get(name).is_some_and(|value| key_type.gives_back(value.as_bytes())) {
                all.remove(name);
            }
        }
        out.extend_from_slice(&members::write(&all));
    }
}

/// Where a value ends: at the comma or the brace behind it.
fn value_end(scanner: &mut Scanner<'_>, start: usize) -> Next {
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match scanner.byte(at) {
            Some(b'"') => {
                at = scanner.string(at)?;
                continue;
            }
            Some(b'{' | b'[') => depth += 1,
            None => return Ok(at),
            Some(b',' | b'}' | b']') if depth == 0 => return Ok(at),
            Some(b'}' | b']') => depth -= 1,
            Some(_) => {}
        }
        at += 1;
    }
}

/// Appends the members of an object that lie between the cuts.
fn put_around(document: &[u8], mut cuts: Cuts, out: &mut Vec<u8>) {
    cuts.sort_unstable();
    let object = document.trim_ascii_end();
    let inner = document.len() - document.trim_ascii_start().len() + 1..object.len() - 1;
    out.push(b'{');
    let mut at = inner.start;
    for (start, end) in cuts.into_iter().take_while(|cut| *cut != NOTHING).chain([(inner.end, inner.end)]) {
        put_members(&document[at..start], out);
        at = end;
    }
    out.push(b'}');
}

/// Appends members with the commas between them. The commas around them are left out.
fn put_members(members: &[u8], out: &mut Vec<u8>) {
    let members = members.trim_ascii();
    let members = members.strip_prefix(b",").unwrap_or(members);
    let members = members.strip_suffix(b",").unwrap_or(members).trim_ascii();
    if members.is_empty() {
        return;
    }
    // No member ends so.
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(members);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{DecodeLimits, Decoder};
    use millstream_model::{KeyRequest, KeySpec};
    use millstream_testkit::Cases;
    use serde_json::Value;
    use std::fmt::Write;

    fn key(text: &str) -> KeySpec {
        KeySpec::from_requests(&KeyRequest::parse_list(text).unwrap()).unwrap()
    }

    fn left(key_text: &str, document: &str) -> String {
        let left_out = LeftOut::of(DocumentForm::WithoutKey, &key(key_text).columns).unwrap();
        let mut out = b"before".to_vec();
        left_out.put(document.as_bytes(), &mut out);
        String::from_utf8(out).unwrap().strip_prefix("before").unwrap().to_owned()
    }

    #[test]
    fn members_of_the_key_are_cut_out_wherever_they_stand() {
        for (key, document, expected) in [
            ("id:text", r#"{"id":"a","n":1}"#, r#"{"n":1}"#),
            ("id:text", r#"{"n":1,"id":"a"}"#, r#"{"n":1}"#),
            ("id:text", r#"{"n":1,"id":"a","m":2}"#, r#"{"n":1,"m":2}"#),
            ("id:text", r#"{"id":"a"}"#, "{}"),
            ("id:text", " \t{ \"n\" : 1 , \"id\" : \"a\" , \"m\" : [ 2 ] } \n", r#"{"n" : 1,"m" : [ 2 ]}"#),
            ("id:text", r#"{"a":{"id":"x"},"id":"a","b":["id","x"]}"#, r#"{"a":{"id":"x"},"b":["id","x"]}"#),
            ("id:text", r#"{"a":"\"id\":\"x\",","id":"}\\","b":"{["}"#, r#"{"a":"\"id\":\"x\",","b":"{["}"#),
            ("id:text", r#"{"\u0069d":"a","n":1}"#, r#"{"n":1}"#),
            ("x=/a~1b:bigint", r#"{"a/b":7,"n":1}"#, r#"{"n":1}"#),
            ("b:bigint,a:text", r#"{"a":"x","n":1,"b":7}"#, r#"{"n":1}"#),
            ("b:bigint,a:text", r#"{"b":7,"a":"x"}"#, "{}"),
            ("a:text,at:timestamptz", r#"{"a":"x","at":"2024-01-01T00:00:00Z"}"#, r#"{"at":"2024-01-01T00:00:00Z"}"#),
        ] {
            assert_eq!(left(key, document), expected, "{document}");
        }
    }

    #[test]
    fn a_member_that_its_column_would_give_back_otherwise_stays() {
        for (key, document) in [
            ("id:text", r#"{"id":7,"n":1}"#),
            ("id:text", r#"{"n":1,"id":true}"#),
            ("id:bigint", r#"{"id":"7"}"#),
            ("id:bigint", r#"{"id":7.0}"#),
            ("id:bigint", r#"{"id":1e2}"#),
        ] {
            assert_eq!(left(key, document), document);
        }
    }

    #[test]
    fn of_a_member_that_comes_twice_the_last_counts() {
        for (document, expected) in [
            (r#"{"id":1,"n":1,"id":"a"}"#, r#"{"n":1}"#),
            (r#"{"id":"a","n":1,"\u0069d":"b"}"#, r#"{"n":1}"#),
            (r#"{"id":"a","n":1,"id":7}"#, r#"{"id":7,"n":1}"#),
        ] {
            assert_eq!(left("id:text", document), expected, "{document}");
        }
        assert_eq!(left("id:text", r#"{"n":1,"n":2,"id":"a"}"#), r#"{"n":1,"n":2}"#, "others are left as they are");
    }

    #[test]
    fn nothing_is_left_out_of_whole_documents_or_by_keys_that_cannot_give_back() {
        for (form, text) in [
            (DocumentForm::Whole, "id:text"),
            (DocumentForm::WithoutKey, "id:numeric"),
            (DocumentForm::WithoutKey, "meta.id:text"),
        ] {
            assert!(LeftOut::of(form, &key(text).columns).is_none(), "{text}");
        }
        let left_out = LeftOut::of(DocumentForm::WithoutKey, &key("b:text,a:numeric,c=d:date").columns).unwrap();
        assert_eq!(left_out.names().collect::<Vec<_>>(), ["b", "d"]);
    }

    #[test]
    fn what_is_left_and_the_key_are_the_document() {
        let spec = key("id:text,n:bigint");
        let left_out = LeftOut::of(DocumentForm::WithoutKey, &spec.columns).unwrap();
        let mut decoder = Decoder::new(&spec, DecodeLimits::default());
        let names = ["id", "n", "\\u0069d", "\\u006e", "idx", "a", ""];
        let values =
            ["\"x\"", "\"\\u0031\"", "7", "-12", "7.0", "true", "[1,{\"id\":2}]", "{\"n\":\"}\"}", "\"7\"", "null"];
        let spaces = ["", " ", "\n\t"];
        let (mut accepted, mut shorter) = (0, 0);
        for mut rng in Cases::new(4_000) {
            let mut document = "{".to_owned();
            for member in 0..rng.usize(2..7) {
                let mut some = |all: &[&'static str]| *rng.choice(all).expect("some");
                let comma = if member > 0 { "," } else { "" };
                let (space, name, value) = (some(&spaces), some(&names), some(&values));
                write!(document, "{comma}{space}\"{name}\"{space}:{space}{value}{space}").expect("a text grows");
            }
            document.push('}');
            let mut bytes = Vec::new();
            if decoder.decode(document.as_bytes(), &mut bytes).is_err() {
                continue;
            }
            accepted += 1;
            let texts = millstream_model::key_bytes::key_texts(&spec.types(), &bytes);
            let number: i64 = texts[1].parse().expect("a bigint");
            let mut back = serde_json::json!({ "id": texts[0], "n": number });
            let mut out = Vec::new();
            left_out.put(document.as_bytes(), &mut out);
            let kept: Value = serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{document}: {error}"));
            shorter += usize::from(kept.get("id").is_none());
            for (name, value) in kept.as_object().expect("an object") {
                back[name] = value.clone();
            }
            // Both keep the last of several members with one name.
            let whole: Value = serde_json::from_str(&document).expect("a document");
            assert_eq!(back, whole, "{document}: {}", String::from_utf8_lossy(&out));
        }
        // A replay has one case.
        let is_replay = std::env::var_os("MILLSTREAM_TEST_SEED").is_some();
        assert!(is_replay || shorter > 50, "{accepted} documents, of which {shorter} became shorter");
    }
}
