//! The facts of a table that a loader needs, read from the system catalog.

use tokio_postgres::{GenericClient, Row};

use crate::error::Error;

/// A table as the catalog describes it, and what the current role may do with it.
#[derive(Debug, Clone, PartialEq)]
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
    pub columns: Vec<Column>,
    /// Unique indexes that `on conflict (columns)` can name, the primary key first.
    pub unique_indexes: Vec<UniqueIndex>,
    /// Constraints and unique indexes that `on conflict` cannot name, each as SQL: deferrable, partial, on expressions,
    /// invalid, exclusion.
    pub other_unique: Vec<String>,
    /// Name of the primary key, if `on conflict` cannot name it: deferrable, or invalid.
    pub other_primary: Option<String>,
    /// Number of indexes that are not in `unique_indexes`.
    pub other_indexes: i64,
    /// The user's triggers that are not disabled, without those of foreign keys. For a partitioned table also those
    /// that only a partition has.
    pub triggers: Vec<Trigger>,
    /// Names of rewrite rules.
    pub rules: Vec<String>,
    /// Names of CHECK constraints.
    pub checks: Vec<String>,
    /// Names of the foreign keys of this table.
    pub foreign_keys: Vec<String>,
    /// Row-level security.
    pub row_security: RowSecurity,
    /// What the current role may do.
    pub privileges: Privileges,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Identity column: `a` for always, `d` for by default.
    pub identity: Option<char>,
}

/// A unique index that `on conflict` can infer from its columns: valid, immediate, not partial, on plain columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueIndex {
    /// The index's name.
    pub name: String,
    /// It is the primary key's.
    pub primary: bool,
    /// The key columns in index order, without INCLUDE columns.
    pub columns: Vec<String>,
}

/// A user's trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSecurity {
    /// Switched on.
    pub enabled: bool,
    /// It filters the current role.
    pub applies: bool,
}

/// What the current role may do with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one right each")]
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
    let Some(row) = client.query_opt(include_str!("catalog/table.sql"), &[&schema, &name]).await? else {
        return Ok(None);
    };
    let oid: u32 = row.try_get("oid")?;
    let columns = client.query(include_str!("catalog/column.sql"), &[&oid]).await?;
    let indexes = client.query(include_str!("catalog/index.sql"), &[&oid]).await?;
    let triggers = client.query(include_str!("catalog/trigger.sql"), &[&oid]).await?;

    let inferable = |row: &&Row| row.try_get::<_, bool>("inferable").unwrap_or(false);
    let unique_indexes = indexes.iter().filter(inferable).map(unique_index).collect::<Result<Vec<_>, _>>()?;
    let (mut other_unique, mut other_primary) = (Vec::new(), None);
    for row in &indexes {
        if row.try_get("restricts")? && !row.try_get::<_, bool>("inferable")? {
            other_unique.push(row.try_get("definition")?);
            if row.try_get("is_primary")? {
                other_primary = Some(row.try_get("name")?);
            }
        }
    }
    Ok(Some(Table {
        oid,
        schema: schema.to_owned(),
        name: name.to_owned(),
        kind: letter(&row, "kind")?.unwrap_or(' '),
        persistence: letter(&row, "persistence")?.unwrap_or(' '),
        has_children: row.try_get("has_children")?,
        foreign_partitions: row.try_get("foreign_partitions")?,
        unlogged_partitions: row.try_get("unlogged_partitions")?,
        owner: row.try_get("owner")?,
        columns: columns.iter().map(column).collect::<Result<_, _>>()?,
        other_indexes: i64::try_from(indexes.len() - unique_indexes.len()).unwrap_or(i64::MAX),
        unique_indexes,
        other_unique,
        other_primary,
        triggers: triggers.iter().map(trigger).collect::<Result<_, _>>()?,
        rules: row.try_get("rules")?,
        checks: row.try_get("checks")?,
        foreign_keys: row.try_get("foreign_keys")?,
        row_security: RowSecurity {
            enabled: row.try_get("row_security")?,
            applies: row.try_get("row_security_applies")?,
        },
        privileges: privileges(&row)?,
    }))
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

fn column(row: &Row) -> Result<Column, Error> {
    let collation_schema: Option<String> = row.try_get("collation_schema")?;
    let collation_name: Option<String> = row.try_get("collation_name")?;
    Ok(Column {
        name: row.try_get("name")?,
        type_oid: row.try_get("type_oid")?,
        type_name: row.try_get("type_name")?,
        base_type_oid: row.try_get("base_type_oid")?,
        base_type_name: row.try_get("base_type_name")?,
        collation: collation_schema.zip(collation_name),
        deterministic: row.try_get("deterministic")?,
        not_null: row.try_get("not_null")?,
        has_default: row.try_get("has_default")?,
        generated: row.try_get("generated")?,
        identity: letter(row, "identity")?,
    })
}

fn unique_index(row: &Row) -> Result<UniqueIndex, Error> {
    Ok(UniqueIndex {
        name: row.try_get("name")?,
        primary: row.try_get("is_primary")?,
        columns: row.try_get("columns")?,
    })
}

/// Bits of `pg_trigger.tgtype`. Source: `catalog/pg_trigger.h`; `instead of` (64) exists on views only.
fn trigger(row: &Row) -> Result<Trigger, Error> {
    let bits: i16 = row.try_get("type")?;
    let has = |bit: i16| bits & bit != 0;
    Ok(Trigger {
        name: row.try_get("name")?,
        row: has(1),
        before: has(2),
        insert: has(4),
        delete: has(8),
        update: has(16),
    })
}

fn privileges(row: &Row) -> Result<Privileges, Error> {
    Ok(Privileges {
        schema_usage: row.try_get("may_use_schema")?,
        select: row.try_get("may_select")?,
        insert: row.try_get("may_insert")?,
        update: row.try_get("may_update")?,
        delete: row.try_get("may_delete")?,
        own: row.try_get("may_own")?,
    })
}

fn letter(row: &Row, column: &str) -> Result<Option<char>, Error> {
    Ok(row.try_get::<_, Option<String>>(column)?.and_then(|text| text.chars().next()))
}
