//! The table behind a collection: created when missing, checked when present.

mod check;
mod definition;
mod distributed;
mod fitness;
mod folding;
mod form;
mod known;
mod name;
mod sample;
mod schema;
mod storage;
mod typed;

pub use definition::definition;
pub(crate) use definition::key_columns;
use distributed::{distribution, moved, require_hashed};
pub(crate) use distributed::{provide_distributed, require_distributed};
pub(crate) use known::KnownTable;
use sample::{documents, sample};
pub(crate) use storage::compression;
pub use storage::{COLD_FILLFACTOR, COMPRESSION, FILLFACTOR};
use typed::Typed;

use crate::error::Error;
use crate::feed::Feed;
use crate::merge::Mode;
use crate::observe::{Event, Observer};
use crate::plan::{LoadPlan, TableTraits};
use crate::request::LoadRequest;
use crate::turns::Turns;
use crate::watched::Watched;
use millstream_document::decode::{self, LeftOut};
use millstream_failpoint as failpoint;
use millstream_model::{CollectionName, DocumentForm, KeyColumn, KeyRequest, KeySpec, KeyType, VersionType, path_text};
use millstream_pg::catalog::{self, Table};
use millstream_pg::{Connection, quote_name};
use millstream_store::collections::Collection;
use millstream_store::models::TRIGGER_PREFIX;
use millstream_store::truncation::{self, Found};
use millstream_store::{Access, Known, Schema, TypedColumn, Versions, checks};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient};

/// A collection ready to be loaded into.
#[derive(Clone)]
pub(crate) struct PreparedCollection {
    pub(crate) plan: LoadPlan,
    /// The state of its table when we looked.
    pub(crate) watched: Watched,
    /// Whether its lanes write one at a time.
    pub(crate) turns: Arc<Turns>,
}

/// What a load would find or create.
pub(crate) struct Prospect {
    /// The key, with its types.
    pub(crate) key: KeySpec,
    /// Why each column has its type, one line per column.
    pub(crate) reasons: Vec<String>,
    /// The statement that would create the table; `None` if the table exists and fits.
    pub(crate) ddl: Option<String>,
    /// Nothing wrong, but worth a line.
    pub(crate) warnings: Vec<String>,
    /// The checks asked for, as the server spells them.
    pub(crate) checks: Vec<String>,
    /// The typed columns that the table has or gets.
    pub(crate) columns: Vec<TypedColumn>,
    /// Why each of them is what it is, one line per column.
    pub(crate) column_reasons: Vec<String>,
    /// The type of the version that the mode compares, and why.
    pub(crate) version: Option<String>,
    /// What the table stores of the documents.
    pub(crate) doc: DocumentForm,
    /// The table, if it exists.
    table: Option<u32>,
    traits: TableTraits,
    pub(crate) mode: Mode,
}

impl Prospect {
    /// What is to be recorded of the collection.
    fn known(&self) -> Known {
        Known { key: self.key.clone(), doc: self.doc }
    }
}

/// A table that is there, and what the load found or was about to create.
pub(crate) struct Provided {
    prospect: Prospect,
    /// The table, if it was made now.
    pub(crate) made: Option<u32>,
}

