//! Indexes, with their definitions as values.

use super::session::{identity, open, parts, refusal};
use millstream_change::{Answer, Breakable, Kind, Place};
use millstream_model::Refusal;
use millstream_pg::{Error, fill};
use millstream_store::POWERS;
use tokio_postgres::Client;

/// An index by `DATABASE/SCHEMA.NAME`, quoted as SQL needs it. Its value is its definition; no value: there is no such
/// index, or it is invalid. It is made and dropped beside other work. A new one is planned as
/// `create index NAME on TABLE CLAUSE`.
#[derive(Debug)]
pub struct IndexKind;

/// SQLSTATE of a class of operators, a type or a collation that is not found.
const NO_OBJECT: &str = "42704";

/// SQLSTATE of a function or an operator that is not found.
const NO_FUNCTION: &str = "42883";

impl Kind for IndexKind {
    fn name(&self) -> &'static str {
        "index"
    }

    fn is_of_server(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let (database, name) = parts(target)?;
            let sql =
                "select pg_get_indexdef(indexrelid) from pg_index where indexrelid = to_regclass($1) and indisvalid";
            let session = open(place, Some(database)).await?;
            let row = session.client.query_opt(sql, &[&name]).await.map_err(refusal)?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let (database, name) = parts(target)?;
            match (value, self.read(place, target).await?) {
                // What is here is complete.
                (Some(value), Some(there)) if there == value => return Ok(()),
                (Some(_), Some(there)) => {
                    return Err(Refusal::new(format!("somebody else has made the index {name} since: {there}")));
                }
                _ => {}
            }
            let session = open(place, Some(database)).await?;
            // It waits for transactions that use the table, and nobody waits for it. If it gave up, the index would be
            // invalid.
            session.client.batch_execute("set lock_timeout = 0").await.map_err(refusal)?;
            if value.is_none() {
                let more = session.client.query_opt(include_str!("index_more.sql"), &[&name]).await.map_err(refusal)?;
                if let Some(more) = more.and_then(|row| row.get::<_, Option<String>>(0)) {
                    return Err(Refusal::new(format!(
                        "{name} has {more}, which its definition does not tell; drop it by hand"
                    )));
                }
                let types = fill!(include_str!("foreign_type.sql"), powers = POWERS);
                if let Some(row) = session.client.query_opt(&types, &[&name]).await.map_err(refusal)? {
                    let (kind, owner): (String, String) = (row.get("type"), row.get("owner"));
                    return Err(Refusal::new(format!(
                        "the definition of {name} names the type {kind} of role {owner}, and to make the index again would run \
                         that role's code with your rights; drop it by hand, or connect as {owner}"
                    )));
                }
            }
            if let Some(definition) = value {
                let (table, clause) = table_and_clause(definition).ok_or_else(|| no_definition(definition))?;
                refuse_foreign(&session.client, definition, (table, clause)).await?;
            }
            // What a build that failed has left behind goes, too.
            let drop = format!("drop index concurrently if exists {name}");
            session.client.batch_execute(&drop).await.map_err(refusal)?;
            let Some(definition) = value else { return Ok(()) };
            let sql = concurrently(definition).ok_or_else(|| no_definition(definition))?;
            session.client.batch_execute(&sql).await.map_err(refusal)
        })
    }

    fn spelled<'a>(&'a self, place: &'a Place, target: &'a str, value: &'a str) -> Answer<'a, String> {
        Box::pin(async move {
            let (database, name) = parts(target)?;
            let none = || no_definition(value);
            let (own, table, clause) = new_index(value).ok_or_else(none)?;
            let mut session = open(place, Some(database)).await?;
            let is_taken = "select to_regclass($1) is not null";
            if session.client.query_one(is_taken, &[&name]).await.map_err(refusal)?.get(0) {
                return Err(Refusal::new(format!("{name} exists already; run the doctor again to get another name")));
            }
            refuse_foreign(&session.client, value, (table, clause)).await?;
            // The server spells the definition of an index on an empty copy of the table.
            let transaction = session.client.transaction().await.map_err(refusal)?;
            let names = include_str!("index_names.sql");
            let names = transaction.query_one(names, &[&table]).await.map_err(refusal)?;
            let (schemas, owner): (String, String) = (names.get("schemas"), names.get("owner"));
            // Functions of the clause run with the rights of the owner of the table, as when the index is built. The
            // definition must name everything with its schema: the session that builds it does not search these.
            let copy = format!(
                "create temporary table millstream_copy (like {table}); \
                 alter table pg_temp.millstream_copy owner to {owner}; \
                 create index millstream_probe on pg_temp.millstream_copy {clause}; \
                 set local search_path = pg_catalog"
            );
            transaction.batch_execute(&copy).await.map_err(|error| {
                let error = Error::from(error);
                let is_missing = matches!(error.sqlstate(), Some(NO_OBJECT | NO_FUNCTION));
                match concurrently(value).filter(|_| is_missing) {
                    Some(sql) => Refusal::new(format!(
                        "{error}; the doctor looks only into the schemas {schemas}; create the index by hand: {sql}"
                    )),
                    None => refusal(error),
                }
            })?;
            let sql = include_str!("index_spelled.sql");
            let row = transaction.query_one(sql, &[&table]).await.map_err(refusal)?;
            let (definition, table): (String, String) = (row.get("definition"), row.get("table_name"));
            transaction.rollback().await.map_err(refusal)?;
            // The name of the probe and of its table have no space.
            let (create, clause) = definition.split_once(" USING ").ok_or_else(none)?;
            let (create, _) = create.split_once(" millstream_probe ").ok_or_else(none)?;
            Ok(format!("{create} {own} ON {table} USING {clause}"))
        })
    }

    fn can_be_renamed(&self) -> bool {
        true
    }

    fn identity<'a>(&'a self, place: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(identity(place))
    }

    fn breakable(&self) -> Option<&dyn Breakable> {
        Some(self)
    }
}

