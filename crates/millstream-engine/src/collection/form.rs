//! What a collection stores of its documents, and whether a load fits that.

use crate::error::Error;
use crate::merge::Mode;
use crate::request::LoadRequest;
use millstream_model::{DocumentForm, KEY_TYPES, KeyColumn, KeySpec};
use millstream_pg::{quote_identifier, quote_name};
use millstream_store::{Known, TypedColumn};

/// What the collection stores of the documents of a load: as recorded, or if nothing is recorded, as the request asks.
///
/// # Errors
/// [`Error::Collection`] when the request asks for something else than is recorded, or for what cannot be left out, or when
/// a column would not give back what was left out any more.
pub(super) fn agreed(
    request: &LoadRequest,
    known: Option<&Known>,
    key: &KeySpec,
    mode: &Mode,
    columns: &[TypedColumn],
) -> Result<DocumentForm, Error> {
    let refuse =
        |problem: String, hint: String| Error::Collection { collection: request.collection.clone(), problem, hint };
    let recorded = known.map(|known| known.doc);
    if let (Some(asked), Some(recorded)) = (request.doc, recorded)
        && asked != recorded
    {
        let is = match recorded {
            DocumentForm::Whole => "whole",
            DocumentForm::WithoutKey => "without their key",
        };
        return Err(refuse(
            format!("its documents are stored {is}, and --doc {} asks for something else", asked.name()),
            "leave out --doc, or load into another collection".to_owned(),
        ));
    }
    if let Some((was, now)) = known.and_then(|known| altered_type(known, key)) {
        let (column, kept) = (quote_identifier(&was.name), was.key_type.column());
        let collation = if kept.is_text() { " collate \"C\"" } else { "" };
        return Err(refuse(
            format!(
                "its documents are stored without {}, which the column {} of type {kept} gave back; it has the type {} now",
                was.path_text(),
                was.name,
                now.key_type
            ),
            format!(
                "alter table {} alter column {column} type {kept}{collation} using {column}::{kept}; \
                 or load into another collection",
                quote_name(&request.collection)
            ),
        ));
    }
    let form = recorded.or(request.doc).unwrap_or_default();
    let left_out = form.left_out(&key.columns);
    if form == DocumentForm::WithoutKey && left_out.is_empty() {
        return Err(refuse(
            "--doc without-key leaves nothing out: no column of the key has a member at the top level that it can give back"
                .to_owned(),
            format!("leave out --doc; such a column is of type {}", types()),
        ));
    }
    let lies_in = |path: &[String]| left_out.iter().copied().find(|column| path.starts_with(&column.path));
    if let Some((version, column)) = mode.version().and_then(|version| Some((version, lies_in(&version.path)?))) {
        return Err(refuse(
            format!(
                "--mode {} compares versions at {}, which its stored documents lack: the column {} has it",
                mode.name(),
                version.path_text(),
                column.name
            ),
            "compare versions at another path; or load into a collection of whole documents".to_owned(),
        ));
    }
    if let Some((typed, column)) = columns.iter().find_map(|typed| Some((typed, lies_in(&typed.path)?))) {
        return Err(refuse(
            format!(
                "the typed column {} would always be null: {} is left out of the stored documents, and the column {} has it",
                typed.name,
                column.path_text(),
                column.name
            ),
            format!(
                "leave out the column {}; with --columns all, name the others: --column NAME:TYPE=PATH",
                typed.name
            ),
        ));
    }
    Ok(form)
}

/// A column of the key that has got a type which does not give back what was left out, as it was and as it is.
fn altered_type<'k>(known: &'k Known, key: &'k KeySpec) -> Option<(&'k KeyColumn, &'k KeyColumn)> {
    known.doc.left_out(&known.key.columns).into_iter().find_map(|was| {
        let now = key.columns.iter().find(|now| now.name == was.name)?;
        (!was.key_type.gives_back_as(now.key_type)).then_some((was, now))
    })
}

/// A warning if checks may expect members that are left out.
pub(super) fn warning(form: DocumentForm, key: &KeySpec, has_checks: bool) -> Option<String> {
    let left_out = form.left_out(&key.columns);
    let columns: Vec<&str> = left_out.iter().map(|column| column.name.as_str()).collect();
    (has_checks && !columns.is_empty()).then(|| {
        format!(
            "checks see doc as it is stored, without what the key has: let them use the columns ({})",
            columns.join(", ")
        )
    })
}

/// A warning if a trigger may change the columns that give members back.
pub(super) fn altered(form: DocumentForm, alters_rows: bool) -> Option<String> {
    let text =
        "a trigger of the table may change the columns of the key: documents come back with the key that is stored";
    (alters_rows && form == DocumentForm::WithoutKey).then(|| text.to_owned())
}

/// The reasons for the types of the key's columns, with those of the columns whose members are left out.
pub(super) fn noted(form: DocumentForm, key: &KeySpec, reasons: Vec<String>) -> Vec<String> {
    let left_out = form.left_out(&key.columns);
    let both = reasons.into_iter().zip(&key.columns);
    both.map(|(reason, column)| match left_out.contains(&column) {
        true => format!("{reason}, left out of doc"),
        false => reason,
    })
    .collect()
}

