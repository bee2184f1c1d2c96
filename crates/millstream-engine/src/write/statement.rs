//! The statements of a collection under a mode, as text and prepared on a connection.

use crate::collection::{Collection, key_columns};
use crate::durability::Durability;
use crate::error::Error;
use crate::limits::{SORT_MEMORY_MIB, STAGE_MEMORY_MIB};
use crate::merge::Mode;
use crate::request::LoadRequest;
use crate::store::Schema;
use millstream_model::KeyType;
use millstream_pg::{SessionSettings, quote_identifier, quote_qualified};
use tokio_postgres::{Client, Statement};

/// Where and how a load writes.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) mode: &'static Mode,
    pub(crate) durability: &'static Durability,
    pub(crate) key_types: Vec<KeyType>,
    pub(crate) schema: Schema,
    create_stage: String,
    copy_table: String,
    copy_stage: String,
    upsert: String,
    /// Where rows can be joined with staged keys.
    update: Option<String>,
}

/// [`Target`]'s statements on one connection.
pub(crate) struct Prepared {
    pub(crate) copy_table: Statement,
    pub(crate) copy_stage: Statement,
    pub(crate) upsert: Statement,
    pub(crate) update: Option<Statement>,
    pub(crate) advance: Statement,
    pub(crate) reject: Statement,
}

impl Target {
    pub(crate) fn new(request: &LoadRequest, collection: &Collection, schema: Schema) -> Self {
        let (name, mode) = (&request.collection, request.mode);
        let (table, key) = (quote_qualified(&name.schema, &name.table), &collection.key);
        let keys: Vec<String> = key.columns.iter().map(|c| quote_identifier(&c.name)).collect();
        let key_list = keys.join(", ");
        let set = |new: &str| Some(mode.set?.replace("{new}", new).replace("{old}", "stored.doc"));
        let action = set("excluded.doc").map_or("nothing".to_owned(), |set| format!("update set doc = {set}"));
        let join: Vec<String> = keys.iter().map(|key| format!("stored.{key} = staged.{key}")).collect();
        let update = set("staged.doc").filter(|_| collection.joins).map(|set| {
            include_str!("update.sql")
                .replace("{table}", &table)
                .replace("{key}", &key_list)
                .replace("{join}", &join.join(" and "))
                .replace("{set}", &set)
        });
        Self {
            mode,
            durability: request.durability,
            key_types: key.columns.iter().map(|c| c.key_type).collect(),
            schema,
            create_stage: format!(
                "create temporary table millstream_stage ({}, doc jsonb not null) on commit delete rows",
                key_columns(key).join(", ")
            ),
            copy_table: format!("copy {table} ({key_list}, doc) from stdin (format binary)"),
            copy_stage: format!("copy pg_temp.millstream_stage ({key_list}, doc) from stdin (format binary)"),
            upsert: include_str!("upsert.sql")
                .replace("{table}", &table)
                .replace("{key}", &key_list)
                .replace("{action}", &action),
            update,
        }
    }

    /// Whether there is a statement for batches whose keys are all stored.
    pub(crate) fn has_update(&self) -> bool {
        self.update.is_some()
    }

    /// The settings of a lane's session.
    pub(crate) fn session(&self, lane: u16) -> SessionSettings {
        let session = SessionSettings::lane(usize::from(lane))
            .with("temp_buffers", &format!("{STAGE_MEMORY_MIB}MB"))
            .with("work_mem", &format!("{SORT_MEMORY_MIB}MB"));
        let others = ["enable_hashjoin", "enable_mergejoin", "enable_seqscan"];
        others.into_iter().filter(|_| self.has_update()).fold(session, |session, name| session.with(name, "off"))
    }

    /// Makes the connection's staging table and prepares the statements.
    pub(crate) async fn prepare(&self, client: &Client) -> Result<Prepared, Error> {
        client.batch_execute(&self.create_stage).await?;
        let advance = self.schema.sql(include_str!("../store/lane_advance.sql"));
        let reject = self.schema.sql(include_str!("../store/reject_insert.sql"));
        let update = async {
            match &self.update {
                Some(update) => client.prepare(update).await.map(Some),
                None => Ok(None),
            }
        };
        let (copy_table, copy_stage, upsert, update, advance, reject) = tokio::try_join!(
            client.prepare(&self.copy_table),
            client.prepare(&self.copy_stage),
            client.prepare(&self.upsert),
            update,
            client.prepare(&advance),
            client.prepare(&reject),
        )?;
        Ok(Prepared { copy_table, copy_stage, upsert, update, advance, reject })
    }
}
