//! A table of PostgreSQL with a row for each range. A B-tree is enough to look an address up in it.

use super::{members, unfit};
use crate::error::Error;
use crate::jsonb;
use crate::limits::{COPY_MESSAGE_BYTES, FIELD_BYTES_MAX, LOCK_PAUSE, LOCK_TRIES, LOCK_TRY_MS};
use crate::store::Generation;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use millstream_model::limits::IDENTIFIER_BYTES_MAX;
use millstream_model::{CollectionName, shell_word};
use millstream_pg::{copy, fill, quote_identifier, quote_literal, quote_name, quote_qualified};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, CopyInSink};

/// Makes the table; `{more}` is empty or more columns.
pub(super) const TABLE: &str = include_str!("table.sql");

const THERE: &str = include_str!("table_there.sql");
const RIGHTS: &str = include_str!("table_rights.sql");
const RANGE_OF: &str = include_str!("range_of.sql");
const LATERAL: &str = include_str!("lateral.sql");

/// How the comment on a table that we made begins.
const MADE: &str = "IP ranges by Millstream: ";

/// What a table has beside its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// Whether it has a column `range` of the type `iprange`, with a GiST index. The extension ip4r must be installed
    /// in the database.
    pub ip4r: bool,
    /// The schema that gets the function `range_of`, and is made if it is missing. `None`: no function.
    pub function: Option<String>,
    /// Roles, by OID, to which a table that is replaced may belong besides the session's own: they own the new one, too.
    pub owners: Vec<u32>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { ip4r: false, function: Some("millstream".into()), owners: Vec::new() }
    }
}

/// Fills a table with all ranges: `start inet`, `"end" inet`, `doc jsonb`. Returns the number of rows.
///
/// It is a new table. In the same transaction it replaces the table of this name, if we made that one, too. Owner and
/// rights stay; default privileges add none. Indexes and triggers that somebody added are gone. Readers wait only at the end, while the two change
/// places. The session must not be in a transaction. If the future is dropped, close the connection.
///
/// # Errors
/// There is a table that we did not make, one of a role that is not trusted, or one with row security; other objects depend on it; jsonb cannot hold a
/// value; ip4r is not installed; the store cannot be read. Everything is then as before.
pub async fn to_table(
    client: &Client,
    generation: &Generation,
    table: &CollectionName,
    options: &TableOptions,
) -> Result<u64, Error> {
    // Each statement must see what others have committed before it.
    run(client, "begin isolation level read committed").await?;
    match fill_and_replace(client, generation, table, options).await {
        Ok(rows) => run(client, "commit").await.map(|()| rows),
        Err(error) => {
            // The first error is the one to report.
            let _ = run(client, "rollback").await;
            Err(error)
        }
    }
}

/// The statement that finds the ranges of many addresses without a function. Its table `addresses` has the addresses in
/// a column `ip`, without netmasks; `host(ip)::inet` cuts one.
pub fn lateral(table: &CollectionName) -> String {
    fill!(LATERAL, ranges = quote_name(table))
}

/// The comment on a table with the ranges of a generation.
pub(super) fn comment(generation: &Generation) -> String {
    let path = generation.path();
    match generation.receipt() {
        Some(receipt) => {
            let store = path.parent().unwrap_or(path).display();
            format!("{MADE}generation {} of {store}, {} ranges", receipt.generation, receipt.stored)
        }
        None => format!("{MADE}{}", path.display()),
    }
}

/// A column for each member that has a type.
///
/// # Errors
/// A name is taken.
pub(super) fn typed_columns(generation: &Generation, has_range: bool) -> Result<String, Error> {
    let mut columns = String::new();
    for (name, kind) in generation.types() {
        let is_taken = ["start", "end", "doc"].contains(&name) || (has_range && name == "range");
        if is_taken || name.len() > IDENTIFIER_BYTES_MAX {
            let why = if is_taken { "is the name of another column" } else { "is too long for the name of a column" };
            let hint = "build the store with another name, or without a type for it";
            return Err(Error::refused(format!("the member {name:?} has a type, and {why}"), hint));
        }
        let (column, sql) = (quote_identifier(name), kind.sql());
        let member = quote_literal(name);
        columns +=
            &format!(",\n    {column} {sql} generated always as ((doc ->> {})::{sql}) stored", member.trim_start());
    }
    Ok(columns)
}

