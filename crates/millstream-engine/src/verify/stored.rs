//! Reads the rows of a table in key order, with one statement that needs only `select`.

use crate::error::Error;
use crate::wire::{Wire, put_column, put_key};
use futures_util::TryStreamExt;
use millstream_model::key_bytes::key_texts;
use millstream_model::{CollectionName, KeyColumn, KeyRequest, KeySpec, KeyType};
use millstream_pg::catalog::{Column, Table};
use millstream_pg::{ErrorKind, Explained, quote_identifier, quote_name};
use millstream_store::segments::{self, Seen};
use millstream_store::{Known, Schema, whole_document};
use std::pin::Pin;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, RowStream};

/// Types of columns that can be compared with keys: the column's type, the key's, and the one the column is read as.
const COLUMN_TYPES: &[(Type, KeyType, Type)] = &[
    (Type::TEXT, KeyType::Text, Type::TEXT),
    (Type::VARCHAR, KeyType::Text, Type::TEXT),
    (Type::INT8, KeyType::Bigint, Type::INT8),
    (Type::INT4, KeyType::Integer, Type::INT4),
    (Type::INT2, KeyType::Smallint, Type::INT2),
    (Type::NUMERIC, KeyType::Numeric, Type::NUMERIC),
    (Type::UUID, KeyType::Uuid, Type::UUID),
    (Type::TIMESTAMPTZ, KeyType::Timestamptz, Type::TIMESTAMPTZ),
    (Type::TIMESTAMP, KeyType::Timestamp, Type::TIMESTAMP),
    (Type::DATE, KeyType::Date, Type::DATE),
    (Type::BOOL, KeyType::Boolean, Type::BOOL),
];

/// Kinds of relations that have rows, as the catalog spells them.
const READABLE: &[char] = &['r', 'p', 'v', 'm', 'f'];

/// How a table is read.
#[derive(Debug, Clone)]
pub(crate) struct TableReading {
    /// The key with the types of the table's columns, in the order of its index if it has one.
    pub(crate) key: KeySpec,
    pub(super) table_oid: u32,
    name: CollectionName,
    selected: String,
    order: String,
    /// The document of a row, as SQL over `newest`.
    document: String,
}

impl TableReading {
    /// Matches the key with the table's columns.
    ///
    /// # Errors
    /// [`Error::Unverifiable`] names what does not fit.
    pub(super) fn of(name: &CollectionName, table: &Table, asked: &[KeyRequest]) -> Result<Self, Error> {
        let refuse = |(problem, hint)| Error::Unverifiable { collection: name.clone(), problem, hint };
        if !READABLE.contains(&table.kind) {
            return Err(refuse(("it is not a table".into(), "name a table or a view".into())));
        }
        doc_column(table).map_err(refuse)?;
        let names: Vec<&str> = asked.iter().map(|k| k.column.as_str()).collect();
        let mut asked: Vec<&KeyRequest> = asked.iter().collect();
        if let Some(index) = table.unique_index_on(&names) {
            asked.sort_by_key(|request| index.columns.iter().position(|column| *column == request.column));
        }
        Self::in_order(name, table, asked)
    }

    /// For the key of a load, whose columns keep their order: the canonical bytes of its documents have it.
    ///
    /// # Errors
    /// As [`TableReading::of`].
    pub(crate) fn of_load(name: &CollectionName, table: &Table, key: &KeySpec) -> Result<Self, Error> {
        let of_column =
            |column: &KeyColumn| KeyRequest { column: column.name.clone(), path: column.path.clone(), key_type: None };
        let asked: Vec<KeyRequest> = key.columns.iter().map(of_column).collect();
        Self::in_order(name, table, asked.iter().collect())
    }

    fn in_order(name: &CollectionName, table: &Table, asked: Vec<&KeyRequest>) -> Result<Self, Error> {
        let refuse = |(problem, hint)| Error::Unverifiable { collection: name.clone(), problem, hint };
        let (mut columns, mut selected, mut order) = (Vec::new(), Vec::new(), Vec::new());
        for request in asked {
            let (key_type, expression) = key_column(table, request).map_err(refuse)?;
            let collation = if key_type.is_text() { " collate pg_catalog.\"C\"" } else { "" };
            order.push(format!("{expression}{collation}"));
            selected.push(expression);
            columns.push(KeyColumn { name: request.column.clone(), path: request.path.clone(), key_type });
        }
        let (selected, order, document) = (selected.join(", "), order.join(", "), "newest.doc".to_owned());
        Ok(Self { key: KeySpec { columns }, table_oid: table.oid, name: name.clone(), selected, order, document })
    }

    /// The same for a table that is recorded as a collection, which may store less than whole documents.
    pub(super) fn of_collection(self, known: &Known) -> Self {
        Self { document: whole_document(known.doc, &known.key.columns, "newest"), ..self }
    }
}

fn doc_column(table: &Table) -> Result<(), (String, String)> {
    let hint = || "the documents are expected in a column doc of type jsonb".to_owned();
    match table.column("doc") {
        None => Err(("it has no column doc".into(), hint())),
        Some(c) if c.base_type_oid != Type::JSONB.oid() => {
            Err((format!("its column doc is of type {}", c.type_name), hint()))
        }
        Some(_) => Ok(()),
    }
}

