//! Check `json-member-missing`: indexes, views and queries that read a member that no document has.

use super::proof::proven;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::index::{JsonRead, json_paths, json_reads};
use crate::limits::{DOCUMENTS_MAX, MEMBERS_MAX, READERS_MAX, SENT_QUERIES_MAX};
use crate::server::{Database, Server};
use millstream_model::quantity::count;
use millstream_model::{Class, Finding, Level, nearest};
use millstream_pg::{Error, fill};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::{Client, Row};

pub(super) const CHECK: Check = Check {
    id: "json-member-missing",
    about: "members of JSON documents that an index, a view or a query reads and no document has, such as mca for mac",
    class: Class::Hypothesis,
    thresholds: &[("documents", 100.0)],
    manual: include_str!("json_member_missing.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

/// What is examined.
#[derive(Debug)]
enum Thing {
    /// What the catalog says.
    Stored(Read),
    /// A query that a session has sent last.
    Sent {
        sql: String,
        /// Its role and its program.
        sender: String,
    },
}

/// Who reads a path.
#[derive(Debug)]
enum Reader {
    /// An index, with the command that drops it.
    Index(String),
    View,
    /// A query, with the role and the program that have sent it.
    Query(String),
}

/// A path that is read, and where its documents are.
#[derive(Debug)]
struct Read {
    /// The index or view; for a query the column.
    name: String,
    reader: Reader,
    /// The column of the documents, as SQL needs it.
    column: String,
    path: Vec<String>,
    /// The tables that have the column. A view may join several.
    tables: Vec<Table>,
    /// Only these rows count, for a partial index.
    predicate: Option<String>,
}

/// A table with documents.
#[derive(Debug)]
struct Table {
    name: String,
    /// Its rows, as the planner estimates; negative if the table was never vacuumed or analyzed.
    rows: f64,
}

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    let (sql, client) = (include_str!("json_member_missing.sql"), &database.session.client);
    let Some(planner) = &server.planner else {
        // The server makes the text of a view anew for everybody who asks. So nobody asks for it who cannot use it.
        let one = client.query_opt(sql, &[&1_i64, &false]).await?;
        let why = |_| {
            "whether documents have the members that indexes and views read; --prove reads some documents".to_owned()
        };
        return Ok(Seen::default().but(one.map(why)));
    };
    let rows = client.query(sql, &[&READERS_MAX, &true]).await?;
    let is_cut = i64::try_from(rows.len()).is_ok_and(|rows| rows >= READERS_MAX);
    let rest = is_cut.then(|| format!("all but the first {READERS_MAX} columns that indexes and views read"));
    let views: BTreeSet<String> =
        rows.iter().filter(|row| !row.get::<_, bool>("has_rows")).map(|row| row.get("name")).collect();
    let views = (!views.is_empty()).then(|| format!("views over other views or foreign tables: {}", views.len()));
    let (reads, renaming) = reads(&rows);
    let renaming =
        (renaming > 0).then(|| format!("views that give the name of a column to something else, too: {renaming}"));
    let views = Seen::default().but(views).but(renaming).unseen;
    let sent = client.query(include_str!("json_member_missing_sent.sql"), &[&SENT_QUERIES_MAX]).await?;
    let sent = sent.iter().map(|row| Thing::Sent { sql: row.get("query"), sender: row.get("sender") });
    let things: Vec<Thing> = reads.into_iter().map(Thing::Stored).chain(sent).collect();
    if things.is_empty() {
        return Ok(Seen::default().but(rest).but(views));
    }
    let all: Vec<&Thing> = things.iter().collect();
    let words = ("members of documents", "that cannot be looked for");
    let proof =
        proven(planner, database, &task, &all, words, |client, thing, task, _| Box::pin(examined(client, thing, task)));
    Ok(Box::pin(proof).await?.but(rest).but(views))
}

/// What each index and each view reads, and how many of them cannot be told.
fn reads(rows: &[Row]) -> (Vec<Read>, usize) {
    let mut readers: BTreeMap<(String, String), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        readers.entry((row.get("name"), row.get("column"))).or_default().push(row);
    }
    let (mut all, mut unknown) = (Vec::new(), 0);
    for ((name, column), rows) in readers {
        let Some(first) = rows.first().filter(|_| rows.iter().all(|row| row.get("has_rows"))) else { continue };
        let predicate: Option<String> = first.get("predicate");
        let text = first.get::<_, Option<String>>("text").unwrap_or_default();
        let read = |path: Vec<String>, predicate: Option<String>| Read {
            name: name.clone(),
            reader: first.get::<_, Option<String>>("drop_index").map_or(Reader::View, Reader::Index),
            column: first.get("column_word"),
            path,
            tables: rows.iter().map(|row| Table { name: row.get("table_name"), rows: row.get("rows") }).collect(),
            predicate,
        };
        // A predicate may choose the rows that have a rare member, or those that have it not.
        match json_paths(&text, &column) {
            Some(paths) => all.extend(paths.into_iter().map(|path| read(path, predicate.clone()))),
            None => unknown += 1,
        }
    }
    (all, unknown)
}

