//! Whether an existing table can take a load's documents.

use crate::error::Error;
use crate::request::LoadRequest;
use millstream_model::{CollectionName, KeyColumn, KeySpec, KeyType, shell_word};
use millstream_pg::catalog::{Column, Table, Trigger};
use millstream_pg::{quote_identifier, quote_qualified};
use millstream_store::{FROZEN_TRIGGER, unfreeze_hint};

/// Checks a table that exists, and decides the types of the key. Returns the key and warnings.
///
/// # Errors
/// [`Error::Collection`] names what does not fit and what to do.
pub(super) fn check(
    request: &LoadRequest,
    table: &Table,
    known: Option<&KeySpec>,
) -> Result<(KeySpec, Vec<String>), Error> {
    let refuse = |(problem, hint)| Error::Collection { collection: request.collection.clone(), problem, hint };
    if let Some(misfit) = kind(table).or_else(|| frozen(table)) {
        return Err(refuse(misfit));
    }
    if known.is_none() && !request.adopt {
        return Err(refuse((
            "it is a table that no load has made".into(),
            "add --adopt to load into it, or choose another name with --into".to_owned(),
        )));
    }
    let collection = known.map(|_| &request.collection);
    if let Some(misfit) = request.durability.misfit(table, collection) {
        return Err(refuse(misfit));
    }
    Ok((still_fits(request, table, known)?, warnings(table)))
}

/// Checks the columns, indexes, triggers and rules of a table, and returns its key.
///
/// # Errors
/// [`Error::Collection`] names what does not fit and what to do.
pub(super) fn still_fits(request: &LoadRequest, table: &Table, known: Option<&KeySpec>) -> Result<KeySpec, Error> {
    let refuse = |(problem, hint)| Error::Collection { collection: request.collection.clone(), problem, hint };
    let key = key_of_table(request, table, known).map_err(refuse)?;
    if let Some(known) = known
        && known.columns.iter().map(|c| (&c.name, &c.path)).ne(key.columns.iter().map(|c| (&c.name, &c.path)))
    {
        let keys: Vec<String> = known.columns.iter().map(|c| format!("{}={}", c.name, c.path_text())).collect();
        let hint = format!("use --key {}", shell_word(&keys.join(",")));
        return Err(refuse(("its key is found elsewhere in the documents".into(), hint)));
    }
    let obstacle = || OBSTACLES.iter().find_map(|obstacle| obstacle(table));
    let deleting = request.mode.tombstone().map(|_| "--delete-when");
    let deleting = deleting.or(request.delete_missing.as_ref().map(|_| "--delete-missing"));
    match obstacle().or_else(|| deleting.and_then(|option| no_deletes(table, option))) {
        Some(obstacle) => Err(refuse(obstacle)),
        None => Ok(key),
    }
}

/// Checks a table into which documents that wait are merged by the key.
///
/// # Errors
/// [`Error::Collection`] names what does not fit and what to do.
pub(super) fn check_merge(name: &CollectionName, table: &Table, key: &[KeyColumn]) -> Result<(), Error> {
    let found = conflict_key(table);
    let keyed = || {
        let same = found.len() == key.len() && key.iter().all(|column| found.contains(&column.name));
        let names =
            |form: fn(&str) -> String| key.iter().map(|column| form(&column.name)).collect::<Vec<_>>().join(", ");
        let problem = format!("it has no primary key ({}), by which documents are merged", names(str::to_owned));
        (!same).then(|| (problem, format!("{} add primary key ({})", alter(table), names(quote_identifier))))
    };
    let typed = || {
        key.iter().find_map(|known| {
            let column = table.columns.iter().find(|column| column.name == known.name)?;
            let wanted = known.key_type.column();
            if key_type(table, column).is_ok_and(|found| found == wanted) {
                return None;
            }
            let (name, found) = (quote_identifier(&column.name), &column.type_name);
            let collation = if wanted.is_text() { " collate \"C\"" } else { "" };
            Some((
                format!("its key column {} is of type {found}, the documents that wait have {wanted}", column.name),
                format!("{} alter column {name} type {wanted}{collation}", alter(table)),
            ))
        })
    };
    let obstacle = || OBSTACLES.iter().find_map(|obstacle| obstacle(table));
    let Some((problem, hint)) = kind(table).or_else(keyed).or_else(typed).or_else(obstacle) else { return Ok(()) };
    let hint = format!("nothing is lost: {hint}; then run again: millstream compact {}", shell_word(name));
    Err(Error::Collection { collection: name.clone(), problem, hint })
}