/// Decides the types of the key and checks the table if there is one. Changes nothing.
pub(crate) async fn foresee(
    control: &Connection,
    schema: &Schema,
    request: &LoadRequest,
    feed: &mut Feed,
) -> Result<Prospect, Error> {
    let (name, client) = (&request.collection, &control.client);
    let found = catalog::table(client, &name.schema, &name.table).await?;
    let oid = found.as_ref().map(|table| table.oid);
    if found.is_none() {
        name::require_free(client, request).await?;
    }
    let TypedMode { mode, version, warning } = decide_version_type(client, schema, request, oid, feed).await?;
    let Some(mut table) = found else {
        if request.shard.is_some() {
            return Err(moved(name));
        }
        let (key, reasons, mut warnings) = infer(request, feed).await?;
        let Typed { columns: typed, reasons: column_reasons, warnings: left_out } =
            typed::chosen(request, feed).await?;
        let doc = form::agreed(request, None, &key, &mode, &typed)?;
        warnings.extend(left_out.into_iter().chain(warning));
        warnings.extend(form::warning(doc, &key, !request.checks.is_empty()));
        let reasons = form::noted(doc, &key, reasons);
        let mut columns = key_columns(&key);
        columns.push("doc jsonb not null".to_owned());
        columns.extend(typed.iter().map(TypedColumn::generated));
        let columns = columns.join(", ");
        let checks = check::spell(client, schema, (name, None), &columns, &request.checks).await?;
        let lz4 = control.server.lz4;
        let mut ddl = definition(name, &key, request.durability, lz4, &typed, &checks);
        if request.distribute {
            require_hashed(name, &key)?;
            ddl = format!("{ddl};\n{}", distribution(name, &key.columns[0].name));
        }
        let ddl = Some(ddl);
        let may_refuse = !checks.is_empty() || !typed.is_empty();
        let traits = TableTraits { can_join: true, may_refuse, alters_rows: false, partitioned: false, lz4 };
        return Ok(Prospect {
            key,
            reasons,
            ddl,
            warnings,
            checks,
            columns: typed,
            column_reasons,
            version,
            doc,
            table: None,
            traits,
            mode,
        });
    };
    forget_own_triggers(&mut table);
    let known = millstream_store::known_collection(client, schema, table.oid).await?;
    let (key, mut warnings) = fitness::check(request, &table, known.as_ref().map(|known| &known.key))?;
    let Typed { columns, reasons: column_reasons, warnings: others } = typed::required(request, &table, feed).await?;
    warnings.extend(others.into_iter().chain(warning));
    warnings.extend(millstream_store::foreign_code(client, schema, table.oid, Access::Write).await?);
    let doc = form::agreed(request, known.as_ref(), &key, &mode, &columns)?;
    let has_checks = !(request.checks.is_empty() && table.checks.is_empty());
    warnings.extend(form::warning(doc, &key, has_checks));
    let reasons = key.columns.iter().map(|c| describe(c, "the collection's own type")).collect();
    let reasons = form::noted(doc, &key, reasons);
    let checks = table_checks(control, schema, request, &table, &mut warnings).await;
    let checks = name::explained(client, name, table.oid, checks).await?;
    let traits = traits(&table, &mode, &checks);
    warnings.extend(form::altered(doc, traits.alters_rows));
    if let Some((problem, hint)) = (request.layout.misfit)(&table, traits.can_join && !traits.may_refuse) {
        return Err(Error::Collection { collection: name.clone(), problem, hint });
    }
    Ok(Prospect {
        key,
        reasons,
        ddl: None,
        warnings,
        checks,
        columns,
        column_reasons,
        version,
        doc,
        table: oid,
        traits,
        mode,
    })
}

/// Checks that documents that wait can be merged into a collection's table. Returns whether a trigger may drop rows or
/// change their keys.
///
/// # Errors
/// [`Error::TableMoved`] when it is gone or replaced, [`Error::Collection`] when it does not fit.
pub(crate) async fn require_mergeable(client: &Client, collection: &Collection) -> Result<bool, Error> {
    let name = &collection.name;
    let table = catalog::table(client, &name.schema, &name.table).await?;
    let moved = || Error::TableMoved { collection: name.clone() };
    let mut table = table.filter(|table| table.oid == collection.table_oid).ok_or_else(moved)?;
    table.triggers.retain(|trigger| !trigger.name.starts_with(TRIGGER_PREFIX));
    fitness::check_merge(name, &table, &collection.key)?;
    Ok(fitness::alters_rows(&table, true))
}

