//! `merge:deep`: objects are merged member by member at every level, any other value is replaced.
//!
//! Folding is not associative. If an object is stored, `5` and then `{"x":1}` remove its members, but `{"x":1}` alone
//! keeps them. So a fold ends before such an object.

use super::{Between, Member, Mode, ModeKind};
use millstream_document::members::{is_object, put_name, read, text};
use std::borrow::Cow;
use std::collections::BTreeMap;

pub(super) static KIND: ModeKind = ModeKind {
    name: "merge:deep",
    about: "like merge, and objects inside are merged the same way",
    fold,
    cuts: Some(cuts),
    set: Some(|_, schema, new, old| format!("{schema}.merge_deep({old}, {new})")),
    between: Some(|_, schema| Between::merged(&format!("{schema}.merge_deep"), "stored.doc")),
    stores_documents: false,
    ..ModeKind::PLAIN
};

/// A value. Its objects are parsed only where something is merged into them.
enum Node<'d> {
    Text(&'d str),
    Object(BTreeMap<String, Node<'d>>),
}

impl<'d> Node<'d> {
    fn is_object(&self) -> bool {
        match self {
            Self::Text(text) => is_object(text),
            Self::Object(_) => true,
        }
    }

    /// The members of an object.
    fn members(&mut self) -> &mut BTreeMap<String, Node<'d>> {
        if let Self::Text(text) = self {
            *self = Self::Object(read(text).into_iter().map(|(name, value)| (name, Self::Text(value))).collect());
        }
        match self {
            Self::Object(members) => members,
            Self::Text(_) => unreachable!("it was taken apart"),
        }
    }

    fn merge(&mut self, new: &'d str) {
        if !(self.is_object() && is_object(new)) {
            *self = Self::Text(new);
            return;
        }
        let merged = self.members();
        for (name, value) in read(new) {
            match merged.get_mut(&name) {
                Some(node) => node.merge(value),
                None => drop(merged.insert(name, Self::Text(value))),
            }
        }
    }

    /// Whether an object in `new` would replace a value that is not an object.
    fn meets_object(&mut self, new: &str) -> bool {
        if !is_object(new) {
            return false;
        }
        if !self.is_object() {
            return true;
        }
        let merged = self.members();
        read(new).into_iter().any(|(name, value)| merged.get_mut(&name).is_some_and(|node| node.meets_object(value)))
    }

    fn write(&self, text: &mut Vec<u8>) {
        match self {
            Self::Text(value) => text.extend_from_slice(value.as_bytes()),
            Self::Object(members) => {
                text.push(b'{');
                for (name, node) in members {
                    put_name(name, text);
                    node.write(text);
                }
                text.push(b'}');
            }
        }
    }
}

fn fold<'d>(_: &Mode, members: &[Member<'d>]) -> (Cow<'d, [u8]>, usize) {
    let mut merged = Node::Text("{}");
    for member in members {
        merged.merge(text(member.document));
    }
    let mut document = Vec::new();
    merged.write(&mut document);
    (document.into(), members.len() - 1)
}

/// With a tombstone there are no cuts, because after it no member is stored that could be kept.
fn cuts(members: &[Member<'_>]) -> Vec<usize> {
    let mut cuts = Vec::new();
    if members.len() == 1 || members.iter().any(|member| member.tombstone) {
        return cuts;
    }
    let mut merged = Node::Text("{}");
    for (place, member) in members.iter().enumerate() {
        let new = text(member.document);
        if merged.meets_object(new) {
            cuts.push(place);
            merged = Node::Text("{}");
        }
        merged.merge(new);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::tests::folded;
    use millstream_model::limits::NESTING_MAX;

    #[test]
    fn objects_are_merged_at_every_level() {
        for (documents, result) in [
            (&[r#"{"a":{"x":1}}"#, r#"{"a":{"y":2}}"#][..], r#"{"a":{"x":1,"y":2}}"#),
            (
                &[r#"{"a":{"x":{"p":1}},"b":1}"#, r#"{"a":{"x":{"p":null,"q":[{}]}}}"#],
                r#"{"a":{"x":{"p":null,"q":[{}]}},"b":1}"#,
            ),
            (&[r#"{"a":{"x":1}}"#, r#"{"a":5}"#, r#"{"a":{"y":2}}"#], r#"{"a":{"y":2}}"#),
            (&[r#"{"a":[{"x":1}]}"#, r#"{"a":[{"y":1}]}"#], r#"{"a":[{"y":1}]}"#),
            (&[r#"{"a":1}"#, r#"{"a": {} }"#], r#"{"a":{}}"#),
        ] {
            assert_eq!(folded("merge:deep", documents).replace(' ', ""), result);
        }
        let deep = format!("{}1{}", r#"{"a":"#.repeat(NESTING_MAX), "}".repeat(NESTING_MAX));
        assert_eq!(folded("merge:deep", &[&deep, &deep]), deep);
    }

    #[test]
    fn a_fold_ends_before_an_object_that_replaces_another_value() {
        for (documents, cuts) in [
            (&[r#"{"a":1}"#][..], &[][..]),
            (&[r#"{"a":1}"#, r#"{"a":{}}"#, r#"{"a":{"x":1}}"#], &[1]),
            (
                &[r#"{"a":{"x":1}}"#, r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":{"y":1}}"#, r#"{"a":[]}"#, r#"{"a":{}}"#],
                &[3, 5],
            ),
            (&[r#"{"a":{"x":1}}"#, r#"{"b":1}"#, r#"{"a":{"y":1}}"#], &[]),
            (&[r#"{"a":{"x":1}}"#, r#"{"a":{"x":{}}}"#], &[1]),
        ] {
            let member = |d: &&'static str| Member { document: d.as_bytes(), version: &[], tombstone: false };
            let members: Vec<Member<'_>> = documents.iter().map(member).collect();
            assert_eq!(super::cuts(&members), cuts, "{documents:?}");
        }
    }
}
