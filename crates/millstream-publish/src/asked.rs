//! A definition that is to be published, and what its names mean to the session that publishes it.

use crate::clock::follows_clock;
use crate::column_type::ColumnType;
use crate::definition::{Derivation, rows_of_given};
use crate::error::Error;
use crate::refusal::refused;
use crate::row_wise::check_row_wise;
use crate::storage::{Storage, TRIAL, check};
use crate::volatility::refuse_volatile;
use millstream_pg::{quote_identifier, quote_name};
use millstream_store::collections::Collection;
use millstream_store::{Column, Definition, GivenSql, Resolved, Schema, names_in_sql, whole_document};
use tokio_postgres::GenericClient;

/// A definition that is to be published, in the transaction that publishes it.
pub(crate) struct Asked<'a> {
    pub(crate) collection: &'a Collection,
    pub(crate) definition: &'a Definition,
    pub(crate) derivation: Derivation,
    types: Vec<String>,
    source: Vec<String>,
    /// Hears what is odd about the definition.
    warn: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Asked<'a> {
    /// Finds the types of the columns, and creates the cast functions that they need.
    ///
    /// # Errors
    /// [`Error::Refused`] for a type that is not there, for a cast function of another role, or for names of what a role
    /// may change that a session with more rights than tables need does not trust.
    pub(crate) async fn new(
        client: &impl GenericClient,
        storage: &Storage<'_>,
        collection: &'a Collection,
        definition: &'a Definition,
        version_num: i32,
        warn: &'a (dyn Fn(&str) + Sync),
    ) -> Result<Self, Error> {
        require_trusted_names(client, storage.schema, collection, definition).await?;
        let kinds = types(client, storage, definition).await?;
        storage.make_casters(client, &kinds, version_num).await?;
        let caster = |type_name: &str| {
            let kind = kinds.iter().find(|kind| kind.sql == type_name);
            kind.filter(|kind| kind.needs_caster(version_num)).map(|_| storage.caster(type_name))
        };
        let types: Vec<String> = kinds.iter().map(|kind| kind.sql.clone()).collect();
        let source = source(client, collection, definition).await?;
        let table = quote_name(&collection.name);
        let key = (collection.key.as_slice(), collection.doc);
        let derivation = Derivation::asked(table, key, definition, &types, &source, caster);
        Ok(Self { collection, definition, derivation, types, source, warn })
    }

    /// The columns of the collection that the definition may name, quoted.
    pub(crate) fn columns(&self) -> &[String] {
        &self.source
    }

    /// Creates the table that generations are attached to. Returns what the definition means.
    ///
    /// # Errors
    /// As [`Asked::try_out`].
    pub(crate) async fn make(self, client: &impl GenericClient, storage: &Storage<'_>) -> Result<Resolved, Error> {
        let resolved = self.try_out(client, storage).await?;
        let (parts, trial) = (storage.parts(), storage.part(TRIAL));
        let make = format!("create table {parts} (like {trial}) partition by list (millstream_generation)");
        client.batch_execute(&format!("{make}; drop table {trial}")).await?;
        Ok(resolved)
    }

    /// Creates the trial generation, empty, to find what is wrong with the definition and what it means.
    ///
    /// # Errors
    /// [`Error::Refused`] names the index or says that the server refuses the definition.
    pub(crate) async fn try_out(self, client: &impl GenericClient, storage: &Storage<'_>) -> Result<Resolved, Error> {
        let (derivation, part) = (&self.derivation, storage.part(TRIAL));
        self.require_trusted(client, storage).await?;
        check(client, derivation).await?;
        check_row_wise(client, derivation).await?;
        refuse_volatile(client, derivation, &storage.table("tried")).await?;
        self.warn_of_clock(client, storage).await?;
        let made = client.batch_execute(&storage.make_part(TRIAL, derivation)).await;
        made.map_err(|error| refused("the model", error))?;
        let clauses = storage.try_indexes(client, &part, TRIAL, &self.definition.indexes).await?;
        self.resolve(client, storage, (&part, TRIAL), clauses).await
    }

    /// Requires that the session trusts everybody who may change what the rows call. Before anything plans them, for the
    /// planner runs functions.
    ///
    /// # Errors
    /// [`Error::Refused`] names the role, or says that the server refuses the definition.
    pub(crate) async fn require_trusted(
        &self,
        client: &impl GenericClient,
        storage: &Storage<'_>,
    ) -> Result<(), Error> {
        client.batch_execute("savepoint trusted").await?;
        let stand_in = storage.table("stand_in");
        let view = self.view_of(client, storage, &stand_in).await?;
        self.called(client, storage, (&view, &stand_in), (&view, &[])).await?;
        client.batch_execute("rollback to trusted; release trusted").await?;
        Ok(())
    }

    /// The schemas of what the rows and these indexes of a table call, if the session trusts everybody who may change it.
    /// `view` has the rows, and reads `stand_in`.
    async fn called(
        &self,
        client: &impl GenericClient,
        storage: &Storage<'_>,
        (view, stand_in): (&str, &str),
        (table, indexes): (&str, &[String]),
    ) -> Result<Vec<String>, Error> {
        used_schemas(client, storage.schema, (view, &[stand_in]), (table, indexes), &self.types).await
    }

    /// Warns if the texts of the definition make values that follow the clock.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses the definition; the server's.
    pub(crate) async fn warn_of_clock(&self, client: &impl GenericClient, storage: &Storage<'_>) -> Result<(), Error> {
        let Self { collection, definition, derivation, types, source, .. } = self;
        if definition.select.is_none() && definition.condition.is_none() {
            return Ok(());
        }
        let view = storage.table("tried");
        let key = (collection.key.as_slice(), collection.doc);
        let rows = rows_of_given(derivation.table(), key, definition, types, source);
        let made = client.batch_execute(&format!("create view {view} as {rows}")).await;
        made.map_err(|error| refused("the model", error))?;
        self.warn_of_clock_in(client, &view, false).await?;
        Ok(client.batch_execute(&format!("drop view {view}")).await?)
    }

    /// As [`Asked::warn_of_clock`], of a view; `is_query` if it is the query of the definition.
    pub(crate) async fn warn_of_clock_in(
        &self,
        client: &impl GenericClient,
        view: &str,
        is_query: bool,
    ) -> Result<(), Error> {
        if let Some(warning) = follows_clock(client, view, is_query).await? {
            (self.warn)(&warning);
        }
        Ok(())
    }

    /// Warns that a query of the user's own reads `doc` as it is stored, if members of the key are not in it.
    pub(crate) fn warn_of_left_out(&self) {
        let Collection { name, key, doc, .. } = self.collection;
        let left_out = doc.left_out(key).into_iter();
        let members: Vec<&str> = left_out.flat_map(|column| &column.path).map(String::as_str).collect();
        if members.is_empty() {
            return;
        }
        let whole = whole_document(*doc, key, &quote_identifier(&name.table));
        (self.warn)(&format!(
            "--query reads the column doc of {name} as it is stored, and it is stored without {}: read the key's columns, \
             or write {whole} for the whole document",
            members.join(", ")
        ));
    }

    /// The definition with the given clauses of its indexes and with every name resolved. The indexes are those of the
    /// trial, on `table`.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses the definition; the server's.
    pub(crate) async fn resolve(
        self,
        client: &impl GenericClient,
        storage: &Storage<'_>,
        (table, generation): (&str, i16),
        clauses: Vec<String>,
    ) -> Result<Resolved, Error> {
        client.batch_execute("savepoint resolve").await?;
        let stand_in = storage.table("stand_in");
        let view = self.view_of(client, storage, &stand_in).await?;
        // The server then prints every name with its schema, unless it means the one in `pg_catalog`.
        client.batch_execute("set local search_path = pg_catalog").await?;
        let row = client.query_one(include_str!("resolved_rows.sql"), &[&view, &stand_in]).await?;
        let (rows, stored, stand_in): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let again = storage.table("again");
        client.batch_execute(&format!("create view {again} as {rows}")).await?;
        let row = client.query_one(include_str!("resolved_rows.sql"), &[&again, &stand_in]).await?;
        require_same(client, &stored, row.get(1)).await?;
        let indexes = resolved_indexes(client, storage, (table, generation), &clauses).await?;
        let names: Vec<String> = clauses.iter().map(|clause| storage.index_name(generation, clause)).collect();
        let schemas = self.called(client, storage, (&view, &stand_in), (table, &names)).await?;
        client.batch_execute("rollback to resolve; release resolve").await?;
        let parts: Vec<&str> = rows.trim_end_matches(';').split(&stand_in).collect();
        let [before, after] = parts.as_slice() else {
            return Err(Error::refused(format!("the definition holds the text {stand_in}"), "leave that name out"));
        };
        Ok(Resolved {
            definition: Definition { indexes: clauses, ..self.definition.clone() },
            table_oid: self.collection.table_oid,
            table: self.collection.name.clone(),
            types: self.types,
            rows: [(*before).to_owned(), (*after).to_owned()],
            indexes,
            schemas,
        })
    }

    /// Creates a view of the rows that reads an empty table in place of the collection's, and returns its name. The
    /// table has only the columns that the definition may name: the collection may lose the others later.
    async fn view_of(
        &self,
        client: &impl GenericClient,
        storage: &Storage<'_>,
        stand_in: &str,
    ) -> Result<String, Error> {
        let (table, view) = (self.derivation.table(), storage.table("tried"));
        let sql = format!(
            "create table {stand_in} as select {} from {table} with no data; create view {view} as {}",
            self.source.join(", "),
            self.derivation.rows_of(stand_in)
        );
        client.batch_execute(&sql).await.map_err(|error| refused("the model", error))?;
        Ok(view)
    }
}

