//! `newest`: of two documents the one with the greater version is stored, of equal versions the later.

use super::{Kind, Mode};
use millstream_model::{KeyRequest, KeyType};
use millstream_pg::quote_literal;

pub(super) static KIND: Kind = Kind {
    name: "newest",
    arguments: ":PATH[:TYPE]",
    about: "the greatest version wins, of equal ones the last; an older document is stale",
    accept,
    fold: |_, members| {
        let newest = (0..members.len()).max_by_key(|&n| members[n].version).expect("a key has documents");
        (members[newest].document.into(), newest)
    },
    set: Some(|_, new, _| new.to_owned()),
    condition: Some(condition),
    left: Some(|counters| &mut counters.stale),
    versioned: true,
    ..Kind::PLAIN
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
    let (cast, collation) = match version.key_type.unwrap_or(KeyType::Text) {
        KeyType::Text => (KeyType::Text, " collate \"C\""),
        other => (other, ""),
    };
    let of = |doc: &str| {
        format!("((({doc} operator(pg_catalog.#>>) array[{names}]::pg_catalog.text[])::{}){collation})", sql_type(cast))
    };
    format!("coalesce({} operator(pg_catalog.>=) {}, true)", of(new), of(old))
}

/// The type by its name in `pg_catalog`, which a type of the user's own cannot hide.
fn sql_type(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::Text => "pg_catalog.text",
        KeyType::Bigint => "pg_catalog.int8",
        KeyType::Integer => "pg_catalog.int4",
        KeyType::Uuid => "pg_catalog.uuid",
        KeyType::Timestamptz => "pg_catalog.timestamptz",
        KeyType::Date => "pg_catalog.date",
        KeyType::Boolean => "pg_catalog.bool",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{Effect, Member};

    #[test]
    fn the_last_of_the_greatest_version_wins_and_older_ones_are_stale() {
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
            assert_eq!(mode.aside(&members[..count]), (stale, 0));
        }
    }
}
