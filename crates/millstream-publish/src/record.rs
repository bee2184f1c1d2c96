//! The change record: which keys of a collection have changed, while it has read models.
//!
//! Triggers write it in the transaction that changes the rows, whoever changes them: our own lanes, a `psql`, another
//! loader. An entry becomes visible together with its change. So a transaction that commits late is seen by the next
//! refresh, with its entries.

use crate::error::Error;
use crate::limits::{CHANGE_BYTES_MAX, CHANGE_ROW_KEYS, PUBLISH_LOCK_WAIT};
use millstream_model::KeyColumn;
use millstream_pg::advisory::MODEL;
use millstream_pg::{fill, quote_identifier, quote_literal};
use millstream_store::limits::CHANGE_KEYS_MAX;
use millstream_store::models::{self, Model, TRIGGER_PREFIX};
use millstream_store::{Schema, foreign_owner};
use tokio_postgres::{Client, GenericClient};

/// A collection whose changes are recorded.
#[derive(Debug, Clone)]
pub(crate) struct ChangeRecord<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) table_oid: u32,
    /// Qualified and quoted.
    pub(crate) table: String,
    pub(crate) key: &'a [KeyColumn],
    pub(crate) unlogged: bool,
}

/// What a model does not show yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pending {
    /// Changes of keys. A key that changed twice counts twice.
    pub(crate) keys: u64,
    /// Whether everything counts as changed, because the changed keys are not known.
    pub(crate) everything: bool,
    /// Age in seconds of the newest change.
    pub(crate) newest_age: Option<f64>,
}