/// Requires, before the server reads the definition, that the session trusts everybody who may change what it names, or what
/// runs for the collection's columns.
///
/// # Errors
/// [`Error::Refused`] names the role.
async fn require_trusted_names(
    client: &impl GenericClient,
    schema: &Schema,
    collection: &Collection,
    definition: &Definition,
) -> Result<(), Error> {
    let types: Vec<String> = definition.columns.iter().map(|column| format!("::{}", column.type_name)).collect();
    let mut all = texts(definition);
    all.extend(types.iter().map(String::as_str));
    let given = GivenSql { of: "model", texts: &all, reads: Some(collection.table_oid) };
    Ok(schema.require_trusted_sql(client, &given).await?)
}

/// The texts of a definition that say what its rows are.
fn texts(definition: &Definition) -> Vec<&str> {
    let Definition { condition, select, query, .. } = definition;
    [condition, select, query].into_iter().filter_map(|text| text.as_deref()).collect()
}

/// Whether texts may name every column of the collection without its name. In small letters.
fn takes_all(texts: &str) -> bool {
    texts.contains("stored") || texts.contains('*')
}

/// The columns of a collection that a definition may name, quoted: its key, its documents, and those that the definition
/// names. A typed column hides another one of its name.
async fn source(
    client: &impl GenericClient,
    collection: &Collection,
    definition: &Definition,
) -> Result<Vec<String>, Error> {
    let (typed, texts) = (&definition.columns, texts(definition));
    // The collection may lose the others, or change them, without the model.
    let used = if takes_all(&texts.join(" ").to_lowercase()) { None } else { names_in_sql(&texts) };
    let is_used = |name: &String| used.as_ref().is_none_or(|used| used.contains(name));
    let names = "select attname::text from pg_catalog.pg_attribute \
                 where attrelid = $1::text::pg_catalog.regclass::oid and attnum > 0 and not attisdropped";
    let mut columns: Vec<String> = collection.key.iter().map(|column| quote_identifier(&column.name)).collect();
    columns.push("doc".to_owned());
    for row in client.query(names, &[&quote_name(&collection.name)]).await? {
        let name: String = row.get(0);
        let quoted = quote_identifier(&name);
        let is_there = name == "doc" || columns.contains(&quoted) || typed.iter().any(|column| column.name == name);
        if !is_there && is_used(&name) {
            columns.push(quoted);
        }
    }
    Ok(columns)
}

