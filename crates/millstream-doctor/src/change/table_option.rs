//! Options of tables, such as their own thresholds of autovacuum.

use super::session::{identity, open, parts, refusal};
use millstream_change::{Answer, Kind, Measurable, Place, Sides};
use millstream_model::{Change, Refusal};
use millstream_pg::quote_literal;

/// An option of a table by `DATABASE/SCHEMA.TABLE/OPTION`, the table quoted as SQL needs it. No value: the server's
/// setting counts.
#[derive(Debug)]
pub struct TableOptionKind;

impl Kind for TableOptionKind {
    fn name(&self) -> &'static str {
        "table-option"
    }

    fn is_of_server(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let (database, table, option) = table_parts(target)?;
            let sql = "select o.option_value from pg_class as c, pg_options_to_table(c.reloptions) as o \
                       where c.oid = $1::text::regclass and o.option_name = $2";
            let session = open(place, Some(database)).await?;
            let row = session.client.query_opt(sql, &[&table, &option]).await.map_err(refusal)?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let (database, table, option) = table_parts(target)?;
            let change = match value {
                Some(value) => format!("set ({option} = {})", quote_literal(value)),
                None => format!("reset ({option})"),
            };
            let session = open(place, Some(database)).await?;
            session.client.batch_execute(&format!("alter table {table} {change}")).await.map_err(refusal)
        })
    }

    fn identity<'a>(&'a self, place: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(identity(place))
    }

    fn measurable(&self) -> Option<&dyn Measurable> {
        Some(self)
    }
}

impl Measurable for TableOptionKind {
    fn shows(&self, change: &Change) -> bool {
        change.target.ends_with("/fillfactor")
    }

    fn sides<'a>(&'a self, _: &'a Place, change: &'a Change, before: Option<&'a str>) -> Answer<'a, Sides> {
        let fillfactor = |value: &str| format!("fillfactor = {value}\n");
        Box::pin(async move { Ok(Sides::of(change, before.unwrap_or("100"), fillfactor)) })
    }
}

/// Database, table and option of a target. An option's name has only letters and underscores.
fn table_parts(target: &str) -> Result<(&str, &str, &str), Refusal> {
    let (database, rest) = parts(target)?;
    let plain = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let (table, option) = rest.rsplit_once('/').ok_or_else(|| Refusal::new(format!("{target} has no option")))?;
    match Some(option).filter(plain) {
        Some(option) => Ok((database, table, option)),
        None => Err(Refusal::new(format!("{option} is not an option of a table"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_database_table_and_option() {
        let target = "shop/public.\"a/b\"/autovacuum_enabled";
        assert_eq!(table_parts(target), Ok(("shop", "public.\"a/b\"", "autovacuum_enabled")));
        for wrong in ["shop", "shop/public.t", "shop/public.t/fillfactor); drop table t; --"] {
            assert!(table_parts(wrong).is_err(), "{wrong}");
        }
    }
}
