//! What the schemas of the sources say about the members of documents.

use crate::error::Error;
use crate::feed::Feed;
use crate::request::LoadRequest;
use millstream_document::source::SchemaColumn;

/// Types of numbers: of two whole ones, `bigint` takes both, and of any two, `numeric`.
const WHOLE: [&str; 2] = ["integer", "bigint"];
const NUMBERS: [&str; 4] = ["integer", "bigint", "double precision", "numeric"];

/// Members of documents and their types, from the schemas of all sources. None if a source has no schema, and none that a
/// transform writes. The feed must have given its sample.
///
/// # Errors
/// A source cannot be read. [`Error::Refused`] when two schemas differ in a member that is wanted; `hint` says what to do.
pub(super) async fn members(
    request: &LoadRequest,
    feed: &mut Feed,
    wanted: impl Fn(&str) -> bool,
    hint: impl Fn(&str) -> String,
) -> Result<Vec<SchemaColumn>, Error> {
    let is_wanted = |name: &str| wanted(name) && !request.transforms.iter().any(|transform| transform.writes(name));
    // Each with the source that has it first.
    let mut members: Vec<(SchemaColumn, usize)> = Vec::new();
    for (source, schema) in feed.schemas().await? {
        for column in schema.into_iter().filter(|column| is_wanted(&column.name)) {
            let Some((known, first)) = members.iter_mut().find(|(known, _)| known.name == column.name) else {
                members.push((column, source));
                continue;
            };
            known.type_name = common(known.type_name, column.type_name).map_err(|[a, b]| {
                let name = |source: usize| request.sources.get(source).map_or("", String::as_str);
                let (first, other, member) = (name(*first), name(source), &column.name);
                let problem = format!("by their schemas, member \"{member}\" is {a} in {first} and {b} in {other}");
                Error::refused(problem, hint(member))
            })?;
            known.is_exact &= column.is_exact;
        }
    }
    Ok(members.into_iter().map(|(column, _)| column).collect())
}

/// The type that takes the values of both. `None`: the values decide.
///
/// # Errors
/// There is none.
fn common(one: Option<&'static str>, other: Option<&'static str>) -> Result<Option<&'static str>, [&'static str; 2]> {
    let (Some(a), Some(b)) = (one, other) else { return Ok(None) };
    let both = |types: &[&str]| types.contains(&a) && types.contains(&b);
    match a == b {
        true => Ok(one),
        false if both(&WHOLE) => Ok(Some("bigint")),
        false if both(&NUMBERS) => Ok(Some("numeric")),
        false => Err([a, b]),
    }
}

/// Why a column has the type that the schema says.
pub(super) fn reason(column: &SchemaColumn) -> String {
    format!("{}, by the schema", column.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_several_files_have_one_in_common_or_none() {
        for (one, other, expected) in [
            ("text", "text", Some("text")),
            ("integer", "bigint", Some("bigint")),
            ("bigint", "double precision", Some("numeric")),
            ("numeric", "integer", Some("numeric")),
            ("text", "bigint", None),
            ("timestamp", "timestamptz", None),
        ] {
            for (a, b) in [(one, other), (other, one)] {
                assert_eq!(common(Some(a), Some(b)).ok(), expected.map(Some), "{a} {b}");
            }
            assert_eq!((common(Some(one), None), common(None, Some(one))), (Ok(None), Ok(None)));
        }
    }
}