/// The checks asked for, as the server spells them. Warns about the other checks of the table.
async fn table_checks(
    control: &Connection,
    schema: &Schema,
    request: &LoadRequest,
    table: &Table,
    warnings: &mut Vec<String>,
) -> Result<Vec<String>, Error> {
    let name = &request.collection;
    let quoted = quote_name(name);
    let columns = format!("like {quoted}");
    let asked = check::spell(&control.client, schema, (name, Some(table.oid)), &columns, &request.checks).await?;
    let present = checks(&control.client, table.oid).await?;
    if let Some(missing) = check::missing(&asked, &present).first()
        && !table.privileges.own
    {
        return Err(Error::Collection {
            collection: name.clone(),
            problem: "only its owner may add a check".into(),
            hint: format!("ask {} to: alter table {quoted} add check ({missing}) not valid", table.owner),
        });
    }
    let others = present.iter().filter(|check| !asked.contains(&check.expression));
    warnings.extend(others.map(|check| format!("documents that break this become rejects: {check}")));
    Ok(asked)
}

/// Decides the types of the key, and creates the table or checks the one that is there.
///
/// # Errors
/// [`Error::Collection`] when the table exists and does not fit, [`Error::Key`] when the types of the key cannot be
/// inferred. No table was made then.
pub(crate) async fn provide(
    control: &mut Connection,
    request: &LoadRequest,
    feed: &mut Feed,
) -> Result<Provided, Error> {
    let (name, schema) = (&request.collection, &request.schema);
    let mut prospect = foresee(control, schema, request, feed).await?;
    let Some(ddl) = prospect.ddl.clone() else { return Ok(Provided { prospect, made: None }) };
    let made = create(control, schema, name, &ddl, &prospect.known()).await?;
    if made.is_none() {
        prospect = foresee(control, schema, request, feed).await?;
        if let Some(ddl) = &prospect.ddl {
            // There is no table: something else has its name. The server's error says what.
            control.client.batch_execute(ddl).await?;
        }
    }
    Ok(Provided { prospect, made })
}

/// Makes a table ready to be loaded into.
///
/// # Errors
/// As [`settle`].
pub(crate) async fn prepare(
    control: &mut Connection,
    request: &LoadRequest,
    provided: Provided,
    observer: &dyn Observer,
) -> Result<PreparedCollection, Error> {
    let Provided { mut prospect, made } = provided;
    observer.event(Event::Key(std::mem::take(&mut prospect.reasons)));
    let columns = std::mem::take(&mut prospect.column_reasons);
    if !columns.is_empty() {
        observer.event(Event::Columns(columns));
    }
    if let Some(version) = &prospect.version {
        observer.event(Event::Version(version.clone()));
    }
    observer.warn(std::mem::take(&mut prospect.warnings));
    if let Some(ddl) = &prospect.ddl {
        observer.event(Event::Created(ddl.clone()));
    }
    failpoint::hit("collection-planned").await?;
    let name = &request.collection;
    let table = match made.or(prospect.table) {
        Some(table) => table,
        None => oid(&control.client, name).await?,
    };
    let settled = Box::pin(settle(control, request, prospect, table, observer)).await;
    name::explained(&control.client, name, table, settled).await
}