/// Requires that an expression, read again from the text that the server prints for it, calls the same functions.
///
/// # Errors
/// [`Error::Refused`] names one that it does not call.
pub(crate) async fn require_same(client: &impl GenericClient, stored: &str, again: &str) -> Result<(), Error> {
    let Some(row) = client.query_opt(include_str!("misprinted.sql"), &[&stored, &again]).await? else { return Ok(()) };
    let problem = format!("the definition calls the {} by SQL that cannot name its schema", row.get::<_, &str>(0));
    let hint = "write the operator itself, as in `a operator(public.=) b`, in place of `is distinct from`, `nullif`, `case .. \
                when` and comparisons of rows";
    Err(Error::refused(problem, hint))
}

/// The types of the columns.
///
/// # Errors
/// [`Error::Refused`] names the first column whose type is not there.
async fn types(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    definition: &Definition,
) -> Result<Vec<ColumnType>, Error> {
    let table = storage.table("types");
    let mut types = Vec::with_capacity(definition.columns.len());
    for Column { name, type_name, .. } in &definition.columns {
        let known = client.query_one("select pg_catalog.to_regtype($1) is not null", &[type_name]).await;
        if !known.is_ok_and(|row| row.get(0)) {
            let problem = format!("column {name}: there is no type {type_name}");
            return Err(Error::refused(problem, "name a type of the database, as in price:numeric=price"));
        }
        client.batch_execute("savepoint types").await?;
        let make = format!("create table {table} as select null::{type_name} as value with no data");
        // Not `batch_execute`: whatever the text holds, it must be one statement.
        client.execute(&make, &[]).await.map_err(|error| refused(&format!("column {name}"), error))?;
        client.batch_execute("set local search_path = pg_catalog").await?;
        let row = client.query_one(include_str!("column_type.sql"), &[&table]).await?;
        types.push(ColumnType { sql: row.get(0), is_soft: row.get(1) });
        client.batch_execute("rollback to types; release types").await?;
    }
    Ok(types)
}

