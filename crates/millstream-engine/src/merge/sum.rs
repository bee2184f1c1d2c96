//! `sum`: the new document takes the place of the old one, but some numbers of the two are added up.

use super::{Between, Member, Mode, ModeKind};
use crate::limits::SUM_PATHS_MAX;
use bigdecimal::BigDecimal;
use millstream_document::members::{member, nothing, put_name, text};
use millstream_model::KeyRequest;
use millstream_pg::quote_literal;
use millstream_store::Schema;
use std::borrow::Cow;

pub(super) static KIND: ModeKind = ModeKind {
    name: "sum",
    arguments: ":PATH[,PATH..]",
    about: "the new document replaces the stored one, but the numbers at these paths are added up",
    accept,
    fold,
    set: Some(set),
    between: Some(between),
    stores_documents: false,
    adds_up: true,
    ..ModeKind::PLAIN
};

fn accept(paths: &[KeyRequest]) -> Result<(), String> {
    if paths.len() > SUM_PATHS_MAX {
        return Err(format!("it has more than {SUM_PATHS_MAX} paths"));
    }
    for (n, path) in paths.iter().enumerate() {
        if path.key_type.is_some() {
            return Err("a number has no type; write sum:PATH[,PATH..]".into());
        }
        if path.path.last() != Some(&path.column) {
            return Err("a number has no column; write sum:PATH[,PATH..]".into());
        }
        for other in &paths[..n] {
            if path.path == other.path {
                return Err(format!("it has {} twice", path.path_text()));
            }
            if path.path.starts_with(&other.path) || other.path.starts_with(&path.path) {
                return Err(format!("{} lies within {}, or the other way round", path.path_text(), other.path_text()));
            }
        }
    }
    Ok(())
}

fn fold<'d>(mode: &Mode, members: &[Member<'d>]) -> (Cow<'d, [u8]>, usize) {
    let last = members.len() - 1;
    let mut document = members[last].document.to_vec();
    for path in &mode.paths {
        let sum: BigDecimal = members.iter().map(|member| amount(text(member.document), &path.path)).sum();
        document = with(text(&document), &path.path, &sum.to_plain_string());
    }
    (document.into(), last)
}

/// The number at a path; zero where there is nothing.
fn amount(document: &str, path: &[String]) -> BigDecimal {
    let value = path.iter().try_fold(document, |value, name| member(value, name));
    value.filter(|value| !nothing(Some(value))).map_or_else(BigDecimal::default, |number| {
        number.trim_ascii().parse().expect("a decoder has judged the number")
    })
}

/// The document with another value at the path, as a member at its end: of members of one name the last counts.
fn with(document: &str, path: &[String], value: &str) -> Vec<u8> {
    let object = if nothing(Some(document)) { "{}" } else { document };
    let mut text = object.trim_ascii_end().strip_suffix('}').unwrap_or("{").trim_ascii_end().as_bytes().to_vec();
    let Some((name, inner)) = path.split_first() else { return value.as_bytes().to_vec() };
    put_name(name, &mut text);
    text.extend(with(member(object, name).unwrap_or("{}"), inner, value));
    text.push(b'}');
    text
}

/// Adds on the server, in `numeric`. The cast refuses a stored value that is not a number. The order of the paths does
/// not matter, because none lies within another.
fn set(mode: &Mode, _: &Schema, new: &str, old: &str) -> String {
    mode.paths.iter().fold(new.to_owned(), |document, path| {
        let sum = format!("{} operator(pg_catalog.+) {}", number(old, &path.path), number(new, &path.path));
        let put = put("summed.doc", &path.path, &format!("pg_catalog.to_jsonb({sum})"));
        // Without `offset 0` the planner would copy the inner expression to every place where it is used.
        format!("(select {put} from (select {document} as doc offset 0) as summed)")
    })
}

/// The sums so far, each in the document that was the last one then.
fn between(mode: &Mode, _: &Schema) -> Between {
    let sum = |n: usize, path: &KeyRequest| {
        format!("pg_catalog.sum({}) over so_far as millstream_sum_{n}", number("told.doc", &path.path))
    };
    let document = mode.paths.iter().enumerate().fold("folded.doc".to_owned(), |document, (n, path)| {
        let put = put("summed.doc", &path.path, &format!("pg_catalog.to_jsonb(folded.millstream_sum_{n})"));
        format!("(select {put} from (select {document} as doc offset 0) as summed)")
    });
    Between {
        create: String::new(),
        first: "stored.doc",
        so_far: mode.paths.iter().enumerate().map(|(n, path)| sum(n, path)).collect::<Vec<_>>().join(",\n        "),
        document,
    }
}

/// The number at a path, as SQL. Null is replaced before the cast, because server versions cast a jsonb null
/// differently.
fn number(document: &str, path: &[String]) -> String {
    let value = path.iter().fold(document.to_owned(), |value, name| {
        format!("({value} operator(pg_catalog.->) {}::pg_catalog.text)", quote_literal(name))
    });
    format!("coalesce(nullif({value}, 'null'::pg_catalog.jsonb)::pg_catalog.numeric, 0)")
}

/// The document with another value at a path, as SQL.
fn put(document: &str, path: &[String], value: &str) -> String {
    let Some((name, inner)) = path.split_first() else { return value.to_owned() };
    let name = quote_literal(name);
    let object = "'{}'::pg_catalog.jsonb";
    let child = format!(
        "coalesce(nullif({document} operator(pg_catalog.->) {name}::pg_catalog.text, 'null'::pg_catalog.jsonb), {object})"
    );
    format!(
        "{document} operator(pg_catalog.||) pg_catalog.jsonb_build_object({name}::pg_catalog.text, {})",
        put(&child, inner, value)
    )
}

#[cfg(test)]
mod tests {
    use crate::merge::tests::folded;

    #[test]
    fn numbers_are_added_exactly_in_the_last_document() {
        for (mode, documents, result) in [
            ("sum:n", &[r#"{"n":1,"a":1}"#, r#"{"n":2.50,"b":2}"#][..], r#"{"n":2.50,"b":2,"n":3.50}"#),
            ("sum:n", &[r#"{"n":0.1}"#, r#"{"n":0.2}"#, " { } "], r#" {"n":0.3}"#),
            ("sum:n", &[r#"{"n":null}"#, r#"{"n":1,"n":null}"#], r#"{"n":1,"n":null,"n":0}"#),
            ("sum:n", &[r#"{"n":9007199254740993}"#, r#"{"n":1e20}"#], r#"{"n":1e20,"n":100009007199254740993}"#),
            ("sum:a.n", &[r#"{"a":{"n":-1}}"#, "{}"], r#"{"a":{"n":-1}}"#),
            ("sum:a.n,a.m", &[r#"{"a":{"n":1}}"#, r#"{"a":null}"#], r#"{"a":null,"a":{"n":1},"a":{"n":1,"m":0}}"#),
        ] {
            assert_eq!(folded(mode, documents), result);
        }
    }
}