/// Records a table as a collection, and looks at its rows.
///
/// # Errors
/// [`Error::Collection`] when it has lost its name, or does not fit any more.
async fn settle(
    control: &mut Connection,
    request: &LoadRequest,
    prospect: Prospect,
    table: u32,
    observer: &dyn Observer,
) -> Result<PreparedCollection, Error> {
    let (name, schema) = (&request.collection, &request.schema);
    let known = prospect.known();
    let doc = millstream_store::remember_collection(&control.client, schema, table, name, &known, true).await?;
    if doc != prospect.doc {
        return Err(Error::TableChanged { collection: name.clone(), what: "what it stores of its documents" });
    }
    if request.layout.fills_table {
        // Lost runs whose documents would wait to be merged over those of this load.
        millstream_store::close_lost_appenders(&mut control.client, schema, table).await?;
    }
    if !prospect.checks.is_empty() {
        // Before a check is added to the table: if segments wait, this load is refused in any case.
        millstream_store::refuse_appended(&control.client, schema, table, &name.to_string()).await?;
    }
    check::enforce(control, name, table, &prospect.checks, observer).await?;
    let checks = checks(&control.client, table).await?;
    let columns = prospect.key.columns.iter().map(|column| column.name.as_str());
    // Before the rows are looked at: if somebody changes the table from now on, the batches notice.
    let judged = folding::judged(&prospect.mode);
    let found = truncation::start_over(&mut control.client, schema, table, columns, judged, request.shard).await?;
    let Found { mark, times_emptied, warning } = found.ok_or_else(|| name::dropped(name))?;
    if request.shard.is_some() && !mark.is_placed() {
        return Err(moved(name));
    }
    if mark.name != *name {
        return Err(name::lost(&control.client, name, table).await?.unwrap_or_else(|| name::dropped(name)));
    }
    observer.warn(warning);
    let planned = require_planned(&control.client, request, &prospect).await?;
    let columns = typed::of_table(&planned);
    let (folding, fitting) =
        folding::decide(&control.client, &planned, &prospect.key, &prospect.mode, &columns).await?;
    let traits = traits(&planned, &prospect.mode, &prospect.checks);
    let relies = folding::relies(&prospect.mode, traits, folding);
    let shared_locks = fitness::shared_locks(&planned);
    let found_late = !shared_locks.is_empty() && !may_find_deadlocks_soon(&control.client).await?;
    let quoted = quote_name(name);
    let filled = millstream_store::any_row(&control.client, &quoted).await?;
    let mode = agreed(control, schema, table, request, prospect.mode).await?;
    let checks_tombstones = checks_tombstones(control, schema, table, &mode, request.forget_deletes).await?;
    let plan = LoadPlan {
        request: request.clone(),
        mode,
        key_types: prospect.key.types(),
        left_out: LeftOut::of(doc, &prospect.key.columns),
        key: prospect.key,
        table_oid: table,
        table_empty: !filled,
        traits,
        checks,
        checks_tombstones,
        folding,
        fitting,
        columns,
    };
    let watched = Watched::new(mark, times_emptied, relies);
    Ok(PreparedCollection { plan, watched, turns: Arc::new(Turns::new(&shared_locks, found_late)) })
}

/// Whether the role may let the server look for deadlocks sooner (`deadlock_soon.sql`).
async fn may_find_deadlocks_soon(client: &Client) -> Result<bool, Error> {
    let sql = "select pg_catalog.has_parameter_privilege('deadlock_timeout', 'set')";
    Ok(client.query_one(sql, &[]).await?.get(0))
}

/// What of a table decides how documents are written.
fn traits(table: &Table, mode: &Mode, checks: &[String]) -> TableTraits {
    TableTraits {
        can_join: fitness::can_join(table),
        may_refuse: fitness::may_refuse(table) || !checks.is_empty(),
        alters_rows: fitness::alters_rows(table, mode.tombstone().is_some()),
        partitioned: table.is_partitioned(),
        lz4: table.column("doc").is_some_and(|doc| doc.compression == Some('l')),
    }
}

/// The triggers of a change record change nothing and refuse nothing.
fn forget_own_triggers(table: &mut Table) {
    table.triggers.retain(|trigger| !trigger.name.starts_with(TRIGGER_PREFIX));
}

/// Requires that the table is still the one for which the load was planned, and returns it. Its mark was read afterwards
/// and does not tell: if a key column got another type between the two, keys would be written as numbers of that type.
///
/// # Errors
/// [`Error::TableChanged`] if it is another one; [`Error::Collection`] if no load could fill it.
async fn require_planned(client: &Client, request: &LoadRequest, prospect: &Prospect) -> Result<Table, Error> {
    let name = &request.collection;
    let mut table = catalog::table(client, &name.schema, &name.table).await?.ok_or_else(|| name::dropped(name))?;
    forget_own_triggers(&mut table);
    let key = fitness::still_fits(request, &table, Some(&prospect.key))?;
    let is_same = prospect.ddl.is_some() || traits(&table, &prospect.mode, &prospect.checks) == prospect.traits;
    if key == prospect.key && is_same {
        return Ok(table);
    }
    Err(Error::TableChanged { collection: name.clone(), what: "columns, indexes or triggers" })
}