/// The schemas of what a view, indexes of a table and values of these types use, if the session trusts everybody who may
/// change it. The relations `own`, which the view reads, do not count, but for the types of their columns.
///
/// # Errors
/// [`Error::Refused`] names the role.
pub(crate) async fn used_schemas(
    client: &impl GenericClient,
    schema: &Schema,
    (view, own): (&str, &[&str]),
    (table, indexes): (&str, &[String]),
    types: &[String],
) -> Result<Vec<String>, Error> {
    let own = [own, &[view]].concat();
    let called = client.query_one(include_str!("called.sql"), &[&view, &table, &indexes, &types, &own]).await?;
    let (schemas, owners, own): (Vec<String>, Vec<u32>, Vec<u32>) = (called.get(0), called.get(1), called.get(2));
    schema.require_trusted_calls(client, &schemas, &owners).await?;
    // A column leaves no trace of its type among what the view uses.
    schema.require_trusted_columns(client, "model", &own).await?;
    Ok(schemas)
}

/// The clauses of indexes that were created on `table`, with every name resolved. The session must find names in
/// `pg_catalog` alone, and roll back what this creates.
///
/// # Errors
/// As [`require_same`].
pub(crate) async fn resolved_indexes(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    (table, generation): (&str, i16),
    clauses: &[String],
) -> Result<Vec<String>, Error> {
    let mut indexes = Vec::with_capacity(clauses.len());
    for clause in clauses {
        let read = async |name: &str| client.query_one(include_str!("resolved_index.sql"), &[&table, &name]).await;
        let row = read(&storage.index_name(generation, clause)).await?;
        let printed: String = row.get(0);
        // The same text may be printed for two clauses, so the second index has a name of its own.
        let index = storage.index(table, generation, (&format!("again {clause}"), &printed));
        client.batch_execute(&index).await?;
        let again = read(&storage.index_name(generation, &format!("again {clause}"))).await?;
        require_same(client, row.get(1), again.get(1)).await?;
        indexes.push(printed);
    }
    Ok(indexes)
}