/// The types of columns that can give back their values.
fn types() -> String {
    let types = KEY_TYPES.iter().filter(|key_type| key_type.can_give_back());
    types.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyRequest;
    use millstream_pg::Explained as _;

    const ID: &str = "id:text";

    fn found(
        key: &str,
        mode: &str,
        columns: &[&str],
        asked: Option<DocumentForm>,
        recorded: Option<DocumentForm>,
    ) -> Result<DocumentForm, String> {
        let known = recorded.map(|doc| Known { key: spec(key), doc });
        refused_or_found(key, mode, columns, asked, known.as_ref()).map_err(|error| error.to_string())
    }

    fn refused_or_found(
        key: &str,
        mode: &str,
        columns: &[&str],
        asked: Option<DocumentForm>,
        known: Option<&Known>,
    ) -> Result<DocumentForm, Error> {
        let requested = KeyRequest::parse_list(key).unwrap();
        let mut request = LoadRequest::new("t".parse().unwrap(), requested, Vec::new());
        request.doc = asked;
        let columns: Vec<TypedColumn> = columns.iter().map(|text| text.parse().unwrap()).collect();
        let found = agreed(&request, known, &spec(key), &mode.parse().unwrap(), &columns);
        found.inspect_err(|error| assert!(error.hint().is_some(), "{error}"))
    }

    fn spec(key: &str) -> KeySpec {
        KeySpec::from_requests(&KeyRequest::parse_list(key).unwrap()).unwrap()
    }

    #[test]
    fn a_type_that_gives_back_other_values_is_refused() {
        let known = |key| Known { key: spec(key), doc: DocumentForm::WithoutKey };
        for (was, now) in [("id:bigint,n:text", "id:numeric,n:text"), ("id:bigint", "id:text"), ("id:text", "id:uuid")]
        {
            let error = refused_or_found(now, "replace", &[], None, Some(&known(was))).unwrap_err();
            assert!(error.to_string().contains("are stored without id, which the column id of type"), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("alter column \"id\" type")), "{error}");
        }
        for (was, now) in
            [("id:integer", "id:bigint"), ("id:varchar(9)", "id:text"), ("n:numeric,id:text", "n:text,id:text")]
        {
            assert!(refused_or_found(now, "replace", &[], None, Some(&known(was))).is_ok(), "{was}");
        }
        let whole = Known { doc: DocumentForm::Whole, ..known("id:bigint") };
        assert!(refused_or_found("id:text", "replace", &[], None, Some(&whole)).is_ok());
    }

    #[test]
    fn what_is_recorded_wins_and_anything_else_is_refused() {
        use DocumentForm::{Whole, WithoutKey};
        for (asked, recorded, expected) in [
            (None, None, Some(Whole)),
            (Some(WithoutKey), None, Some(WithoutKey)),
            (Some(Whole), None, Some(Whole)),
            (None, Some(WithoutKey), Some(WithoutKey)),
            (Some(WithoutKey), Some(WithoutKey), Some(WithoutKey)),
            (Some(Whole), Some(WithoutKey), None),
            (Some(WithoutKey), Some(Whole), None),
        ] {
            let agreed = found(ID, "replace", &[], asked, recorded);
            assert_eq!(agreed.as_ref().ok().copied(), expected, "{agreed:?}");
            assert!(agreed.is_ok() || agreed.is_err_and(|error| error.contains("asks for something else")));
        }
    }

    #[test]
    fn what_needs_a_member_that_is_left_out_is_refused() {
        for (key, mode, columns, part) in [
            ("id:numeric", "replace", &[][..], "leaves nothing out"),
            ("meta.id:text", "replace", &[], "leaves nothing out"),
            (ID, "newest:id", &[], "compares versions at id"),
            (ID, "newest:v", &["n:bigint=n"], ""),
            (ID, "replace", &["n:bigint=n", "again:text=id"], "the typed column again would always be null"),
            ("id:text,at:timestamptz", "replace", &["when:timestamptz=at"], ""),
            ("id:text,meta.n:bigint", "replace", &["n2:bigint=meta.n"], ""),
        ] {
            let agreed = found(key, mode, columns, Some(DocumentForm::WithoutKey), None);
            match part {
                "" => assert_eq!(agreed, Ok(DocumentForm::WithoutKey)),
                part => assert!(agreed.as_ref().is_err_and(|error| error.contains(part)), "{agreed:?}"),
            }
            assert_eq!(found(key, mode, columns, None, None), Ok(DocumentForm::Whole));
        }
    }

    #[test]
    fn the_reasons_name_the_columns_whose_members_are_left_out() {
        let spec = KeySpec::from_requests(&KeyRequest::parse_list("id:text,n:numeric").unwrap()).unwrap();
        let reasons = vec!["id text".to_owned(), "n numeric".to_owned()];
        let noted = noted(DocumentForm::WithoutKey, &spec, reasons.clone());
        assert_eq!(noted, ["id text, left out of doc", "n numeric"]);
        assert_eq!(super::noted(DocumentForm::Whole, &spec, reasons.clone()), reasons);
        assert!(warning(DocumentForm::WithoutKey, &spec, true).is_some_and(|warning| warning.contains("(id)")));
        assert!(warning(DocumentForm::WithoutKey, &spec, false).is_none());
        assert!(warning(DocumentForm::Whole, &spec, true).is_none());
        assert!(altered(DocumentForm::WithoutKey, true).is_some());
        assert!(altered(DocumentForm::WithoutKey, false).or(altered(DocumentForm::Whole, true)).is_none());
    }
}
