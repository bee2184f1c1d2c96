//! The whole documents of a collection, whatever it stores of them.

use millstream_model::{DocumentForm, KeyColumn};
use millstream_pg::{quote_identifier, quote_literal};

/// SQL for the document of a row: its `doc`, with the members that only the columns of its key have. `row` is the alias of
/// the table, or of what is read in its place. If `doc` has such a member itself, that one counts. An adopted table may hold
/// values that are no objects, which have no members.
pub fn whole_document(form: DocumentForm, key: &[KeyColumn], row: &str) -> String {
    let member = |column: &&KeyColumn| {
        let name = column.path.first().map_or_else(String::new, |name| quote_literal(name));
        format!("{name}::pg_catalog.text, {row}.{}", quote_identifier(&column.name))
    };
    let members: Vec<String> = form.left_out(key).iter().map(member).collect();
    if members.is_empty() {
        return format!("{row}.doc");
    }
    let members = format!("pg_catalog.jsonb_build_object({})", members.join(", "));
    format!(
        "(case pg_catalog.jsonb_typeof({row}.doc) when 'object' then {members} operator(pg_catalog.||) {row}.doc \
         else {row}.doc end)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyType;

    #[test]
    fn members_of_the_key_are_put_back_under_doc() {
        let column =
            |name: &str, member: &str, key_type| KeyColumn { name: name.into(), path: vec![member.into()], key_type };
        let key = [column("De", "a'b", KeyType::Text), column("at", "at", KeyType::Timestamp)];
        assert_eq!(whole_document(DocumentForm::Whole, &key, "t"), "t.doc");
        assert_eq!(
            whole_document(DocumentForm::WithoutKey, &key, "t"),
            "(case pg_catalog.jsonb_typeof(t.doc) when 'object' then \
             pg_catalog.jsonb_build_object('a''b'::pg_catalog.text, t.\"De\") operator(pg_catalog.||) t.doc else t.doc end)"
        );
    }
}