/// Creates the table and records it as ours in one transaction. So no other load and no later run finds a table that no
/// load has created. `None` if another load created it at the same moment; the key types of that load count.
async fn create(
    control: &mut Connection,
    schema: &Schema,
    name: &CollectionName,
    ddl: &str,
    known: &Known,
) -> Result<Option<u32>, Error> {
    let transaction = control.client.transaction().await?;
    match transaction.batch_execute(ddl).await {
        Err(e) if e.code().is_some_and(|code| ["42P07", "42710", "23505"].contains(&code.code())) => return Ok(None),
        other => other?,
    }
    let table = oid(&transaction, name).await?;
    millstream_store::forget_waiting(&transaction, schema, name).await?;
    millstream_store::remember_collection(&transaction, schema, table, name, known, false).await?;
    transaction.commit().await?;
    Ok(Some(table))
}

/// The OID of a table that existed a moment ago.
async fn oid(client: &impl GenericClient, name: &CollectionName) -> Result<u32, Error> {
    let table = catalog::table(client, &name.schema, &name.table).await?;
    Ok(table.ok_or_else(|| name::dropped(name))?.oid)
}

/// The key, with types from the documents if the request leaves them open; why each column has its type; and warnings.
async fn infer(request: &LoadRequest, feed: &mut Feed) -> Result<(KeySpec, Vec<String>, Vec<String>), Error> {
    let mut key = request.key.clone();
    let typed = key.iter().all(|column| column.key_type.is_some());
    let sample = if typed { Vec::new() } else { sample(request, feed).await? };
    let by_schema = if typed { vec![None; key.len()] } else { type_by_schema(request, feed, &mut key).await? };
    let inferred = decode::infer(documents(&sample), &key)?;
    let reasons =
        by_schema.into_iter().zip(&inferred.reasons).map(|(by_schema, why)| by_schema.unwrap_or_else(|| why.clone()));
    let reasons = inferred.spec.columns.iter().zip(reasons).map(|(c, why)| describe(c, &why)).collect();
    Ok((inferred.spec, reasons, inferred.warnings))
}

/// Gives columns of the key the types that the schemas of the sources say, if they are types of a key. Returns the reason of
/// each that got one.
async fn type_by_schema(
    request: &LoadRequest,
    feed: &mut Feed,
    key: &mut [KeyRequest],
) -> Result<Vec<Option<String>>, Error> {
    let open = |column: &KeyRequest| match (column.path.as_slice(), column.key_type) {
        ([member], None) => Some(member.clone()),
        _ => None,
    };
    let wanted: Vec<Option<String>> = key.iter().map(open).collect();
    let hint = |name: &str| format!("give the key its type: {}:TYPE", path_text(&[name.to_owned()]));
    let is_wanted = |name: &str| wanted.iter().flatten().any(|wanted| wanted == name);
    let members = schema::members(request, feed, is_wanted, hint).await?;
    let mut reasons = vec![None; key.len()];
    for ((column, wanted), reason) in key.iter_mut().zip(&wanted).zip(&mut reasons) {
        let Some(member) = members.iter().find(|member| wanted.as_ref() == Some(&member.name)) else { continue };
        // Of finer times, different ones would be one key.
        column.key_type = member.type_name.filter(|_| member.is_exact).and_then(|name| name.parse::<KeyType>().ok());
        *reason = column.key_type.map(|_| schema::reason(member));
    }
    Ok(reasons)
}

/// The mode, with the version type that the collection uses.
async fn agreed(
    control: &Connection,
    schema: &Schema,
    table_oid: u32,
    request: &LoadRequest,
    mode: Mode,
) -> Result<Mode, Error> {
    let Some(path) = mode.version().map(KeyRequest::path_text) else { return Ok(mode) };
    // The type is open if there is no document.
    let Some(wanted) = mode.version_type() else { return Ok(mode) };
    if request.mode.version_type().is_some() {
        // It is recorded later, when nothing else refuses the load.
        return Ok(mode);
    }
    let versions = Versions { table_oid, collection: &request.collection, path: &path };
    Ok(mode.with_version_type(versions.remember(&control.client, schema, wanted).await?))
}