async fn fill_and_replace(
    client: &Client,
    generation: &Generation,
    table: &CollectionName,
    options: &TableOptions,
) -> Result<u64, Error> {
    if table.is_in_reserved_schema() {
        let problem = format!("{table} would be in a schema that PostgreSQL keeps for itself");
        return Err(Error::refused(problem, "name a table in another schema, as in public.NAME"));
    }
    // The name is looked at again before the table is replaced, but a mistake should not cost the time to fill one.
    rights_of_old(client, table, &options.owners).await?;
    let mut more = typed_columns(generation, options.ip4r)?;
    if options.ip4r {
        let of = quote_identifier(&schema_of_ip4r(client).await?);
        let range = format!("{of}.iprange(start::{of}.ipaddress, \"end\"::{of}.ipaddress)");
        more += &format!(",\n    range {of}.iprange not null generated always as ({range}) stored");
    }
    // A name that was never used before.
    let row = client.query_one("select pg_catalog.pg_current_xact_id()::text", &[]).await.map_err(pg)?;
    let name = format!("millstream_new_{}", row.get::<_, String>(0));
    let new = quote_qualified(&table.schema, &name);
    run(client, &fill!(TABLE, more, table = new)).await?;
    // First, so that a missing right costs nothing.
    if let Some(schema) = &options.function {
        make_function(client, schema).await?;
    }
    let rows = fill(client, generation, &new, &name).await?;
    run(client, &format!("alter table {new} add constraint {name}_pkey primary key (start)")).await?;
    let mut indexes = vec!["pkey"];
    if options.ip4r {
        run(client, &format!("create index {name}_range on {new} using gist (range)")).await?;
        indexes.push("range");
    }
    let comment = quote_literal(&comment(generation));
    run(client, &format!("comment on table {new} is {comment}; analyze {new}")).await?;
    replace(client, table, &name, (&indexes, &options.owners)).await?;
    Ok(rows)
}

/// Puts the filled table in the place of the old one.
async fn replace(
    client: &Client,
    table: &CollectionName,
    name: &str,
    (indexes, owners): (&[&str], &[u32]),
) -> Result<(), Error> {
    let schema = &table.schema;
    let target = quote_qualified(schema, &table.table);
    let new = quote_qualified(schema, name);
    let mut rights = String::new();
    if rights_of_old(client, table, owners).await?.is_some() {
        lock(client, &target).await?;
        // While we waited, another session may have replaced it.
        if let Some(of_table) = rights_of_old(client, table, owners).await? {
            let row = client.query_one(RIGHTS, &[&target, &new]).await.map_err(pg)?;
            run(client, row.get(0)).await?;
            rights = of_table + row.get::<_, &str>(1);
        }
        run(client, &format!("drop table {target}")).await?;
    }
    run(client, &format!("alter table {new} rename to {}; {rights}", quote_identifier(&table.table))).await?;
    for index in indexes {
        // Another relation may have the name that people expect. Then the index keeps its own.
        let wanted = format!("{}_{index}", table.table);
        let there = "select pg_catalog.to_regclass($1) is not null";
        let there = client.query_one(there, &[&quote_qualified(schema, &wanted)]).await.map_err(pg)?;
        if wanted.len() <= IDENTIFIER_BYTES_MAX && !there.get::<_, bool>(0) {
            let index = quote_qualified(schema, &format!("{name}_{index}"));
            run(client, &format!("alter index {index} rename to {}", quote_identifier(&wanted))).await?;
        }
    }
    Ok(())
}

/// Locks a table against everybody. Readers that come queue behind each try, so that a try is short.
async fn lock(client: &Client, target: &str) -> Result<(), Error> {
    let try_once = format!(
        "savepoint before_lock; set local lock_timeout = '{LOCK_TRY_MS}ms'; lock table {target} in access exclusive mode"
    );
    let mut tries = 1;
    loop {
        match client.batch_execute(&try_once).await {
            Err(error) if tries < LOCK_TRIES && error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                run(client, "rollback to savepoint before_lock").await?;
                tokio::time::sleep(LOCK_PAUSE).await;
                tries += 1;
            }
            locked => return locked.map_err(pg),
        }
    }
}