/// Why a load with this option cannot delete rows of the table.
fn no_deletes(table: &Table, option: &str) -> Option<(String, String)> {
    let key = conflict_key(table);
    let odd = |c: &&Column| key.contains(&c.name) && c.collation.as_ref().is_some_and(|(_, name)| name != "C");
    if !table.privileges.delete {
        return Some(("this role may not delete".into(), format!("ask the owner to grant it, or leave out {option}")));
    }
    let column = table.columns.iter().find(odd)?;
    Some((
        format!(
            "its key column {} is not in collation \"C\", by which documents find the rows they delete",
            column.name
        ),
        format!("{} alter column {} type text collate \"C\"", alter(table), quote_identifier(&column.name)),
    ))
}

/// The beginning of a statement that you can paste.
fn alter(table: &Table) -> String {
    format!("alter table {}", quote_qualified(&table.schema, &table.name))
}

/// Whether an update may find the table's rows by a join with staged keys. The keys must compare as staged ones do.
/// There must be no trigger, because it could drop a row, or be planned under the settings that keep the join in order.
pub(super) fn can_join(table: &Table) -> bool {
    let key = conflict_key(table);
    let mut collations = table.columns.iter().filter(|c| key.contains(&c.name)).filter_map(|c| c.collation.as_ref());
    table.triggers.is_empty() && collations.all(|(_, name)| name == "C")
}

/// Whether a trigger may change the key of a row that a load writes, or drop it, or keep a row that a load `deletes`.
pub(super) fn alters_rows(table: &Table, deletes: bool) -> bool {
    let fires = |trigger: &Trigger| trigger.insert || trigger.update || trigger.delete && deletes;
    table.triggers.iter().any(|trigger| trigger.before && trigger.row && fires(trigger))
}

/// Whether the table has anything that may refuse a document or store it differently, depending on what the document
/// holds.
pub(super) fn may_refuse(table: &Table) -> bool {
    let generated = table.columns.iter().any(|c| c.generated);
    asks_others(table) || generated || has_domain_key(table) || !table.checks.is_empty()
}

/// Whether a document may be refused for more than what it holds and makes of the stored one: for other rows, or by
/// anything that a trigger looks at.
pub(super) fn asks_others(table: &Table) -> bool {
    let keyed = table.unique_indexes.len() > 1 || !table.other_unique.is_empty() || table.other_indexes > 0;
    // A partition may have constraints and indexes of its own.
    table.is_partitioned() || keyed || !(table.foreign_keys.is_empty() && table.triggers.is_empty())
}

/// Whether the type of a key column may refuse a key.
pub(super) fn has_domain_key(table: &Table) -> bool {
    let key = conflict_key(table);
    table.columns.iter().any(|c| key.contains(&c.name) && is_domain(c))
}

/// What lets batches without a common key lock the same rows, in orders that their keys do not give.
pub(super) fn shared_locks(table: &Table) -> Vec<String> {
    let others = table.unique_indexes.iter().filter(|index| !index.primary).map(|index| &index.name);
    let indexes = others.chain(&table.other_unique_names).map(|name| format!("index {name}"));
    let fires = |trigger: &&Trigger| trigger.insert || trigger.update || trigger.delete;
    let triggers = table.triggers.iter().filter(fires).map(|trigger| format!("trigger {}", trigger.name));
    indexes.chain(triggers).collect()
}

/// A reason not to load into a table, and what to do about it.
type Obstacle = fn(&Table) -> Option<(String, String)>;

/// What makes a table unfit whatever the key.
const OBSTACLES: &[Obstacle] = &[frozen, doc_column, other_columns, row_security, rules, rights];

