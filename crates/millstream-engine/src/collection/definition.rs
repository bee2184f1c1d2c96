//! The statement that makes a collection's table.

use crate::durability::Durability;
use millstream_model::{CollectionName, KeyColumn, KeySpec};
use millstream_pg::{quote_identifier, quote_qualified};

/// Percent of a page that inserts fill. With a full page an update moves its row to another page and
/// adds an index entry; room on the page lets it stay, at the price of a larger table for those who
/// only insert. Measured with a million 150-byte documents under random keys, PostgreSQL 15, batches
/// of 50,000. Changed waves in the order of the first, where a batch updates whole pages at once: 90
/// costs an insert-only table 9 % of its size (table and index) and saves a fifth of the WAL of the
/// fifth wave; 70 costs 40 % and saves two fifths; 50 doubles the table and makes every update stay.
/// In another order 90 lets the table grow by a tenth in all, 75 not at all and is 5 to 10 % faster.
pub const FILLFACTOR: u8 = 90;

/// `create table` for a collection: key columns, `doc jsonb not null`, a primary key, what is checked,
/// nothing else. `lz4` compresses long documents faster than the default where the server has it.
pub fn definition(
    name: &CollectionName,
    key: &KeySpec,
    durability: &Durability,
    lz4: bool,
    checks: &[String],
) -> String {
    let mut lines = key_columns(key);
    let compression = if lz4 { " compression lz4" } else { "" };
    lines.push(format!("doc jsonb{compression} not null"));
    let kind = if durability.unlogged { "unlogged table" } else { "table" };
    let key_list: Vec<String> = key.columns.iter().map(|c| quote_identifier(&c.name)).collect();
    lines.push(format!("primary key ({})", key_list.join(", ")));
    lines.extend(checks.iter().map(|expression| format!("check ({expression})")));
    format!(
        "create {kind} {} (\n    {}\n) with (fillfactor = {FILLFACTOR})",
        quote_qualified(&name.schema, &name.table),
        lines.join(",\n    ")
    )
}

/// The definitions of the key's columns. Text is in byte order, which is the order of batches.
pub(crate) fn key_columns(key: &KeySpec) -> Vec<String> {
    let definition = |column: &KeyColumn| {
        let collate = if column.key_type.is_text() { " collate \"C\"" } else { "" };
        format!("{} {}{collate} not null", quote_identifier(&column.name), column.key_type.column())
    };
    key.columns.iter().map(definition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::DURABILITIES;
    use millstream_model::KeyType;

    #[test]
    fn names_are_quoted_and_text_is_in_byte_order() {
        let column = |name: &str, key_type| KeyColumn { name: name.into(), path: vec![name.into()], key_type };
        let key = KeySpec { columns: vec![column("De vice", KeyType::Text), column("ts", KeyType::Timestamptz)] };
        let name = CollectionName { schema: "public".into(), table: "Events".into() };
        let ddl = definition(&name, &key, DURABILITIES[0], true, &["true".into()]);
        for part in [
            "\"Events\"",
            "\"De vice\" text collate \"C\" not null",
            "doc jsonb compression lz4 not null",
            "primary key (\"De vice\", \"ts\"),\n    check (true)\n)",
        ] {
            assert!(ddl.contains(part), "{ddl}");
        }
        for durability in DURABILITIES {
            let ddl = definition(&name, &key, durability, false, &[]);
            assert_eq!(ddl.starts_with("create unlogged table "), durability.unlogged, "{ddl}");
        }
    }
}
