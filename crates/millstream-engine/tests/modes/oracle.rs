//! What a table holds when documents take effect one after the other, in plain Rust.

use super::value::{Json, Object};
use std::collections::BTreeMap;

/// The table, and what a mode remembers besides it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oracle {
    pub(crate) rows: BTreeMap<&'static str, Object>,
    /// Greatest versions of tombstones.
    deleted: BTreeMap<&'static str, Option<String>>,
    pub(crate) rejected: u64,
}

impl Oracle {
    /// Lets a document take effect. `refuses`: the table has the constraint that [`REFUSED`] names.
    pub(crate) fn apply(&mut self, mode: &str, deletes: bool, refuses: bool, document: &Object) {
        let Some(Json::Text(key)) = document.get("id") else { panic!("every document has a key") };
        let (mode, path) = mode.split_once(':').unwrap_or((mode, ""));
        let tombstone = deletes && document.get("op") == Some(&Json::Text("d"));
        let version = version(document, path);
        if mode == "newest" && version.is_none()
            || mode == "sum" && !tombstone && !path.split(',').all(|path| summable(document, path))
        {
            self.rejected += 1;
            return;
        }
        // PostgreSQL checks what an upsert would insert before it looks for a stored row.
        if refuses && !tombstone && refused(document) {
            self.rejected += 1;
            return;
        }
        let old = self.rows.get(key);
        if mode == "newest" {
            let stored = old.map(|old| self::version(old, path));
            if stored.as_ref().max(self.deleted.get(key)).is_some_and(|newest| version < *newest) {
                return;
            }
            if tombstone {
                self.deleted.insert(key, version);
            }
        }
        if tombstone {
            self.rows.remove(key);
            return;
        }
        let new = match (mode, old) {
            ("keep", Some(old)) => old.clone(),
            ("merge", Some(old)) if path == "deep" => deep(old, document),
            ("merge", Some(old)) => old.iter().chain(document).map(|(k, v)| (*k, v.clone())).collect(),
            ("sum", Some(old)) => path.split(',').fold(document.clone(), |new, path| added(old, &new, path)),
            _ => document.clone(),
        };
        self.rows.insert(key, new);
    }
}

fn refused(document: &Object) -> bool {
    document.get("bad") == Some(&Json::Text("bad"))
}

/// The constraint of a table that refuses documents.
pub(crate) const CHECKED: &str = "doc ->> 'bad' is distinct from 'bad'";

/// A version that is a number in a string, and its thousandths.
pub(crate) const DECIMAL: (&str, i64) = ("09.750", 9_750);

/// A version as a text that sorts as the type does. Numbers that are not compared as decimals have one digit, so that
/// texts and numbers sort alike.
fn version(document: &Object, path: &str) -> Option<String> {
    let decimal = |milli: i64| format!("{:09}", milli + 1_000_000);
    match (document.get("v"), path) {
        (Some(Json::Number(milli)), "v:numeric") => Some(decimal(*milli)),
        (Some(Json::Text(text)), "v:numeric") => (*text == DECIMAL.0).then(|| decimal(DECIMAL.1)),
        (Some(Json::Number(milli)), _) => Some((milli / 1000).to_string()),
        (Some(Json::Text(text)), "v:text") => Some((*text).to_owned()),
        _ => None,
    }
}

fn deep(old: &Object, new: &Object) -> Object {
    let mut merged = old.clone();
    for (name, value) in new {
        let value = match (old.get(name), value) {
            (Some(Json::Object(old)), Json::Object(new)) => Json::Object(deep(old, new)),
            _ => value.clone(),
        };
        merged.insert(name, value);
    }
    merged
}

/// The value at a path within objects; the error is another value in its way.
fn at<'o>(document: &'o Object, path: &str) -> Result<Option<&'o Json>, ()> {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    match document.get(name).filter(|value| **value != Json::Null) {
        Some(Json::Object(inner)) if !rest.is_empty() => at(inner, rest),
        Some(_) if !rest.is_empty() => Err(()),
        value => Ok(value),
    }
}

fn summable(document: &Object, path: &str) -> bool {
    matches!(at(document, path), Ok(None | Some(Json::Number(_))))
}

fn amount(document: &Object, path: &str) -> i64 {
    match at(document, path) {
        Ok(Some(Json::Number(milli))) => *milli,
        _ => 0,
    }
}

fn added(old: &Object, new: &Object, path: &str) -> Object {
    put(new, path, amount(old, path) + amount(new, path))
}

fn put(document: &Object, path: &str, milli: i64) -> Object {
    let mut changed = document.clone();
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = document.keys().copied().chain(["n", "m", "a"]).find(|known| *known == name).expect("a known name");
    let value = match (rest, document.get(name)) {
        ("", _) => Json::Number(milli),
        (_, Some(Json::Object(inner))) => Json::Object(put(inner, rest, milli)),
        _ => Json::Object(put(&Object::new(), rest, milli)),
    };
    changed.insert(name, value);
    changed
}
