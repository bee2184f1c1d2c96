//! Finds the typed column that a document does not fit, on the server, where a value is cast as a load casts it.

use millstream_model::path_text;
use millstream_pg::{fill, quote_literal};
use millstream_store::TypedColumn;

/// Statements of PL/pgSQL that put the name of the first typed column that a document does not fit into the variable
/// `unfit`, or leave it null. `document` is the document, as SQL; `judged` is a variable of type boolean.
pub(crate) fn search(columns: &[TypedColumn], document: &str) -> String {
    let block = |column: &TypedColumn| {
        let (value, name) = (column.value(document), quote_literal(&column.name));
        fill!(include_str!("unfit_column.sql"), value, name)
    };
    columns.iter().map(block).collect()
}

/// Why a document is rejected that does not fit a column.
pub(crate) fn detail(column: &TypedColumn) -> String {
    let (name, type_name, path) = (&column.name, column.type_name(), path_text(&column.path));
    format!("column \"{name}\": expected {type_name}, but the value at {path} is not one")
}

/// Creates `pg_temp.millstream_unfit`, which returns that name.
pub(crate) fn function(columns: &[TypedColumn]) -> String {
    let all: Vec<String> =
        columns.iter().map(|column| format!("judged := ({}) is null;", column.value("document"))).collect();
    let body = fill!(include_str!("unfit_body.sql"), all = all.join("\n        "), each = search(columns, "document"));
    fill!(include_str!("unfit.sql"), body = quote_literal(&body))
}
