//! Our tables in a fresh database, and the collection `events` in them.

use millstream_model::{Counters, DocumentForm, KeyColumn, KeySpec, KeyType};
use millstream_store::{Advance, Identity, Known, Schema, TableMark, lane, load, remember_collection};
use millstream_testkit::TestDatabase;
use tokio_postgres::types::FromSqlOwned;
use tokio_postgres::{Client, Statement};

/// A key of one column that is also the member.
pub(crate) fn key(key_type: KeyType) -> KeySpec {
    KeySpec { columns: vec![KeyColumn { name: "id".into(), path: vec!["id".into()], key_type }] }
}

/// What is recorded of a collection of whole documents with that key.
pub(crate) fn known(key_type: KeyType) -> Known {
    Known { key: key(key_type), doc: DocumentForm::Whole }
}

pub(crate) struct Scene {
    pub(crate) db: TestDatabase,
    pub(crate) client: Client,
    pub(crate) schema: Schema,
    pub(crate) table_oid: u32,
}

impl Scene {
    pub(crate) async fn new(db: TestDatabase) -> Self {
        let (mut client, schema) = (db.client().await, Schema::new("millstream"));
        schema.ensure(&mut client).await.unwrap();
        // The role of the tests has the name of our schema, which would come first.
        let table = "set search_path = public; create table events (id text primary key, doc jsonb not null)";
        client.batch_execute(table).await.unwrap();
        let table_oid = client.query_one("select 'events'::regclass::oid", &[]).await.unwrap().get(0);
        let name = "public.events".parse().unwrap();
        remember_collection(&client, &schema, table_oid, &name, &known(KeyType::Text), false).await.unwrap();
        Self { db, client, schema, table_oid }
    }

    /// The answer of a query with one row and one column.
    pub(crate) async fn one<T: FromSqlOwned>(&self, sql: &str) -> T {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// A load of two files.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            table_oid: self.table_oid,
            collection: "public.events".into(),
            mode: "replace".into(),
            key: key(KeyType::Text),
            format: "ndjson".into(),
            transforms: Vec::new(),
            durability: "durable",
            unlogged: false,
            layout: "table",
            sources: vec!["a".into(), "b".into()],
            resumable: true,
            once: false,
            checks_tombstones: false,
        }
    }

    /// Begins the next run of a load, and returns its number.
    pub(crate) async fn run(&mut self, load_id: i64, identity: &Identity, lanes: u16, resumed: bool) -> i32 {
        let order = load::next_order(&self.client, &self.schema).await.unwrap();
        let transaction = self.client.transaction().await.unwrap();
        load::consolidate_lanes(&transaction, &self.schema, load_id).await.unwrap();
        let begun = load::begin_run(&transaction, &self.schema, load_id, identity, order, lanes, resumed).await;
        transaction.commit().await.unwrap();
        begun.unwrap()
    }

    /// Records a load and begins its first run.
    pub(crate) async fn begin(&mut self, identity: &Identity, lanes: u16) -> i64 {
        let load_id = load::insert(&mut self.client, &self.schema, identity, lanes).await.unwrap();
        assert_eq!(self.run(load_id, identity, lanes, false).await, 1);
        load_id
    }

    /// Attaches to a lane, again if `more` is 1: its epoch, its batches, and whether a crash emptied the table.
    pub(crate) async fn attach(&self, load_id: i64, lane: i16, run: i32, more: i32) -> (i32, i64, bool) {
        let row = self.client.query_one(&self.schema.sql(lane::ATTACH), &[&load_id, &lane, &run, &more]).await.unwrap();
        (row.get("epoch"), row.get("batches"), row.get("emptied"))
    }

    /// The state of the table, and the statement that commits a batch into it.
    pub(crate) async fn prepared(&self) -> (TableMark, Statement) {
        let mark = TableMark::read(&self.client, self.table_oid, ["id"]).await.unwrap().unwrap();
        (mark, self.client.prepare(&Advance::sql(&self.schema)).await.unwrap())
    }

    /// Ends a run.
    pub(crate) async fn end(&mut self, load_id: i64, state: &str, receipt: Option<&str>) {
        let transaction = self.client.transaction().await.unwrap();
        load::consolidate_lanes(&transaction, &self.schema, load_id).await.unwrap();
        load::record_end(&transaction, &self.schema, load_id, state, None, receipt).await.unwrap();
        transaction.commit().await.unwrap();
    }
}

/// A batch of a lane up to this byte of a source: five documents, one of them rejected. Its hash is that byte, too.
pub(crate) fn batch(table: &TableMark, load_id: i64, lane: u16, epoch: i32, source: u32, offset: u64) -> Advance<'_> {
    let counters = Counters { read: 5, inserted: 4, rejected: 1, bytes_read: 90, ..Counters::default() };
    let (prefix_hash, reject_bytes) = (offset.into(), 9);
    Advance { load_id, lane, epoch, source, offset, prefix_hash, counters, reject_bytes, outcomes: &[2, 3], table }
}