/// Whether writes must be checked against tombstones. Those that the load will forget do not count.
async fn checks_tombstones(
    control: &Connection,
    schema: &Schema,
    table: u32,
    mode: &Mode,
    forget: Option<Duration>,
) -> Result<bool, Error> {
    if mode.version().is_none() {
        return Ok(false);
    }
    let sql = "select exists ( \
                   select from {schema}.tombstone where table_oid = $1 and version_of = $2 \
                   and ($3::float8 is null or deleted_at >= pg_catalog.now() - pg_catalog.make_interval(secs => $3)))";
    let parameters: [&(dyn ToSql + Sync); 3] = [&table, &mode.paths_text(), &forget.map(|age| age.as_secs_f64())];
    let any: bool = control.client.query_one(&schema.sql(sql), &parameters).await?.get(0);
    Ok(any || mode.tombstone().is_some() || millstream_store::is_deleting(&control.client, schema, table).await?)
}

/// The mode with the type of its version.
pub(crate) struct TypedMode {
    pub(crate) mode: Mode,
    /// The type and why, if the mode compares versions.
    version: Option<String>,
    warning: Option<String>,
}

/// Decides the type of the mode's version. If the request leaves it open, it is the collection's own type, else it is
/// inferred from the documents.
pub(crate) async fn decide_version_type(
    client: &Client,
    schema: &Schema,
    request: &LoadRequest,
    table_oid: Option<u32>,
    feed: &mut Feed,
) -> Result<TypedMode, Error> {
    let mode = request.mode.clone();
    let Some(wanted) = mode.version().cloned() else { return Ok(TypedMode { mode, version: None, warning: None }) };
    let path = wanted.path_text();
    let known = match table_oid {
        Some(table_oid) => {
            Versions { table_oid, collection: &request.collection, path: &path }.known(client, schema).await?
        }
        None => None,
    };
    let mut warning = None;
    let (version_type, why) = match (mode.version_type(), known) {
        (Some(given), _) => (given, "as given".to_owned()),
        (None, Some(known)) => (known, "the collection's own type".to_owned()),
        (None, None) => match infer_version(request, &wanted, feed).await? {
            Some((version_type, why)) => {
                warning = (version_type == VersionType::default()).then(|| compared_as_text(&path));
                (version_type, why)
            }
            None => {
                let version = Some(format!("{path} (there is no document)"));
                return Ok(TypedMode { mode, version, warning });
            }
        },
    };
    let version = Some(format!("{version_type} from {path} ({why})"));
    Ok(TypedMode { mode: mode.with_version_type(version_type), version, warning })
}

fn compared_as_text(path: &str) -> String {
    format!(
        "versions at {path} are compared as text, in which 1.9.0 is newer than 1.10.0: \
         if they are numbers, times or dates, say so with newest:{path}:TYPE"
    )
}

/// Infers the type of the version. `None` if there are no documents, so that nothing is compared.
async fn infer_version(
    request: &LoadRequest,
    wanted: &KeyRequest,
    feed: &mut Feed,
) -> Result<Option<(VersionType, String)>, Error> {
    let sample = sample(request, feed).await?;
    if sample.iter().all(|chunk| chunk.frames.is_empty()) {
        return match request.sources.is_empty() {
            true => Err(Error::refused(
                "a stream has no documents yet from which to infer the type of its versions",
                format!("name it: newest:{}:TYPE", wanted.path_text()),
            )),
            false => Ok(None),
        };
    }
    Ok(Some(decode::infer_version(documents(&sample), wanted)?))
}

fn describe(column: &KeyColumn, why: &str) -> String {
    format!("{} {} from {} ({why})", column.name, column.key_type, column.path_text())
}
