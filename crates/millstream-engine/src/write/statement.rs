//! The statements of a collection under a mode, as text and prepared on a connection.

use super::{comparison, deleting, replay, staged};
use crate::collection::{PreparedCollection, key_columns};
use crate::durability::Durability;
use crate::error::Error;
use crate::limits::{SORT_MEMORY_MIB, STAGE_MEMORY_MIB};
use crate::merge::Mode;
use crate::request::{LoadRequest, SkipUnchanged};
use millstream_model::KeyType;
use millstream_pg::{SessionSettings, quote_identifier, quote_qualified};
use millstream_store::{Check, Schema};
use tokio_postgres::{Client, Statement};

/// Where and how a load writes.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) mode: Mode,
    /// Whether the documents of a key may be folded into one row.
    pub(crate) folds: bool,
    /// The collection's CHECK constraints, as they were known when the load began.
    pub(crate) checks: Vec<Check>,
    /// Whether every document must be checked against the tombstones of its key.
    pub(crate) checks_tombstones: bool,
    pub(crate) durability: &'static Durability,
    pub(crate) key_types: Vec<KeyType>,
    /// What was asked for; `Off` if documents cannot be compared.
    pub(crate) skip_unchanged: SkipUnchanged,
    pub(crate) schema: Schema,
    create_stage: String,
    copy_table: String,
    copy_stage: String,
    upsert: String,
    arrays: String,
    /// Most keys of a batch that goes as arrays.
    pub(crate) arrays_rows_max: usize,
    /// If the writer `staged` can be used.
    merge: Option<String>,
    /// If stored documents can be compared with new ones before those are sent.
    compared: Option<Compared>,
    /// If documents delete, or must be checked against tombstones.
    deleting: Option<deleting::Sql>,
    replay: replay::Sql,
}

#[derive(Debug)]
struct Compared {
    compare: String,
    upsert: String,
}

/// How an upsert recognises the rows that it inserted. Their xmax is zero; that of an updated row is our transaction.
const INSERTED: &str = "(xmax = 0)";
/// The same for a partitioned table, whose rows have no xmax to read. The update of a row leaves a mark, which is
/// removed when the row is returned.
const INSERTED_PARTITIONED: &str = "case when pg_catalog.current_setting('millstream.updated', true) = 'yes' \
     then pg_catalog.set_config('millstream.updated', '', true) <> '' else true end";

/// An expression for what a stored document becomes, which also leaves the mark.
fn marked(set: &str) -> String {
    format!("case when pg_catalog.set_config('millstream.updated', 'yes', true) <> '' then {set} end")
}

/// [`Target`]'s statements on one connection.
pub(crate) struct Prepared {
    pub(crate) copy_table: Statement,
    pub(crate) copy_stage: Statement,
    pub(crate) upsert: Statement,
    pub(crate) arrays: Statement,
    pub(crate) merge: Option<staged::Statements>,
    pub(crate) compared: Option<comparison::Statements>,
    pub(crate) deleting: Option<deleting::Statements>,
}