/// Type of a key's column, and the expression that reads it.
fn key_column(table: &Table, request: &KeyRequest) -> Result<(KeyType, String), (String, String)> {
    let name = &request.column;
    let Some(column) = table.column(name) else {
        return Err((
            format!("it has no column {name}"),
            "name the column of each key value: --key COLUMN=PATH".to_owned(),
        ));
    };
    let Some((_, key_type, read_as)) = COLUMN_TYPES.iter().find(|(own, ..)| own.oid() == column.base_type_oid) else {
        return Err((
            format!("its column {name} is of type {}", column.type_name),
            format!("a key is compared in columns of {}", KeyType::names()),
        ));
    };
    // Parsing keeps the length of a varchar.
    let key_type = column.base_type_name.parse().unwrap_or(*key_type);
    if request.key_type.is_some_and(|asked| asked.column() != key_type) {
        return Err((
            format!("its column {name} is of type {}", column.type_name),
            "leave the type out of --key: the table's own is taken".to_owned(),
        ));
    }
    Ok((request.key_type.unwrap_or(key_type), expression(column, read_as)))
}

/// Casts only if needed, because an index gives the order of the column and not of a cast.
fn expression(column: &Column, read_as: &Type) -> String {
    let name = quote_identifier(&column.name);
    if column.type_oid == read_as.oid() { name } else { format!("{name}::pg_catalog.{}", read_as.name()) }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct StoredRow {
    row: Row,
    /// Canonical bytes; `None` when a column is null, because no document has such a key.
    pub(crate) key: Option<Vec<u8>>,
}

impl StoredRow {
    /// The document's text as jsonb prints it; `None` when it is null.
    pub(super) fn document(&self) -> Result<Option<&[u8]>, Error> {
        let Some(Wire(bytes)) = self.row.try_get::<_, Option<Wire<'_>>>(self.row.len() - 1)? else { return Ok(None) };
        // `jsonb_send` puts a version byte in front of the text.
        let text = bytes.split_first().filter(|(version, _)| **version == 1).map(|(_, text)| text);
        text.map(Some).ok_or(Error::BrokenOff("the server sent a jsonb value in a form of its own"))
    }

    /// The key's values as people read them, `None` for null.
    pub(super) fn key_texts(&self, types: &[KeyType]) -> Result<Vec<Option<String>>, Error> {
        let texts = types.iter().enumerate().map(|(n, &key_type)| {
            let mut value = Vec::new();
            if !put_column(&self.row, n, key_type, &mut value)? {
                return Ok(None);
            }
            let infinity = infinity(key_type, &value).map(str::to_owned);
            Ok(Some(infinity.unwrap_or_else(|| key_texts(&[key_type], &value).concat())))
        });
        texts.collect()
    }
}

/// The name of the least or the greatest time. No document has one as its key. Their canonical bytes are all zeros and
/// all ones.
fn infinity(key_type: KeyType, value: &[u8]) -> Option<&'static str> {
    let is_time = matches!(key_type.column(), KeyType::Timestamptz | KeyType::Timestamp | KeyType::Date);
    let all = |byte| is_time && value.iter().all(|&b| b == byte);
    if all(0xff) { Some("infinity") } else { all(0).then_some("-infinity") }
}

/// A table's rows in key order, which is checked.
pub(crate) struct Stored {
    rows: Pin<Box<RowStream>>,
    types: Vec<KeyType>,
    last: Vec<u8>,
}

impl Stored {
    /// Begins to read segments and table in one snapshot.
    pub(super) async fn open(client: &Client, schema: &Schema, reading: &TableReading) -> Result<Self, Error> {
        let TableReading { key, table_oid, name, selected, order, document } = reading;
        let segments = match segments::seen(client, schema).await? {
            Seen::Listed => {
                match schema.exists(client).await {
                    // After a restore, segments are recorded under another OID. A role without grants cannot check for
                    // that.
                    Err(error) if error.kind() != ErrorKind::Rights => return Err(error.into()),
                    _ => {}
                }
                segments::hold(client, schema, *table_oid, name).await?
            }
            Seen::Hidden | Seen::Absent => Vec::new(),
        };
        let keys: Vec<String> = key.columns.iter().map(|column| quote_identifier(&column.name)).collect();
        let relation = segments::newest(schema, &quote_name(name), &keys, &segments);
        let sql = format!("select {selected}, {document} from {relation} as newest order by {order}");
        Self::select(client, &sql, reading).await
    }

    /// Begins to read the keys of a table alone, to which no segments belong. Its rows have no documents.
    pub(crate) async fn keys(client: &Client, reading: &TableReading) -> Result<Self, Error> {
        let TableReading { name, selected, order, .. } = reading;
        let table = quote_name(name);
        let sql = format!("select {selected} from {table} as stored order by {order}");
        Self::select(client, &sql, reading).await
    }

    async fn select(client: &Client, sql: &str, reading: &TableReading) -> Result<Self, Error> {
        let none: [&str; 0] = [];
        let rows = Box::pin(client.query_raw(sql, none).await?);
        Ok(Self { rows, types: reading.key.types(), last: Vec::new() })
    }

    /// The next row, `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<StoredRow>, Error> {
        let Some(row) = self.rows.try_next().await? else { return Ok(None) };
        let mut key = Vec::new();
        if !put_key(&row, &self.types, &mut key)? {
            return Ok(Some(StoredRow { row, key: None }));
        }
        if key < self.last {
            return Err(Error::BrokenOff("the server's order of keys is not that of their canonical bytes"));
        }
        self.last.clone_from(&key);
        Ok(Some(StoredRow { row, key: Some(key) }))
    }
}