impl ChangeRecord<'_> {
    pub(crate) fn record(&self) -> String {
        format!("{}.change_{}", self.schema, self.table_oid)
    }

    /// Creates the record and its triggers if they do not exist. Creating the triggers waits for every transaction that
    /// is writing to the collection. So a later snapshot sees what was not recorded.
    ///
    /// # Errors
    /// The server's, also when writers hold the table for longer than [`PUBLISH_LOCK_WAIT`]; `Request` when another
    /// role owns the record and this role may not use it.
    pub(crate) async fn turn_on(&self, client: &impl GenericClient) -> Result<(), Error> {
        let exists = "select pg_catalog.to_regclass($1) is not null";
        if client.query_one(exists, &[&self.record()]).await?.get(0) {
            return self.require_rights(client).await;
        }
        self.require_heard(client).await?;
        let wait_ms = PUBLISH_LOCK_WAIT.as_millis();
        client.batch_execute(&format!("set local lock_timeout = {wait_ms}")).await?;
        // Another schema may have a model of the same table, so the names of triggers hold our schema's OID.
        let oid = "select oid from pg_catalog.pg_namespace where nspname = $1";
        let oid: u32 = client.query_one(oid, &[&self.schema.name()]).await?.get(0);
        let trigger = format!("{TRIGGER_PREFIX}{oid}_");
        self.drop_restored(client).await?;
        client.batch_execute(&self.definition(&trigger)).await?;
        if self.owns_table(client).await? {
            let replicated = fill!(
                include_str!("record_replicated.sql"),
                trigger,
                table = self.table,
                key_function = self.function("key")
            );
            client.batch_execute(&replicated).await?;
        }
        let [record, key] = self.functions();
        let marked = fill!(include_str!("marked.sql"), marks = include_str!("marks.sql"));
        let marked: String = client.query_one(&marked, &[&self.table_oid, &record, &key]).await?.get(0);
        let comment = format!("comment on table {} is {}", self.record(), quote_literal(&marked));
        Ok(client.batch_execute(&comment).await?)
    }

    /// Writes down the marks of columns that the collection has got since the record was made, because a model may use them
    /// from now on: a change of theirs fires no trigger. `used` are the columns that it may use, quoted.
    ///
    /// # Errors
    /// [`Error::Refused`] when it uses such a column and another role owns the record; the server's.
    pub(crate) async fn rely_on(&self, client: &impl GenericClient, used: &[String]) -> Result<(), Error> {
        let [record, key] = self.functions();
        let sql = fill!(include_str!("marks_added.sql"), marks = include_str!("marks.sql"));
        let row = client.query_opt(&sql, &[&self.table_oid, &record, &key, &self.record(), &used]).await?;
        let Some(row) = row else { return Ok(()) };
        let (marked, owner): (String, Option<String>) = (row.get("marked"), row.get("other_owner"));
        let Some(owner) = owner else {
            let comment = format!("comment on table {} is {}", self.record(), quote_literal(&marked));
            return Ok(client.batch_execute(&comment).await?);
        };
        let Some(column) = row.get::<_, Option<String>>("used") else { return Ok(()) };
        let table = &self.table;
        let problem = format!("the change record of {table} does not know the column {column}, which was added later");
        Err(Error::refused(problem, format!("publish a model with that column as {owner}, who owns the record, first")))
    }

    /// Whether this role has the rights of the table's owner.
    async fn owns_table(&self, client: &impl GenericClient) -> Result<bool, Error> {
        let owns = "select pg_catalog.pg_has_role(relowner, 'usage') from pg_catalog.pg_class where oid = $1";
        Ok(client.query_one(owns, &[&self.table_oid]).await?.get(0))
    }

    /// Requires that every change can be recorded: only the owner of a table can have a trigger that hears the worker of
    /// a subscription.
    ///
    /// # Errors
    /// [`Error::Refused`] names the owner.
    pub(crate) async fn require_heard(&self, client: &impl GenericClient) -> Result<(), Error> {
        if self.owns_table(client).await? {
            return Ok(());
        }
        let subscribed = "select pg_catalog.pg_get_userbyid(c.relowner)::text from pg_catalog.pg_class c \
                          where c.oid = $1 and exists (select from pg_catalog.pg_subscription_rel where srrelid = c.oid)";
        let Some(row) = client.query_opt(subscribed, &[&self.table_oid]).await? else { return Ok(()) };
        let problem = format!("a subscription writes {}, and only its owner can have that recorded", self.table);
        Err(Error::refused(problem, format!("connect as {}", row.get::<_, &str>(0))))
    }

    /// The functions of the record's triggers, as `to_regprocedure` takes them.
    pub(crate) fn functions(&self) -> [String; 2] {
        ["record", "key"].map(|what| format!("{}()", self.function(what)))
    }

    /// Drops the records that the table's triggers wrote before a restore gave it another OID.
    async fn drop_restored(&self, client: &impl GenericClient) -> Result<(), Error> {
        let rows = client.query(include_str!("restored_records.sql"), &[&self.table_oid, &self.schema.name()]).await?;
        for row in rows {
            let restored = Self { table_oid: row.get(0), ..self.clone() };
            restored.turn_off(client).await?;
        }
        Ok(())
    }

    /// The record's owner, if a session with more rights than tables need does not trust it: to use the record would run
    /// that role's triggers, defaults and index expressions.
    pub(crate) async fn owner(&self, client: &impl GenericClient) -> Result<Option<String>, Error> {
        let sql = "select pg_catalog.to_regclass($1)::pg_catalog.oid";
        let Some(record) = client.query_one(sql, &[&self.record()]).await?.get(0) else { return Ok(None) };
        Ok(foreign_owner(client, self.schema, record).await?)
    }

    /// Requires that the session trusts the record's owner.
    pub(crate) async fn require_owner(&self, client: &impl GenericClient) -> Result<(), Error> {
        let Some(owner) = self.owner(client).await? else { return Ok(()) };
        let table = &self.table;
        let problem =
            format!("the change record of {table} belongs to role {owner}, which could run code with your rights");
        Err(Error::refused(problem, format!("connect as {owner}")))
    }

    /// Requires that the role may use the record, which another role may own.
    async fn require_rights(&self, client: &impl GenericClient) -> Result<(), Error> {
        self.require_owner(client).await?;
        let may = "select pg_catalog.bool_and(pg_catalog.has_table_privilege($1, privilege)), current_user::text
                   from pg_catalog.unnest('{select, insert, delete}'::text[]) as privilege";
        let row = client.query_one(may, &[&self.record()]).await?;
        if row.get(0) {
            return Ok(());
        }
        let problem = format!("the change record of {} belongs to another role", self.table);
        let hint =
            format!("as that role: grant select, insert, delete on {} to {}", self.record(), row.get::<_, &str>(1));
        Err(Error::refused(problem, hint))
    }

    /// A function of the record's triggers.
    pub(crate) fn function(&self, what: &str) -> String {
        format!("{}.change_{}_{what}", self.schema, self.table_oid)
    }

    /// A piece for each column of the key, given its number from 1, its quoted name and the column.
    fn each(&self, between: &str, piece: impl Fn(usize, &str, &KeyColumn) -> String) -> String {
        let pieces = (1..).zip(self.key).map(|(n, column)| piece(n, &quote_identifier(&column.name), column));
        pieces.collect::<Vec<_>>().join(between)
    }

    fn definition(&self, trigger_prefix: &str) -> String {
        let record = self.record();
        let same_column =
            |_, _: &str, k: &KeyColumn| format!("({}, '{}'::regtype)", quote_literal(&k.name), k.key_type.sql_name());
        let same_key = format!(
            "(select pg_catalog.count(*) from pg_attribute join pg_type on pg_type.oid = atttypid where attrelid = tg_relid \
             and (attname, case typtype when 'd' then typbasetype else atttypid end) in ({})) = {}",
            self.each(", ", same_column),
            self.key.len()
        );
        let record_literal = quote_literal(&record);
        let names = self.each(", ", |n, _, _| format!("key{n}"));
        let array = |_, name: &str, k: &KeyColumn| format!("array_agg(changed.{name}::{})", k.key_type.sql_name());
        let counted = fill!(
            include_str!("record_counted.sql"),
            same_key,
            record,
            record_literal,
            names,
            arrays = self.each(", ", array),
            key_names = self.each(", ", |_, name, _| name.to_owned()),
            bytes_max = CHANGE_BYTES_MAX,
            row_keys = CHANGE_ROW_KEYS,
            keys_max = CHANGE_KEYS_MAX,
        );
        // Neither of them is there for every trigger that calls the function.
        let row_array = |_, name: &str, k: &KeyColumn| {
            let value = format!("case when tg_nargs = 0 or tg_op = 'DELETE' then old.{name} else new.{name} end");
            format!("array[{value}::{}]", k.key_type.sql_name())
        };
        let one_key = fill!(
            include_str!("record_key.sql"),
            same_key,
            record,
            record_literal,
            names,
            row_arrays = self.each(", ", row_array),
            bytes_max = CHANGE_BYTES_MAX,
        );
        fill!(
            include_str!("record.sql"),
            record,
            table = self.table,
            persistence = if self.unlogged { "unlogged" } else { "" },
            columns = self.each(",\n    ", |n, _, k| format!("key{n} {}[]", k.key_type.sql_name())),
            // Compressing keys takes longer than writing them.
            storage = self.each("\n", |n, _, _| format!("alter table {record} alter key{n} set storage external;")),
            record_function = self.function("record"),
            record_body = quote_literal(&counted),
            key_function = self.function("key"),
            key_body = quote_literal(&one_key),
            key_changes = self.each(" or ", |_, name, _| format!("old.{name} operator(pg_catalog.<>) new.{name}")),
            trigger = trigger_prefix,
        )
    }

    /// Drops the record and its triggers if they exist.
    pub(crate) async fn turn_off(&self, client: &impl GenericClient) -> Result<(), Error> {
        let wait_ms = PUBLISH_LOCK_WAIT.as_millis();
        // Dropping the functions drops their triggers, if the table still exists.
        let sql = format!(
            "set local lock_timeout = {wait_ms}; drop function if exists {}() cascade; \
             drop function if exists {}() cascade; drop table if exists {}",
            self.function("record"),
            self.function("key"),
            self.record()
        );
        Ok(client.batch_execute(&sql).await?)
    }

    /// The changes that the current snapshot sees and the model does not show.
    pub(crate) async fn pending(&self, client: &impl GenericClient, model: &Model) -> Result<Pending, Error> {
        let Some(shows) = &model.shows else {
            return Ok(Pending { keys: 0, everything: true, newest_age: None });
        };
        if self.unrecorded_cause(client).await?.is_some() {
            return Ok(Pending { keys: 0, everything: true, newest_age: None });
        }
        let sql = fill!(include_str!("pending.sql"), record = self.record());
        let row = client.query_one(&sql, &[shows]).await?;
        Ok(Pending {
            keys: u64::try_from(row.get::<_, i64>("keys")).unwrap_or(0),
            everything: row.get("everything"),
            newest_age: row.get("newest_age"),
        })
    }

    /// If a crash has emptied the record, writes its permanent row again, and a row by which everything counts as
    /// changed, because other models have missed as much as the one that is refreshed.
    pub(crate) async fn restore(&self, client: &Client) -> Result<(), Error> {
        let record = self.record();
        let kept = format!("select exists (select from {record} where keys = 0 and not everything)");
        if !client.query_one(&kept, &[]).await?.get::<_, bool>(0) {
            let sql = format!("insert into {record} (keys, everything) values (0, true), (0, false)");
            client.execute(&sql, &[]).await?;
        }
        Ok(())
    }

    /// Deletes the permanent row, as a crash would. So a later refresh knows that changes are missing, even if the
    /// cause is gone by then.
    pub(crate) async fn distrust(&self, client: &Client) -> Result<(), Error> {
        let (record, wait_ms) = (self.record(), PUBLISH_LOCK_WAIT.as_millis());
        let sql = format!(
            "begin; set local lock_timeout = {wait_ms}; delete from {record} where keys = 0 and not everything; commit"
        );
        Ok(client.batch_execute(&sql).await?)
    }

    /// Deletes the changes that every model of the collection shows. A model that was never built needs none of them,
    /// unless it is being built: its snapshot may be older than what the others show.
    pub(crate) async fn forget(&self, client: &Client) -> Result<(), Error> {
        client.batch_execute("begin").await?;
        let mut unbuilt = Vec::new();
        for model in models::list(client, self.schema).await? {
            let is_free = model.table_oid == self.table_oid
                && model.shows.is_none()
                && MODEL.of(model.lock_id).try_lock_in_transaction(client).await?;
            if is_free {
                unbuilt.push(model.model_id);
            }
        }
        let sql = fill!(include_str!("forget.sql"), schema = self.schema, record = self.record());
        let forgotten = client.execute(&sql, &[&self.table_oid, &unbuilt]).await?;
        client.batch_execute("commit").await?;
        if forgotten > 0 {
            // The record's size is limited, so it must not hold space for deleted rows.
            client.batch_execute(&format!("vacuum {}", self.record())).await?;
        }
        Ok(())
    }

    /// The keys that changed after a snapshot, as a select from the record. `snapshot` is its text, as SQL.
    pub(crate) fn changed_keys(&self, snapshot: &str) -> String {
        fill!(
            include_str!("changed_keys.sql"),
            snapshot,
            record = self.record(),
            arrays = self.each(", ", |n, _, _| format!("pg_catalog.unnest(change.key{n})")),
            names = self.each(", ", |_, name, _| name.to_owned()),
            changed = self.each(", ", |_, name, _| format!("changed.{name}")),
        )
    }
}