/// Whether rows go into partitions. PostgreSQL ensures that the primary key of a partitioned table includes the
/// partition key.
fn kind(table: &Table) -> Option<(String, String)> {
    if let Some(partition) = table.foreign_partitions.first() {
        return Some((
            format!("its partition {partition} is a foreign table, into which nothing can be merged"),
            format!("load into a table without it: {} detach partition {partition}", alter(table)),
        ));
    }
    if table.kind == 'r' && table.has_children {
        return Some((
            "other tables inherit from it: their rows would be read with it, and not written".into(),
            "load into a table that no other inherits from".into(),
        ));
    }
    let kind = match table.kind {
        'r' | 'p' => return None,
        'v' => "a view",
        'm' => "a materialized view",
        'f' => "a foreign table",
        'S' => "a sequence",
        'i' | 'I' => "an index",
        'c' => "a composite type",
        _ => "no table",
    };
    Some((format!("it is {kind}"), "load into a plain table".into()))
}

fn frozen(table: &Table) -> Option<(String, String)> {
    let name = CollectionName { schema: table.schema.clone(), table: table.name.clone() };
    let refuses = table.triggers.iter().any(|trigger| trigger.name == FROZEN_TRIGGER);
    refuses.then(|| ("it is frozen and takes no writes".into(), unfreeze_hint(&name)))
}

fn doc_column(table: &Table) -> Option<(String, String)> {
    let hint = "the documents go into a column doc of type jsonb";
    match table.columns.iter().find(|c| c.name == "doc") {
        None => Some(("it has no column doc".into(), hint.into())),
        Some(c) if c.type_name != "jsonb" => Some((format!("its column doc is of type {}", c.type_name), hint.into())),
        Some(c) if c.generated => Some(("its column doc is generated".into(), hint.into())),
        Some(_) => None,
    }
}

/// Columns that are neither key nor `doc` get their defaults.
fn other_columns(table: &Table) -> Option<(String, String)> {
    let key = conflict_key(table);
    let others = table.columns.iter().filter(|c| c.name != "doc" && !key.contains(&c.name));
    let stuck = others.into_iter().find(|c| c.not_null && !c.has_default && !c.generated && c.identity.is_none())?;
    Some((
        format!("its column {} is not null and has no default", stuck.name),
        format!("{} alter column {} drop not null, or give it a default", alter(table), quote_identifier(&stuck.name)),
    ))
}

fn row_security(table: &Table) -> Option<(String, String)> {
    table.row_security.applies.then(|| {
        (
            "row-level security applies to this role".into(),
            "load as a role with bypassrls, or as the owner of a table that does not force it".into(),
        )
    })
}

fn rules(table: &Table) -> Option<(String, String)> {
    (!table.rules.is_empty()).then(|| {
        (
            "it has rules, which COPY ignores and inserts do not".into(),
            "replace its rules by triggers, or drop them".into(),
        )
    })
}

fn rights(table: &Table) -> Option<(String, String)> {
    let missing: Vec<&str> = [
        ("use the schema", table.privileges.schema_usage),
        ("select", table.privileges.select),
        ("insert", table.privileges.insert),
        ("update", table.privileges.update),
    ]
    .into_iter()
    .filter(|(_, granted)| !granted)
    .map(|(right, _)| right)
    .collect();
    (!missing.is_empty()).then(|| {
        let missing = missing.join(", ");
        (format!("this role may not {missing}"), "ask the owner to grant it".into())
    })
}