/// What a sample of documents has.
#[derive(Debug, Default)]
struct Sample {
    /// How many have an object at the place.
    documents: u64,
    /// How many of these have the member.
    with_member: u64,
    /// The members of these objects.
    members: BTreeSet<String>,
}

async fn examined(client: &mut Client, thing: &Thing, task: &Task) -> Result<Vec<Finding>, Error> {
    let (sql, sender) = match thing {
        Thing::Stored(read) => return Ok(missing(client, read, task).await?.into_iter().collect()),
        Thing::Sent { sql, sender } => (sql, sender),
    };
    let mut found = Vec::new();
    for JsonRead { table, rows, column, path } in json_reads(client, sql).await? {
        let (name, reader) = (format!("{table}.{column}"), Reader::Query(sender.clone()));
        let tables = vec![Table { name: table, rows }];
        found.extend(missing(client, &Read { name, reader, column, path, tables, predicate: None }, task).await?);
    }
    Ok(found)
}

/// The first member of a path that no document has.
async fn missing(client: &mut Client, read: &Read, task: &Task) -> Result<Option<Finding>, Error> {
    for (depth, member) in read.path.iter().enumerate() {
        let sample = sampled(client, read, &read.path[..depth], member).await?;
        if (sample.documents as f64) < task.threshold("documents") {
            break;
        }
        if sample.with_member == 0 {
            return Ok(Some(finding(read, depth, member, &sample, task)));
        }
    }
    Ok(None)
}

/// Reads some documents, and writes nothing.
async fn sampled(client: &mut Client, read: &Read, path: &[String], member: &str) -> Result<Sample, Error> {
    let transaction = client.build_transaction().read_only(true).start().await?;
    let mut all = Sample::default();
    for table in &read.tables {
        // The partial index itself finds its rows.
        let sample = match &read.predicate {
            Some(predicate) => format!(" where {predicate}"),
            None => format!(" tablesample system ({}) repeatable (1)", percent(table.rows)),
        };
        let sql =
            fill!(include_str!("json_member_missing_sample.sql"), column = read.column, table = table.name, sample);
        let row = transaction.query_one(&sql, &[&path, &member, &(2 * DOCUMENTS_MAX), &MEMBERS_MAX]).await?;
        let number = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
        all.documents += number("documents");
        all.with_member += number("with_member");
        all.members.extend(row.get::<_, Vec<String>>("members"));
    }
    transaction.rollback().await?;
    Ok(all)
}

/// Which part of the pages of a table holds as many rows as are wanted, as far as its statistics know.
fn percent(rows: f64) -> f64 {
    if rows > 0.0 { (100.0 * DOCUMENTS_MAX as f64 / rows).min(100.0) } else { 100.0 }
}

fn finding(read: &Read, depth: usize, member: &str, sample: &Sample, task: &Task) -> Finding {
    let (before, path) = (&read.path[..depth], &read.path[..=depth]);
    let place = std::iter::once(&read.column).chain(before).map(String::as_str).collect::<Vec<_>>().join(".");
    let (kind, reader) = match &read.reader {
        Reader::Index(_) => ("index", "this index"),
        Reader::View => ("view", "this view"),
        Reader::Query(_) => ("query", "a query"),
    };
    let documents = count(sample.documents);
    let sentence = format!("{reader} reads {member} of {place}, and none of {documents} documents has that member");
    let tables: Vec<&str> = read.tables.iter().map(|table| table.name.as_str()).collect();
    let near = nearest(member, sample.members.iter().map(String::as_str));
    let repair = match (near, &read.reader) {
        (Some(near), Reader::Query(_)) => format!("if {near} is meant, write it in the query"),
        (None, Reader::Query(_)) => "see how the documents spell the member, and write it so in the query".to_owned(),
        (Some(near), _) => format!("if {near} is meant, make the {kind} again with it"),
        (None, _) => format!("see how the documents spell the member, and make the {kind} again; or drop it"),
    };
    let (drop, sender, risk) = match &read.reader {
        Reader::Index(drop) => {
            (Some(drop), None, format!("what was written for this {kind} as it is must change, too"))
        }
        Reader::View => (None, None, format!("what was written for this {kind} as it is must change, too")),
        Reader::Query(sender) => (None, Some(sender), "the program must change".to_owned()),
    };
    task.finding(Level::Info, format!("{}.{}", read.name, path.join(".")), sentence)
        .with("documents that were read", documents, &format!("a sample of {}", tables.join(", ")))
        .with_known("who has sent it", sender, "pg_stat_activity")
        .with_known("the nearest member that they have", near, "the same documents")
        .unless("the member is rare, or documents with it are yet to come")
        .repaired(repair, risk)
        .run(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_part_of_a_large_table_and_all_of_a_small_one() {
        assert_eq!([-1.0, 0.0, 500.0].map(percent), [100.0; 3]);
        assert!((percent(1e6) - 0.1).abs() < 1e-9);
    }
}
