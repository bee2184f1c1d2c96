//! The statements of a collection under a mode, as text and prepared on a connection.

use super::names::Names;
use super::{deleting, judge, prepare_if, probe, replay, staged};
use crate::collection::key_columns;
use crate::error::Error;
use crate::merge::Folding;
use crate::plan::LoadPlan;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use millstream_pg::{by_key, fill, quote_identifier, quote_name};
use tokio_postgres::{Client, Statement};

/// All statements of a load, as text.
#[derive(Debug)]
pub(crate) struct Texts {
    create_stage: String,
    copy_table: String,
    copy_stage: String,
    upsert: String,
    arrays: String,
    /// If the writer `staged` can be used.
    merge: Option<String>,
    /// If stored documents can be compared with new ones before those are sent.
    compared: Option<Comparison<String>>,
    /// If rows can be joined: asks which keys are stored.
    present: Option<String>,
    /// If documents delete, or must be checked against tombstones.
    deleting: Option<deleting::Sql>,
    /// If a trigger may alter rows, the server checks what it has written, in the function that can also tell which
    /// documents that concerns.
    pub(super) replay: replay::Sql,
    /// If what is folded must be tried before.
    judge: Option<judge::Sql>,
}

/// The staging table of a lane.
const STAGE: &str = "pg_temp.millstream_stage";

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

/// Asks for the fingerprints of stored documents, and writes those that differ.
#[derive(Debug)]
pub(crate) struct Comparison<S> {
    pub(super) compare: S,
    pub(super) upsert: S,
}

/// [`Texts`] on one connection.
pub(crate) struct Prepared {
    pub(crate) copy_table: Statement,
    pub(crate) copy_stage: Statement,
    pub(crate) upsert: Statement,
    pub(crate) arrays: Statement,
    pub(crate) merge: Option<staged::Statements>,
    pub(crate) compared: Option<Comparison<Statement>>,
    pub(crate) present: Option<Statement>,
    pub(crate) deleting: Option<deleting::Statements>,
    pub(crate) judge: Option<judge::Statements>,
}

impl Texts {
    pub(crate) fn new(plan: &LoadPlan) -> Self {
        let (name, mode, schema) = (&plan.request.collection, &plan.mode, plan.schema());
        let keys: Vec<String> = plan.key.columns.iter().map(|c| quote_identifier(&c.name)).collect();
        let names = Names { table: quote_name(name), key: keys.join(", "), join: by_key("stored", "staged", &keys) };
        let Names { table, key, join } = &names;
        let replaced = |new: &str| mode.set(schema, new, "stored.doc");
        let condition = mode.condition("excluded.doc", "stored.doc");
        let inserted = if plan.traits.partitioned { INSERTED_PARTITIONED } else { INSERTED };
        let update = |set: &str| match plan.traits.partitioned {
            true => format!("update set doc = {}", marked(set)),
            false => format!("update set doc = {set}"),
        };
        let action = match (replaced("excluded.doc"), &condition) {
            (None, _) => "nothing".to_owned(),
            (Some(set), None) => update(&set),
            (Some(set), Some(condition)) => format!("{} where {condition}", update(&set)),
        };
        let values = |row: &str| keys.iter().map(|key| format!("{row}.{key}")).collect::<Vec<_>>().join(", ");
        let matched = replaced("staged.doc").map_or_else(String::new, |set| {
            let condition = mode.condition("staged.doc", "stored.doc");
            let condition = condition.map_or_else(String::new, |condition| format!(" and ({condition})"));
            format!("when matched{condition} then\n    update set doc = {set}")
        });
        let merges = plan.merges();
        let merge =
            merges.then(|| fill!(include_str!("merge.sql"), table, key, join, matched, values = values("staged")));
        let notes = |stage: &str| plan.traits.alters_rows && stage == replay::STAGE;
        let upsert = |stage: &str, filter: &str, action: &str| {
            let (returned, more) = match notes(stage) {
                true => {
                    (format!(", {}", values("stored")), format!(",\n{}", fill!(include_str!("replay_note.sql"), key)))
                }
                false => (String::new(), String::new()),
            };
            fill!(include_str!("upsert.sql"), table, key, stage, filter, action, inserted, returned, more)
        };
        let (skips, deletes) = (plan.skips(), plan.deletes());
        let deleting_of = |stage: &str, run: &str| {
            deletes.then(|| {
                let actions = [&*action, &*update("excluded.doc")];
                let upsert = |filter: &str, action: &str| upsert(stage, filter, action);
                deleting::Sql::new(plan, &names, upsert, actions, (stage, run), skips)
            })
        };
        let deleting = deleting_of(STAGE, "true");
        let (stage_columns, stage_names) =
            if deletes { (deleting::STAGE_COLUMNS, deleting::STAGE_NAMES) } else { ("", "") };
        let tries = |run: &str, plain: &dyn Fn() -> String| {
            deleting_of(replay::STAGE, run).map_or_else(plain, |sql| sql.try_run())
        };
        let upsert_staged = |rows: &str| {
            format!("{}into replay.added, replay.changed;", upsert(replay::STAGE, &format!("where {rows}"), &action))
        };
        let replay = replay::Sql::new(
            plan,
            &replay::Tries {
                names: &names,
                keys: &keys,
                stage: (stage_columns, stage_names),
                lock: deleting_of(replay::STAGE, "true")
                    .map_or_else(String::new, |sql| fill!(include_str!("replay_lock.sql"), lock = sql.lock())),
                compares: skips,
                pages: tries(replay::PAGES, &|| upsert_staged(replay::PAGES)),
                one: tries(replay::ONE, &|| match plan.traits.alters_rows {
                    true => upsert_staged(replay::ONE),
                    false => fill!(include_str!("upsert_one.sql"), table, key, values = values("r"), action, inserted),
                }),
                leaves: match (replaced("staged.doc"), mode.condition("staged.doc", "stored.doc")) {
                    (None, _) => "true".to_owned(),
                    (Some(_), None) => "false".to_owned(),
                    (Some(_), Some(condition)) => format!("({condition}) is not true"),
                },
            },
        );
        let tried = plan.folding == Folding::Tried;
        let judge = tried.then(|| judge::Sql::new(mode, schema, &names, &keys)).flatten();
        let changed = || fill!(include_str!("changed_filter.sql"), table, join);
        let compared = skips.then(|| Comparison {
            compare: compare(table, &keys, plan),
            upsert: upsert(STAGE, &format!("as staged {}", changed()), &action),
        });
        Self {
            create_stage: format!(
                "create temporary table millstream_stage ({}, doc jsonb not null{stage_columns}) on commit delete rows",
                key_columns(&plan.key).join(", ")
            ),
            copy_table: format!("copy {table} ({key}, doc) from stdin (format binary)"),
            copy_stage: format!("copy {STAGE} ({key}, doc{stage_names}) from stdin (format binary)"),
            upsert: upsert(STAGE, "", &action),
            arrays: fill!(
                include_str!("arrays.sql"),
                table,
                key,
                inserted,
                action,
                arrays = arrays(plan, true),
                filter = if skips { changed() } else { String::new() },
            ),
            merge,
            compared,
            present: merges.then(|| present(table, &keys, plan)),
            deleting,
            replay,
            judge,
        }
    }

