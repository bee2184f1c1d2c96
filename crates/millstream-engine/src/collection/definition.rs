//! The statement that creates a collection's table.

use super::storage::{FILLFACTOR, compression};
use crate::durability::Durability;
use millstream_model::{CollectionName, KeyColumn, KeySpec};
use millstream_pg::{quote_identifier, quote_name};
use millstream_store::TypedColumn;

/// `create table` for a collection: key columns, `doc jsonb not null`, the typed columns, a primary key and the checks,
/// nothing else. With `lz4`, which not every server has, long documents are compressed faster than by default.
pub fn definition(
    name: &CollectionName,
    key: &KeySpec,
    durability: &Durability,
    lz4: bool,
    typed: &[TypedColumn],
    checks: &[String],
) -> String {
    let mut lines = key_columns(key);
    lines.push(format!("doc jsonb{} not null", compression(lz4)));
    lines.extend(typed.iter().map(TypedColumn::generated));
    let key_list: Vec<String> = key.columns.iter().map(|c| quote_identifier(&c.name)).collect();
    lines.push(format!("primary key ({})", key_list.join(", ")));
    lines.extend(checks.iter().map(|expression| format!("check ({expression})")));
    format!(
        "{} {} (\n    {}\n) with (fillfactor = {FILLFACTOR})",
        durability.create_table(),
        quote_name(name),
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
    fn names_are_quoted_and_text_keys_use_collation_c() {
        let column = |name: &str, key_type| KeyColumn { name: name.into(), path: vec![name.into()], key_type };
        let key = KeySpec { columns: vec![column("De vice", KeyType::Text), column("ts", KeyType::Timestamptz)] };
        let name = CollectionName { schema: "public".into(), table: "Events".into() };
        let typed: TypedColumn = "Price:numeric=offer.price".parse().unwrap();
        let ddl = definition(&name, &key, DURABILITIES[0], true, &[typed], &["true".into()]);
        for part in [
            "\"Events\"",
            "\"De vice\" text collate \"C\" not null",
            "doc jsonb compression lz4 not null,\n    \"Price\" numeric generated always as (",
            ") stored,\n    primary key",
            "primary key (\"De vice\", \"ts\"),\n    check (true)\n)",
        ] {
            assert!(ddl.contains(part), "{ddl}");
        }
        for durability in DURABILITIES {
            let ddl = definition(&name, &key, durability, false, &[], &[]);
            assert_eq!(ddl.starts_with("create unlogged table "), durability.unlogged, "{ddl}");
        }
    }
}