impl Target {
    pub(crate) fn new(request: &LoadRequest, collection: &PreparedCollection, schema: Schema) -> Self {
        let (name, mode) = (&request.collection, &collection.mode);
        let (table, key) = (quote_qualified(&name.schema, &name.table), &collection.key);
        let keys: Vec<String> = key.columns.iter().map(|c| quote_identifier(&c.name)).collect();
        let key_list = keys.join(", ");
        let set = |new: &str| mode.set(new, "stored.doc").map(|set| schema.sql(&set));
        let condition = mode.condition("excluded.doc", "stored.doc");
        let inserted = if collection.partitioned { INSERTED_PARTITIONED } else { INSERTED };
        let update = |set: &str| match collection.partitioned {
            true => format!("update set doc = {}", marked(set)),
            false => format!("update set doc = {set}"),
        };
        let action = match (set("excluded.doc"), &condition) {
            (None, _) => "nothing".to_owned(),
            (Some(set), None) => update(&set),
            (Some(set), Some(condition)) => format!("{} where {condition}", update(&set)),
        };
        let join: Vec<String> = keys.iter().map(|key| format!("stored.{key} = staged.{key}")).collect();
        let join = join.join(" and ");
        let fill = |sql: &str| {
            let sql = sql.replace("{table}", &table).replace("{inserted}", inserted);
            sql.replace("{key}", &key_list).replace("{join}", &join)
        };
        let values: Vec<String> = keys.iter().map(|key| format!("staged.{key}")).collect();
        let matched = set("staged.doc").map_or_else(String::new, |set| {
            let condition = mode.condition("staged.doc", "stored.doc");
            let condition = condition.map_or_else(String::new, |condition| format!(" and ({condition})"));
            format!("when matched{condition} then\n    update set doc = {set}")
        });
        // An upsert also checks a new document that does not become the stored one; a merge checks only what is stored.
        let merges = collection.can_join && (mode.replaces() || !collection.may_refuse);
        let merge = merges.then(|| {
            fill(include_str!("merge.sql")).replace("{values}", &values.join(", ")).replace("{matched}", &matched)
        });
        let upsert = |filter: &str, action: &str| {
            fill(include_str!("upsert.sql")).replace("{filter}", filter).replace("{action}", action)
        };
        // If every key must be checked against tombstones, one writer writes every batch.
        let comparable = mode.replaces() && collection.can_join && !collection.checks_tombstones;
        let skips = request.skip_unchanged != SkipUnchanged::Off && comparable;
        let deletes = collection.checks_tombstones || mode.tombstone().is_some();
        let deleting_of = |run: &str| {
            deletes.then(|| {
                let actions = [&*action, &*update("excluded.doc")];
                deleting::Sql::new(collection, &schema, fill, upsert, actions, run, skips)
            })
        };
        let deleting = deleting_of("true");
        let (stage_columns, stage_names) = match deletes {
            true => (format!(", {}", deleting::STAGE_COLUMNS), format!(", {}", deleting::STAGE_NAMES)),
            false => (String::new(), String::new()),
        };
        let tries = |run: &str, plain: &dyn Fn() -> String| deleting_of(run).map_or_else(plain, |sql| sql.try_run());
        let replay = replay::Sql::new(
            collection,
            &replay::Tries {
                table: &table,
                keys: &keys,
                stage: (&stage_columns, &stage_names),
                lock: deleting_of("true")
                    .map_or_else(String::new, |sql| include_str!("replay_lock.sql").replace("{lock}", sql.lock())),
                compares: skips,
                pages: tries(replay::PAGES, &|| {
                    format!(
                        "{}into replay.added, replay.changed;",
                        upsert(&format!("where {}", replay::PAGES), &action)
                    )
                }),
                one: tries(replay::ONE, &|| fill(include_str!("upsert_one.sql")).replace("{action}", &action)),
            },
        );
        let compared = skips.then(|| Compared {
            compare: compare(&table, &keys, collection),
            upsert: upsert(&format!("as staged {}", fill(include_str!("changed_filter.sql"))), &action),
        });
        Self {
            mode: mode.clone(),
            folds: collection.folds(),
            checks: collection.checks.clone(),
            checks_tombstones: collection.checks_tombstones,
            durability: request.durability,
            key_types: key.columns.iter().map(|c| c.key_type).collect(),
            schema,
            create_stage: format!(
                "create temporary table millstream_stage ({}, doc jsonb not null{stage_columns}) on commit delete rows",
                key_columns(key).join(", ")
            ),
            copy_table: format!("copy {table} ({key_list}, doc) from stdin (format binary)"),
            copy_stage: format!(
                "copy pg_temp.millstream_stage ({key_list}, doc{stage_names}) from stdin (format binary)"
            ),
            upsert: upsert("", &action),
            arrays: fill(include_str!("arrays.sql"))
                .replace("{arrays}", &arrays(collection, true))
                .replace("{filter}", &if skips { fill(include_str!("changed_filter.sql")) } else { String::new() })
                .replace("{action}", &action),
            arrays_rows_max: request.arrays_rows_max,
            merge,
            skip_unchanged: if compared.is_some() { request.skip_unchanged } else { SkipUnchanged::Off },
            compared,
            deleting,
            replay,
        }
    }