    /// Creates the connection's staging table and prepares the statements.
    pub(crate) async fn prepare(&self, client: &Client) -> Result<Prepared, Error> {
        client.batch_execute(&format!("{}; {}", self.create_stage, staged::CREATE_COUNTER)).await?;
        let merge = self.merge.as_ref().map(|merge| staged::Statements::prepare(client, merge));
        let compared = self.compared.as_ref().map(move |sql| async move {
            let (compare, upsert) = tokio::try_join!(client.prepare(&sql.compare), client.prepare(&sql.upsert))?;
            Ok(Comparison { compare, upsert })
        });
        let deleting = self.deleting.as_ref().map(|deleting| deleting.prepare(client));
        let deleting = OptionFuture::from(deleting).await.transpose()?;
        let judge = OptionFuture::from(self.judge.as_ref().map(|judge| judge.prepare(client))).await.transpose()?;
        let (copy_table, copy_stage, upsert, arrays, merge, compared, present) = tokio::try_join!(
            client.prepare(&self.copy_table),
            client.prepare(&self.copy_stage),
            client.prepare(&self.upsert),
            client.prepare(&self.arrays),
            OptionFuture::from(merge).map(Option::transpose),
            OptionFuture::from(compared).map(Option::transpose),
            prepare_if(client, self.present.as_ref()),
        )?;
        Ok(Prepared { copy_table, copy_stage, upsert, arrays, merge, compared, present, deleting, judge })
    }
}

/// Rows of arrays that are parameters: of the key's columns, and of documents.
fn arrays(plan: &LoadPlan, documents: bool) -> String {
    let types = plan.key.columns.iter().map(|c| c.key_type.sql_name());
    let types = types.chain(documents.then_some("jsonb"));
    (1..).zip(types).map(|(n, name)| format!("pg_catalog.unnest(${n}::{name}[])")).collect::<Vec<_>>().join(", ")
}

/// The query for the keys that are stored.
fn present(table: &str, keys: &[String], plan: &LoadPlan) -> String {
    let types = &plan.key_types;
    if let ([key], [key_type], true) = (keys, types.as_slice(), probe::names_itself(types)) {
        return fill!(include_str!("present_one.sql"), table, key, type = key_type.sql_name());
    }
    let (key, arrays, join) = (keys.join(", "), arrays(plan, false), by_key("stored", "asked", keys));
    fill!(include_str!("present_many.sql"), table, key, arrays, join)
}

/// The query for fingerprints of stored documents.
fn compare(table: &str, keys: &[String], plan: &LoadPlan) -> String {
    if let [key] = keys {
        let key_type = plan.key.columns[0].key_type.sql_name();
        return fill!(include_str!("compare_one.sql"), table, key, type = key_type);
    }
    let join: Vec<String> = keys.iter().map(|key| format!("stored.{key} operator(pg_catalog.=) asked.{key}")).collect();
    fill!(
        include_str!("compare_many.sql"),
        table,
        key = keys.join(", "),
        arrays = arrays(plan, false),
        join = join.join(" and "),
        seed_1 = keys.len() + 1,
        seed_2 = keys.len() + 2,
    )
}
