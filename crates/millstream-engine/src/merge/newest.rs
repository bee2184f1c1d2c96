//! `newest`: the document with the greater version is stored; of equal versions, the later document.

use super::version::sql_type;
use super::{Mode, ModeKind};
use millstream_model::{KeyRequest, KeyType};
use millstream_pg::quote_literal;

pub(super) static KIND: ModeKind = ModeKind {
    name: "newest",
    arguments: ":PATH[:TYPE]",
    about: "the new document replaces the stored one; a document with an older version is stale and dropped",
    accept,
    fold: |_, members| {
        let newest = (0..members.len()).max_by_key(|&n| members[n].version).expect("a key has documents");
        (members[newest].document.into(), newest)
    },
    set: Some(|_, _, new, _| new.to_owned()),
    condition: Some(condition),
    versioned: true,
    ..ModeKind::PLAIN
};

fn accept(paths: &[KeyRequest]) -> Result<(), String> {
    match paths {
        [path] if path.path.last() == Some(&path.column) => Ok(()),
        [_] => Err("a version has no column; write newest:PATH[:TYPE]".into()),
        _ => Err("a version is found at one path".into()),
    }
}

/// A stored document without a version is older than any other.
fn condition(mode: &Mode, new: &str, old: &str) -> String {
    let version = mode.version().expect("it is one of the arguments");
    let names: Vec<String> = version.path.iter().map(|name| quote_literal(name)).collect();
    let names = names.join(", ");
    let text = |doc: &str| format!("({doc} operator(pg_catalog.#>>) array[{names}]::pg_catalog.text[])");
    let (new, old) = (text(new), text(old));
    let version_type = mode.version_type().unwrap_or_default();
    let cast = sql_type(version_type);
    let newer = match version_type.0 {
        KeyType::Timestamptz | KeyType::Timestamp => times(&new, &old, cast),
        KeyType::Text => {
            format!("({new} collate \"C\") operator(pg_catalog.>=) ({old} collate \"C\")")
        }
        _ => format!("{new}::{cast} operator(pg_catalog.>=) {old}::{cast}"),
    };
    format!("coalesce({newer}, true)")
}

/// The server rounds times to microseconds. Rounding never reverses their order. So the digits after the microseconds
/// are compared only if two rounded times are equal.
fn times(new: &str, old: &str, cast: &str) -> String {
    let exact = |text: &str| {
        format!(
            "row(pg_catalog.regexp_replace({text}, '(?<=[.][0-9]{{6}})[0-9]+', '')::{cast}, \
             pg_catalog.rtrim(coalesce(pg_catalog.substring({text}, '[.][0-9]{{6}}([0-9]+)'), ''), '0') collate \"C\")"
        )
    };
    format!(
        "case {cast}_cmp({new}::{cast}, {old}::{cast}) when 1 then true when -1 then false \
         when 0 then {} operator(pg_catalog.>=) {} end",
        exact(new),
        exact(old)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{Effect, Member};

    #[test]
    fn the_last_document_of_the_greatest_version_wins() {
        let mode: Mode = "newest:v".parse().unwrap();
        let member = |document: &'static str, version: &'static str, tombstone| Member {
            document: document.as_bytes(),
            version: version.as_bytes(),
            tombstone,
        };
        let members = [
            member("first", "2", false),
            member("older", "1", false),
            member("deleted", "3", true),
            member("late", "2", false),
            member("again", "3", false),
        ];
        for (count, document, stale, effect) in [
            (1, "first", 0, Effect::Merge),
            (2, "first", 1, Effect::Merge),
            (3, "deleted", 1, Effect::Delete),
            (4, "deleted", 2, Effect::Delete),
            (5, "again", 2, Effect::Merge),
        ] {
            let folded = mode.fold(&members[..count]);
            assert_eq!((&*folded.document, folded.effect), (document.as_bytes(), effect));
            assert_eq!(mode.count_skipped(&members[..count]), (stale, 0));
        }
    }
}