impl Breakable for IndexKind {
    fn has_parts<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, bool> {
        Box::pin(async move {
            let (database, name) = parts(target)?;
            let sql = "select exists (select from pg_index where indexrelid = to_regclass($1) and not indisvalid)";
            let session = open(place, Some(database)).await?;
            Ok(session.client.query_one(sql, &[&name]).await.map_err(refusal)?.get(0))
        })
    }

    fn leftover(&self, target: &str) -> Option<String> {
        let (database, name) = parts(target).ok()?;
        Some(format!(
            "if it was interrupted, an invalid index may be left; then run this in the database {database}: \
             drop index concurrently if exists {name}"
        ))
    }
}

/// Refuses a clause that may run code of others with the rights of this session, before the server parses it: a literal of a
/// domain runs the domain's check as soon as it is read.
async fn refuse_foreign(client: &Client, definition: &str, (table, clause): (&str, &str)) -> Result<(), Refusal> {
    let by_hand = |problem: String| {
        let sql = concurrently(definition).unwrap_or_else(|| definition.to_owned());
        Refusal::new(format!("{problem}; create the index by hand: {sql}"))
    };
    // Such a name could be spelled in many ways.
    if clause.to_ascii_lowercase().contains("u&\"") {
        return Err(by_hand("the clause of the index has a name with escapes".to_owned()));
    }
    let has_literals = clause.contains(['\'', '$']);
    let sql = fill!(include_str!("foreign_clause.sql"), powers = POWERS);
    let row = client.query_opt(&sql, &[&table, &clause, &words(clause), &has_literals]).await.map_err(refusal)?;
    let Some(row) = row else { return Ok(()) };
    let (what, owner, of_table): (String, String, String) = (row.get("what"), row.get("owner"), row.get("table_owner"));
    Err(by_hand(format!(
        "the clause of the index may name {what}, and would run code of role {owner} with your rights; connect as {of_table}"
    )))
}

/// What may be a name in a clause, as it stands there and as PostgreSQL reads it if it has no quotes.
fn words(clause: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    let words = clause.split(|c: char| !is_part(c)).filter(|word| !word.is_empty());
    words.flat_map(|word| [word.to_owned(), word.to_lowercase()]).collect()
}

fn no_definition(text: &str) -> Refusal {
    Refusal::new(format!("{text} is not a definition of an index"))
}

/// The definition, as PostgreSQL prints it, as a statement that works beside others.
fn concurrently(definition: &str) -> Option<String> {
    ["create index ", "create unique index "].iter().find_map(|beginning| {
        let (first, rest) = definition.split_at_checked(beginning.len())?;
        first.eq_ignore_ascii_case(beginning).then(|| format!("{beginning}concurrently {rest}"))
    })
}

/// Name, table and clause of `create index NAME on TABLE CLAUSE`.
fn new_index(definition: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = first_word(definition.strip_prefix("create index ")?)?;
    let (table, clause) = first_word(rest.strip_prefix("on ")?)?;
    Some((name, table, clause))
}

/// Table and clause of a definition, as PostgreSQL prints it or as a new one is planned.
fn table_and_clause(definition: &str) -> Option<(&str, &str)> {
    let behind = |text, word: &str| {
        let (first, rest) = first_word(text)?;
        first.eq_ignore_ascii_case(word).then_some(rest)
    };
    let rest = behind(definition, "create")?;
    let rest = behind(behind(rest, "unique").unwrap_or(rest), "index")?;
    let rest = behind(first_word(rest)?.1, "on")?;
    first_word(behind(rest, "only").unwrap_or(rest))
}

/// The text before the first space that is not in a quoted name, and the text after it.
fn first_word(text: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let end = text.find(|c: char| {
        is_quoted ^= c == '"';
        c == ' ' && !is_quoted
    })?;
    Some((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_index_has_a_name_a_table_and_a_clause() {
        let (name, table) = ("\"a on \"\" b\"", "s.\"t on\"");
        let definition = format!("create index {name} on {table} using gin (a)");
        assert_eq!(new_index(&definition), Some((name, table, "using gin (a)")));
        for wrong in ["create index i", "create index i on t", "drop table t", "create index \"i on t (a)"] {
            assert_eq!(new_index(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_definition_has_a_table_and_a_clause() {
        let (name, table) = ("\"a on \"\" b\"", "s.\"t on\"");
        for begins in
            ["create index", "create unique index"].map(|text| [text.to_owned(), text.to_uppercase()]).concat()
        {
            for on in ["on", "ON", "ON ONLY"] {
                let definition = format!("{begins} {name} {on} {table} using gin (a)");
                assert_eq!(table_and_clause(&definition), Some((table, "using gin (a)")), "{definition}");
            }
        }
        assert_eq!(table_and_clause("drop table t"), None);
    }

    #[test]
    fn the_words_of_a_clause_are_all_that_may_be_names() {
        let expected = ["btree", "btree", "evil", "evil", "G", "g", "a", "a", "x", "x", "Dom", "dom"];
        assert_eq!(words("btree (evil.G(a, '{x}'::\"Dom\"[]))"), expected);
    }

    #[test]
    fn an_index_is_built_beside_other_work() {
        let plain = concurrently(&"create index i on t (a)".to_ascii_uppercase());
        assert_eq!(plain.as_deref(), Some("create index concurrently I ON T (A)"));
        let unique = concurrently("create unique index i on t (a)");
        assert_eq!(unique.as_deref(), Some("create unique index concurrently i on t (a)"));
        assert_eq!(concurrently("drop table t"), None);
    }
}