    pub(super) fn replay(&self) -> &replay::Sql {
        &self.replay
    }

    /// Whether the staging table also holds what each document does to a stored row.
    pub(crate) fn deletes(&self) -> bool {
        self.deleting.is_some()
    }

    /// Whether the writer `staged` can be used.
    pub(crate) fn merges(&self) -> bool {
        self.merge.is_some()
    }

    /// The settings of a lane's session.
    pub(crate) fn session(&self, lane: u16) -> SessionSettings {
        let session = SessionSettings::lane(usize::from(lane))
            .with("temp_buffers", &format!("{STAGE_MEMORY_MIB}MB"))
            .with("work_mem", &format!("{SORT_MEMORY_MIB}MB"))
            // A plan for the given values would be the same, and planning would look at every key among them.
            .with("plan_cache_mode", "force_generic_plan");
        let others = ["enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_bitmapscan"];
        others
            .into_iter()
            .filter(|_| self.merges() || self.deletes())
            .fold(session, |session, name| session.with(name, "off"))
    }

    /// Creates the connection's staging table and prepares the statements.
    pub(crate) async fn prepare(&self, client: &Client) -> Result<Prepared, Error> {
        client.batch_execute(&format!("{}; {}", self.create_stage, staged::CREATE_COUNTER)).await?;
        let merge = async {
            match &self.merge {
                Some(merge) => staged::Statements::prepare(client, merge).await.map(Some),
                None => Ok(None),
            }
        };
        let compared = async {
            let Some(Compared { compare, upsert }) = &self.compared else { return Ok(None) };
            let (compare, upsert) = tokio::try_join!(client.prepare(compare), client.prepare(upsert))?;
            Ok(Some(comparison::Statements { compare, upsert }))
        };
        let deleting = match &self.deleting {
            Some(deleting) => Some(deleting.prepare(client).await?),
            None => None,
        };
        let (copy_table, copy_stage, upsert, arrays, merge, compared) = tokio::try_join!(
            client.prepare(&self.copy_table),
            client.prepare(&self.copy_stage),
            client.prepare(&self.upsert),
            client.prepare(&self.arrays),
            merge,
            compared,
        )?;
        Ok(Prepared { copy_table, copy_stage, upsert, arrays, merge, compared, deleting })
    }
}

/// Parameters for arrays of the key's columns, and of documents.
fn arrays(collection: &PreparedCollection, documents: bool) -> String {
    let types = collection.key.columns.iter().map(|c| c.key_type.sql_name());
    let types = types.chain(documents.then_some("jsonb"));
    (1..).zip(types).map(|(n, name)| format!("${n}::{name}[]")).collect::<Vec<_>>().join(", ")
}

/// The query for fingerprints of stored documents.
fn compare(table: &str, keys: &[String], collection: &PreparedCollection) -> String {
    if let [key] = keys {
        let sql = include_str!("compare_one.sql");
        let key_type = collection.key.columns[0].key_type.sql_name();
        return sql.replace("{table}", table).replace("{key}", key).replace("{type}", key_type);
    }
    let join: Vec<String> = keys.iter().map(|key| format!("stored.{key} = asked.{key}")).collect();
    include_str!("compare_many.sql")
        .replace("{table}", table)
        .replace("{key}", &keys.join(", "))
        .replace("{arrays}", &arrays(collection, false))
        .replace("{join}", &join.join(" and "))
        .replace("{seed_1}", &(keys.len() + 1).to_string())
        .replace("{seed_2}", &(keys.len() + 2).to_string())
}
