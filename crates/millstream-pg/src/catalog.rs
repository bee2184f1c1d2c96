//! The facts of a table that a loader needs, read from the system catalog.

use serde::Deserialize;
use tokio_postgres::GenericClient;

use crate::error::Error;
use crate::json_rows::json_rows;

/// A table as the catalog describes it, and what the current role may do with it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Table {
    /// Its identity. A table that was dropped and created again has another one.
    pub oid: u32,
    /// The schema's name.
    pub schema: String,
    /// The table's name.
    pub name: String,
    /// `r` table, `p` partitioned table, `v` view, `m` materialized view, `f` foreign table, `S` sequence, `i` index, ..
    pub kind: char,
    /// `p` permanent, `u` unlogged, `t` temporary.
    pub persistence: char,
    /// Other tables inherit from it (partitions included).
    pub has_children: bool,
    /// Of a partitioned table, its partitions at any depth that are foreign tables, quoted and with schema.
    pub foreign_partitions: Vec<String>,
    /// Of a partitioned table, its partitions at any depth that are unlogged, quoted and with schema.
    pub unlogged_partitions: Vec<String>,
    /// The owner's name.
    pub owner: String,
    /// Columns in order, without dropped ones.
    #[serde(skip)]
    pub columns: Vec<Column>,
    /// Unique indexes that `on conflict (columns)` can name, the primary key first.
    #[serde(skip)]
    pub unique_indexes: Vec<UniqueIndex>,
    /// Constraints and unique indexes that `on conflict` cannot name, each as SQL: deferrable, partial, on expressions,
    /// invalid, exclusion.
    #[serde(skip)]
    pub other_unique: Vec<String>,
    /// Names of the indexes of `other_unique`.
    #[serde(skip)]
    pub other_unique_names: Vec<String>,
    /// Name of the primary key, if `on conflict` cannot name it: deferrable, or invalid.
    #[serde(skip)]
    pub other_primary: Option<String>,
    /// Number of indexes that are not in `unique_indexes`.
    #[serde(skip)]
    pub other_indexes: i64,
    /// The user's triggers that are not disabled, without those of foreign keys. For a partitioned table also those
    /// that only a partition has.
    #[serde(skip)]
    pub triggers: Vec<Trigger>,
    /// Names of rewrite rules.
    pub rules: Vec<String>,
    /// Names of CHECK constraints.
    pub checks: Vec<String>,
    /// Names of the foreign keys of this table.
    pub foreign_keys: Vec<String>,
    /// Row-level security.
    #[serde(flatten)]
    pub row_security: RowSecurity,
    /// What the current role may do.
    #[serde(flatten)]
    pub privileges: Privileges,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type's OID; a domain has its own.
    pub type_oid: u32,
    /// The type as SQL writes it, such as `numeric(10,2)`.
    pub type_name: String,
    /// The type under a domain, or the type itself.
    pub base_type_oid: u32,
    /// That type as SQL writes it, such as `numeric(10,2)`.
    pub base_type_name: String,
    /// The collation, if the type has one: schema and name, such as `pg_catalog` and `C`.
    pub collation: Option<(String, String)>,
    /// Whether values that are equal under the collation have equal bytes.
    pub deterministic: bool,
    /// Declared not null (also by the primary key).
    pub not_null: bool,
    /// It has a default, or an identity or generation that works like one.
    pub has_default: bool,
    /// Computed from other columns: it cannot be written.
    pub generated: bool,
    /// What computes a column that is generated and stored, as the server prints it.
    pub expression: Option<String>,
    /// Identity column: `a` for always, `d` for by default.
    pub identity: Option<char>,
    /// The compression of long values, if the column names one: `l` for lz4, `p` for pglz.
    pub compression: Option<char>,
}

/// A unique index that `on conflict` can infer from its columns: valid, immediate, not partial, on plain columns.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct UniqueIndex {
    /// The index's name.
    pub name: String,
    /// It is the primary key's.
    pub primary: bool,
    /// The key columns in index order, without INCLUDE columns.
    pub columns: Vec<String>,
}

/// A user's trigger.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// Fires on insert.
    pub insert: bool,
    /// Fires on update.
    pub update: bool,
    /// Fires on delete.
    pub delete: bool,
    /// Fires before the change (it can alter or drop the row), not after.
    pub before: bool,
    /// Fires for each row, not for each statement.
    pub row: bool,
}

/// Row-level security of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct RowSecurity {
    /// Switched on.
    pub enabled: bool,
    /// It filters the current role.
    pub applies: bool,
}

/// What the current role may do with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Privileges {
    /// Use the schema it is in.
    pub schema_usage: bool,
    /// Read it.
    pub select: bool,
    /// Add rows.
    pub insert: bool,
    /// Change rows.
    pub update: bool,
    /// Remove rows.
    pub delete: bool,
    /// Alter and drop it: the role owns it, as itself or by membership.
    pub own: bool,
}

/// The facts of the relation of this name in this schema, of any kind; `None` if there is none.
///
/// The answer is one snapshot only inside a transaction that is at least repeatable read.
///
/// # Errors
/// Errors of the server or the connection.
pub async fn table(client: &impl GenericClient, schema: &str, name: &str) -> Result<Option<Table>, Error> {
    let found =
        json_rows(client, "a row of the catalog", include_str!("catalog/table.sql"), &[&schema, &name]).await?.pop();
    let Some(mut table): Option<Table> = found else { return Ok(None) };
    table.columns =
        json_rows(client, "a row of the catalog", include_str!("catalog/column.sql"), &[&table.oid]).await?;
    let indexes: Vec<Index> =
        json_rows(client, "a row of the catalog", include_str!("catalog/index.sql"), &[&table.oid]).await?;
    table.triggers =
        json_rows(client, "a row of the catalog", include_str!("catalog/trigger.sql"), &[&table.oid]).await?;
    for Index { index, restricts, inferable, definition } in indexes {
        if inferable {
            table.unique_indexes.push(index);
            continue;
        }
        table.other_indexes += 1;
        if restricts {
            table.other_unique.extend(definition);
            if index.primary {
                table.other_primary = Some(index.name.clone());
            }
            table.other_unique_names.push(index.name);
        }
    }
    Ok(Some(table))
}

/// An index, and whether it is one that `on conflict` can infer.
#[derive(Deserialize)]
struct Index {
    #[serde(flatten)]
    index: UniqueIndex,
    /// It refuses rows.
    restricts: bool,
    inferable: bool,
    /// Null if it was dropped in this moment.
    definition: Option<String>,
}

/// How many connections the role may still open: the least that the limits of server, database and role leave. This is
/// only a hint: others may take some at any moment.
///
/// # Errors
/// Errors of the server or the connection.
pub async fn free_connections(client: &impl GenericClient) -> Result<i32, Error> {
    Ok(client.query_one(include_str!("catalog/connections.sql"), &[]).await?.try_get(0)?)
}

impl Table {
    /// Whether its rows are in partitions.
    pub fn is_partitioned(&self) -> bool {
        self.kind == 'p'
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// The first unique index on exactly these columns, in any order.
    pub fn unique_index_on(&self, columns: &[&str]) -> Option<&UniqueIndex> {
        self.unique_indexes.iter().find(|index| {
            index.columns.len() == columns.len() && index.columns.iter().all(|c| columns.contains(&c.as_str()))
        })
    }
}