/// The statements that give owner and rights of the table of this name to its successor; `None` if there is none.
///
/// # Errors
/// It is not for us to replace.
async fn rights_of_old(client: &Client, table: &CollectionName, owners: &[u32]) -> Result<Option<String>, Error> {
    let target = quote_name(table);
    let row = client.query_opt(THERE, &[&table.schema, &table.table, &MADE, &target, &owners]).await.map_err(pg)?;
    let Some(row) = row else { return Ok(None) };
    let refused = |problem: String, hint: &str| Err(Error::refused(problem, hint));
    if !row.get::<_, bool>("ours") {
        let problem = format!("{table} is there already, and it is not a table that Millstream exported");
        return refused(problem, "name another table, or drop this one first");
    }
    if !row.get::<_, bool>("trusted") {
        let owner: String = row.get("owner");
        let problem = format!("{table} belongs to role {owner}, which would own what is exported");
        let trusted = format!("--trust-owner {}", shell_word(&owner));
        return refused(problem, &format!("connect as {owner}; or, if that is as you want it: {trusted}"));
    }
    if row.get("secured") {
        let problem = format!("{table} has row security, which the table that replaces it would not have");
        return refused(problem, "name another table, or drop this one first");
    }
    Ok(Some(row.get("rights")))
}

async fn schema_of_ip4r(client: &Client) -> Result<String, Error> {
    let sql = "select n.nspname from pg_catalog.pg_extension e
               join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'ip4r'";
    let row = client.query_opt(sql, &[]).await.map_err(pg)?;
    row.map(|row| row.get(0)).ok_or_else(|| {
        let problem = "the extension ip4r is not installed in this database";
        Error::refused(problem, "install it: create extension ip4r; or leave it out, a B-tree finds addresses, too")
    })
}

/// Makes the function `range_of`, or replaces an older one.
async fn make_function(client: &Client, schema: &str) -> Result<(), Error> {
    let quoted = quote_identifier(schema);
    let there = "select pg_catalog.to_regnamespace($1) is not null";
    if !client.query_one(there, &[&quoted]).await.map_err(pg)?.get::<_, bool>(0) {
        run(client, &format!("create schema {quoted}; revoke all on schema {quoted} from public")).await?;
    }
    // Only its owner may replace a function, and others fill tables, too.
    let body = RANGE_OF.split("$function$").nth(1).expect("the function has a body");
    let same = "select exists (select from pg_catalog.pg_proc where proname = 'range_of' and prosrc = $2
                and pronamespace = $1::text::pg_catalog.regnamespace::pg_catalog.oid)";
    if !client.query_one(same, &[&quoted, &body]).await.map_err(pg)?.get::<_, bool>(0) {
        run(client, &fill!(RANGE_OF, schema = quoted)).await?;
    }
    Ok(())
}

/// Copies all ranges into the new table, which has this name.
async fn fill(client: &Client, generation: &Generation, new: &str, name: &str) -> Result<u64, Error> {
    let statement = format!("copy {new} (start, \"end\", doc) from stdin (format binary, freeze)");
    let sink = client.copy_in::<_, Bytes>(&statement).await.map_err(pg)?;
    let mut sink = pin!(sink);
    // After an error of ours the server gets no end, and so it discards the rows.
    let sent = send(sink.as_mut(), generation).await?;
    match sink.finish().await {
        Ok(taken) => {
            assert_eq!(sent, Some(taken), "the server has taken every range");
            Ok(taken)
        }
        Err(error) => Err(refused(error, generation, name)),
    }
}

/// Sends all ranges and returns their number. `None`: the server takes no more, and the end of the COPY reports why.
async fn send(mut sink: Pin<&mut CopyInSink<Bytes>>, generation: &Generation) -> Result<Option<u64>, Error> {
    let mut buffer = BytesMut::with_capacity(2 * COPY_MESSAGE_BYTES);
    buffer.put_slice(copy::HEADER);
    let mut rows = 0;
    for found in generation.ranges()? {
        let found = found?;
        let members = members(&found)?;
        let too_long = (members.len() > FIELD_BYTES_MAX).then_some("its value is too long for a field of PostgreSQL");
        if let Some(problem) = too_long.or_else(|| jsonb::problem(&members)) {
            return Err(unfit(found.range, problem, UNFIT));
        }
        copy::begin_row(&mut buffer, 3);
        put_inet(&mut buffer, found.range.first());
        put_inet(&mut buffer, found.range.last());
        copy::begin_jsonb(&mut buffer, members.len() + 2);
        buffer.put_u8(b'{');
        for piece in members.as_bytes().chunks(COPY_MESSAGE_BYTES) {
            buffer.put_slice(piece);
            if !hand_over(sink.as_mut(), &mut buffer).await {
                return Ok(None);
            }
        }
        buffer.put_u8(b'}');
        if !hand_over(sink.as_mut(), &mut buffer).await {
            return Ok(None);
        }
        rows += 1;
    }
    buffer.put_slice(&copy::END);
    Ok(sink.feed(buffer.freeze()).await.is_ok().then_some(rows))
}

