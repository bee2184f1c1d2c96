//! `merge`: the members of the new document are put into the stored one.

use super::{Between, Member, Mode, ModeKind};
use millstream_document::members::{Members, read, text, write};
use millstream_store::Schema;
use std::borrow::Cow;

pub(super) static KIND: ModeKind = ModeKind {
    name: "merge",
    about: "the new document is merged into the stored one at the top level; null stays null, arrays are replaced",
    fold,
    set: Some(set),
    between: Some(|_, _| Between::merged("pg_catalog.jsonb_concat", OBJECT)),
    stores_documents: false,
    ..ModeKind::PLAIN
};

fn fold<'d>(_: &Mode, members: &[Member<'d>]) -> (Cow<'d, [u8]>, usize) {
    let mut merged = Members::new();
    for member in members {
        merged.extend(read(text(member.document)));
    }
    (write(&merged).into(), members.len() - 1)
}

/// A stored document that is not an object has no members to keep.
const OBJECT: &str = "case pg_catalog.jsonb_typeof(stored.doc) when 'object' then stored.doc else '{}' end";

/// A stored document that is not an object, in a table made by hand, has no members to keep.
fn set(_: &Mode, _: &Schema, new: &str, old: &str) -> String {
    format!("case pg_catalog.jsonb_typeof({old}) when 'object' then {old} operator(pg_catalog.||) {new} else {new} end")
}

#[cfg(test)]
mod tests {
    use crate::merge::tests::folded;

    #[test]
    fn later_members_win_at_the_top_level_only() {
        for (documents, result) in [
            (&[r#"{"a":1}"#, r#"{"b":2}"#][..], r#"{"a":1,"b":2}"#),
            (&[r#"{"a":{"x":1}}"#, r#"{"a":{"y":2}}"#], r#"{"a":{"y":2}}"#),
            (&[r#"{"a":1,"b":[1]}"#, r#"{"a":null,"b":[]}"#], r#"{"a":null,"b":[]}"#),
            (&["{}", " { } ", r#"{"é":"\ud83d\ude00"}"#, r#"{"\u00e9":1e400}"#], r#"{"é":1e400}"#),
            (&[r#"{"a":1,"a":2}"#, "{}"], r#"{"a":2}"#),
        ] {
            assert_eq!(folded("merge", documents), result);
        }
    }
}