/// The key of the request with the types of the table's columns. How documents spell the values is taken from the
/// request, else from the collection's record.
fn key_of_table(request: &LoadRequest, table: &Table, known: Option<&KeySpec>) -> Result<KeySpec, (String, String)> {
    let asked: Vec<&str> = request.key.iter().map(|k| k.column.as_str()).collect();
    let found = conflict_key(table);
    if found.is_empty() {
        let columns: Vec<String> = asked.iter().map(|column| quote_identifier(column)).collect();
        let add = format!("add primary key ({})", columns.join(", "));
        return Err(match &table.other_primary {
            Some(primary) => (
                format!("an upsert cannot use its primary key {primary}, which is deferrable or invalid"),
                format!("{} drop constraint {}, {add}", alter(table), quote_identifier(primary)),
            ),
            None => ("it has no primary key, which an upsert needs".into(), format!("{} {add}", alter(table))),
        });
    }
    let same = found.len() == asked.len() && found.iter().all(|c| asked.contains(&c.as_str()));
    if !same {
        return Err((
            format!("its key is ({}), the load's is ({})", found.join(", "), asked.join(", ")),
            format!("use --key {}", shell_word(&found.join(","))),
        ));
    }
    let columns = found
        .iter()
        .map(|name| {
            let asked = request.key.iter().find(|k| k.column == *name).expect("the names are the same");
            let column = table.columns.iter().find(|c| c.name == *name).expect("a key column is a column");
            let key_type = key_type(table, column)?;
            let known = known.and_then(|known| known.columns.iter().find(|c| c.name == *name)).map(|c| c.key_type);
            let known = known.filter(|known| known.column() == key_type);
            match asked.key_type.or(known) {
                Some(other) if other.column() != key_type => Err((
                    format!("its column {name} is of type {}, not {}", column.type_name, other.column()),
                    "leave the type out: an existing collection's types win".into(),
                )),
                other => {
                    let key_type = other.unwrap_or(key_type);
                    Ok(KeyColumn { name: name.clone(), path: asked.path.clone(), key_type })
                }
            }
        })
        .collect::<Result<_, _>>()?;
    Ok(KeySpec { columns })
}

/// Columns of the index that `on conflict` uses: the primary key's.
fn conflict_key(table: &Table) -> &[String] {
    table.unique_indexes.iter().find(|i| i.primary).map_or(&[], |i| &i.columns)
}

fn key_type(table: &Table, column: &Column) -> Result<KeyType, (String, String)> {
    let name = quote_identifier(&column.name);
    if column.generated {
        return Err((
            format!("its key column {} is generated, so that it cannot be written", column.name),
            format!("{} alter column {name} drop expression", alter(table)),
        ));
    }
    if column.identity == Some('a') {
        return Err((
            format!("its key column {} is an identity that takes no values of its own (generated always)", column.name),
            format!("{} alter column {name} set generated by default", alter(table)),
        ));
    }
    let Ok(key_type) = column.base_type_name.parse::<KeyType>() else {
        let rounds = column.base_type_name.starts_with("numeric(") || column.base_type_name.starts_with("timestamp(");
        let why = if rounds { ", which rounds" } else { "" };
        return Err((
            format!("its key column {} is of type {}{why}", column.name, column.type_name),
            format!("a key is made of {}, and of domains over them", KeyType::names()),
        ));
    };
    if key_type.is_text() && !column.deterministic {
        return Err((
            format!("its key column {} treats different texts as equal", column.name),
            format!("{} alter column {name} type text collate \"C\"", alter(table)),
        ));
    }
    Ok(key_type)
}

/// Whether a column's type is a domain, which may refuse values of the type under it.
fn is_domain(column: &Column) -> bool {
    column.type_oid != column.base_type_oid
}

fn warnings(table: &Table) -> Vec<String> {
    let mut warnings = Vec::new();
    for trigger in table.triggers.iter().filter(|t| t.insert || t.update) {
        let each = if trigger.row { "every document" } else { "every batch" };
        warnings.push(format!("trigger {} runs for {each}; what it refuses or drops becomes a reject", trigger.name));
    }
    for name in &table.foreign_keys {
        warnings.push(format!("constraint {name} may refuse documents, which become rejects"));
    }
    for unique in &table.other_unique {
        warnings.push(format!("documents that break this become rejects: {unique}"));
    }
    let key = conflict_key(table);
    for column in table.columns.iter().filter(|c| key.contains(&c.name)) {
        if is_domain(column) {
            let (name, domain) = (&column.name, &column.type_name);
            warnings.push(format!("key column {name} is of domain {domain}; what it refuses becomes a reject"));
        }
        if column.collation.as_ref().is_some_and(|(_, name)| name != "C") {
            warnings
                .push(format!("key column {} is not in collation \"C\", which is up to twice as fast", column.name));
        }
    }
    if table.other_indexes > 0 {
        warnings.push(format!("{} more index(es) beside the key are written for every document", table.other_indexes));
    }
    warnings
}