/// Sends the buffer if it is full. `false`: the server takes no more.
async fn hand_over(mut sink: Pin<&mut CopyInSink<Bytes>>, buffer: &mut BytesMut) -> bool {
    if buffer.len() < COPY_MESSAGE_BYTES {
        return true;
    }
    let taken = sink.feed(buffer.split().freeze()).await.is_ok();
    buffer.reserve(2 * COPY_MESSAGE_BYTES);
    taken
}

const UNFIT: &str = "build the store again without it, or export it as ndjson";

/// Appends a column of the type inet (`network_recv`): family, bits, whether it is a cidr, length, bytes.
fn put_inet(out: &mut impl BufMut, address: IpAddr) {
    let mut bytes = [0; 16];
    let (family, length) = match address {
        IpAddr::V4(address) => {
            bytes[..4].copy_from_slice(&address.octets());
            (2, 4_u8)
        }
        IpAddr::V6(address) => {
            bytes = address.octets();
            (3, 16)
        }
    };
    copy::begin_column(out, 4 + usize::from(length));
    out.put_slice(&[family, 8 * length, 0, length]);
    out.put_slice(&bytes[..usize::from(length)]);
}

/// Why the COPY failed: if it is the value of a range, with the range.
fn refused(error: tokio_postgres::Error, generation: &Generation, name: &str) -> Error {
    let Some(server) = error.as_db_error() else { return pg(error) };
    let code = server.code().code();
    // Wrong data, or more than a limit of the server.
    if !code.starts_with("22") && !code.starts_with("54") {
        return pg(error);
    }
    let line = server.where_().and_then(|context| line(context, name));
    let found = line.and_then(|line| generation.ranges().ok()?.nth(line.checked_sub(1)?)?.ok());
    match found {
        Some(found) => unfit(found.range, &format!("PostgreSQL refuses its value: {}", server.message()), UNFIT),
        None => pg(error),
    }
}

/// The line in the context of an error of COPY, such as `COPY t, line 3, column doc`, in any language.
fn line(context: &str, table: &str) -> Option<usize> {
    let (_, rest) = context.split_once(table)?;
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

async fn run(client: &Client, sql: &str) -> Result<(), Error> {
    client.batch_execute(sql).await.map_err(pg)
}

fn pg(error: tokio_postgres::Error) -> Error {
    Error::Postgres(error.into())
}

#[cfg(test)]
mod tests {
    use super::super::tests::store;
    use super::*;

    #[test]
    fn addresses_have_the_binary_format_of_inet() {
        let mut out = Vec::new();
        put_inet(&mut out, "1.0.129.0".parse().unwrap());
        assert_eq!(out, b"\0\0\0\x08\x02\x20\0\x04\x01\0\x81\0");
        out.clear();
        put_inet(&mut out, "2001:db8::1".parse().unwrap());
        assert_eq!(out, b"\0\0\0\x14\x03\x80\0\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01");
    }

    #[test]
    fn the_line_of_an_error_is_found_in_any_language() {
        let table = "millstream_new_77";
        for (context, expected) in [
            ("copy millstream_new_77, line 3, column doc", Some(3)),
            ("copy millstream_new_77, Zeile 12345, Spalte doc: »{\"a\":99}«", Some(12_345)),
            ("JSON data, line 1: {\"a\"...\ncopy millstream_new_77, line 8", Some(8)),
            ("copy millstream_new_77", None),
            ("SQL statement", None),
        ] {
            // As the server spells it.
            let context = context.replace("copy ", &"copy ".to_uppercase());
            assert_eq!(line(&context, table), expected, "{context}");
        }
    }

    #[test]
    fn the_comment_names_the_generation() {
        let (folder, generation) = store(&[("1.0.0.0", ""), ("::1", "")]);
        let store = folder.path().join("store");
        let expected = format!("IP ranges by Millstream: generation 1 of {}, 2 ranges", store.display());
        assert_eq!(comment(&generation), expected);
    }

    #[test]
    fn the_lateral_statement_names_the_table() {
        let sql = lateral(&"geo.Ranges".parse().unwrap());
        assert!(sql.contains("from \"geo\".\"Ranges\"\n") && !sql.contains('{'), "{sql}");
    }

    #[test]
    fn the_function_has_a_body_without_placeholders() {
        let parts: Vec<&str> = RANGE_OF.split("$function$").collect();
        assert_eq!(parts.len(), 3);
        assert!(parts[1].contains("execute format") && !parts[1].contains('{'));
    }
}
