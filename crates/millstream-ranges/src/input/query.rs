//! The rows of a query, each as a JSON object.

use super::columns::Columns;
use super::objects::Objects;
use super::{Input, InputOptions, Read, refuse_columns, rejected};
use crate::error::Error;
use crate::limits::{LINE_BYTES_MAX, QUERY_QUEUE, QUERY_QUEUE_BYTES, SHOWN_BYTES};
use futures_util::TryStreamExt;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_postgres::Client;

/// Rows on their way from a query to an input.
#[derive(Debug)]
pub struct RowSender {
    rows: mpsc::Sender<Message>,
    /// Bytes that may still wait.
    room: Arc<Semaphore>,
}

/// Where an input gets the rows of a query.
#[derive(Debug)]
pub struct RowReceiver(mpsc::Receiver<Message>);

/// What is sent. A queue that is closed without an end has lost rows, because its sender was stopped.
#[derive(Debug)]
enum Message {
    /// The text of a JSON object. When it is taken, there is room for others.
    Row(String, OwnedSemaphorePermit),
    /// The beginning of a row that is too long.
    Long(String),
    End,
    Failed(Error),
}

/// A queue for the rows of a query. It is bounded by rows and by bytes.
pub fn row_queue() -> (RowSender, RowReceiver) {
    let (rows, received) = mpsc::channel(QUERY_QUEUE);
    (RowSender { rows, room: Arc::new(Semaphore::new(QUERY_QUEUE_BYTES)) }, RowReceiver(received))
}

/// The rows that come through a queue; the place of a row is its number. [`send_query`] sends them.
///
/// The input blocks while it waits for rows, so read it outside of asynchronous code.
///
/// # Errors
/// An option is of no use for a query.
pub fn query(name: String, rows: RowReceiver, options: &InputOptions) -> Result<Box<dyn Input>, Error> {
    refuse_columns(&name, options)?;
    // All rows have the same members, so that the first one decides.
    let objects = Objects::new(&name, options, 0)?;
    Ok(Box::new(Rows { name, rows, objects, number: 0, bytes: 0, has_ended: false }))
}

/// Refuses a query two of whose columns have one name, if it is not clear that neither is needed. Of the two, a row would
/// keep the last.
///
/// # Errors
/// There are two such columns, or the server refuses the query.
pub async fn refuse_repeated_columns(client: &Client, sql: &str, options: &InputOptions) -> Result<(), Error> {
    let columns = format!("select * from (\n{}\n) as millstream_ranges_row", statement(sql));
    let prepared = client.prepare(&columns).await.map_err(millstream_pg::Error::from)?;
    let names = prepared.columns().iter().map(|column| column.name().to_owned()).collect();
    repeated_column(&Columns { source: "the query".into(), kind: "column", names }, options).map_or(Ok(()), |name| {
        let problem = format!("the query has two columns {name:?}");
        Err(Error::refused(problem, "give each column a name of its own: select .. as NAME"))
    })
}

/// The first name that two columns have of which a range or a value may be made.
fn repeated_column<'a>(columns: &'a Columns, options: &InputOptions) -> Option<&'a str> {
    let (InputOptions { keep, range, .. }, mut names) = (options, HashSet::new());
    let place = columns.place(range);
    columns.names.iter().enumerate().find_map(|(column, name)| {
        let is_kept = keep.is_empty() || keep.iter().any(|kept| kept.eq_ignore_ascii_case(name));
        // Where nobody can say which columns hold the range, all of them may.
        let may_hold = place.as_ref().map_or_else(|_| true, |place| place.holds(column));
        ((is_kept || may_hold) && !names.insert(name.as_str())).then_some(name.as_str())
    })
}

/// The query without what ends it.
fn statement(sql: &str) -> &str {
    sql.trim_end().trim_end_matches(';')
}

/// JSON without line ends, which only a document of type json can have, between its tokens. Values stand on one line each
/// where a store is exported.
fn on_one_line(json: &str) -> Cow<'_, str> {
    match json.contains(['\n', '\r']) {
        true => Cow::Owned(json.replace(['\n', '\r'], " ")),
        false => Cow::Borrowed(json),
    }
}

/// Runs a query and sends its rows to an input, as fast as that reads them. What goes wrong is sent, too.
pub async fn send_query(client: &Client, sql: &str, sender: RowSender) {
    let ended = match send_rows(client, sql, &sender).await {
        Ok(()) => Message::End,
        Err(error) => Message::Failed(error.into()),
    };
    // Nobody receives any more if the build has failed.
    let _ = sender.rows.send(ended).await;
}

async fn send_rows(client: &Client, sql: &str, sender: &RowSender) -> Result<(), millstream_pg::Error> {
    let sql = statement(sql);
    // The line feed ends a comment. A column of the query could have any short name, and would hide the row. To jsonb, a
    // document would lose members that it has twice, before anybody could see them.
    let sql = format!(
        "select pg_catalog.to_json(millstream_ranges_row)::pg_catalog.text from (\n{sql}\n) as millstream_ranges_row"
    );
    let none: [&str; 0] = [];
    let rows = client.query_raw(sql.as_str(), none).await?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.try_next().await? {
        if !sender.send(&on_one_line(row.try_get(0)?)).await {
            break;
        }
    }
    Ok(())
}

impl RowSender {
    /// Sends a row when there is room for it. `false`: nobody receives any more.
    async fn send(&self, row: &str) -> bool {
        let message = match u32::try_from(row.len()) {
            Ok(bytes) if row.len() <= LINE_BYTES_MAX => {
                // What waits in the queue is dropped with its receiver, so that nobody waits here for ever.
                let Ok(room) = Arc::clone(&self.room).acquire_many_owned(bytes).await else { return false };
                Message::Row(row.to_owned(), room)
            }
            _ => Message::Long(row[..row.floor_char_boundary(SHOWN_BYTES + 1)].to_owned()),
        };
        self.rows.send(message).await.is_ok()
    }
}

/// The rows of a query.
struct Rows {
    name: String,
    rows: RowReceiver,
    objects: Objects,
    /// Rows read.
    number: u64,
    /// Bytes read.
    bytes: u64,
    has_ended: bool,
}

impl Input for Rows {
    fn next(&mut self, members: &mut String) -> Result<Option<Read>, Error> {
        members.clear();
        if self.has_ended {
            return Ok(None);
        }
        let message = self.rows.0.blocking_recv().ok_or_else(|| {
            let problem = "the query was stopped before its last row".into();
            Error::Input { name: self.name.clone(), problem }
        })?;
        let (row, range) = match message {
            Message::Row(row, _room) => {
                let range = self.objects.range(row.as_bytes(), members)?;
                (row, range)
            }
            Message::Long(row) => (row, Err(format!("the row has more than {LINE_BYTES_MAX} bytes"))),
            Message::End => {
                self.has_ended = true;
                return Ok(None);
            }
            Message::Failed(error) => return Err(error),
        };
        self.number += 1;
        self.bytes += row.len() as u64;
        let range = range.map_err(|reason| {
            members.clear();
            rejected(reason, row.as_bytes())
        });
        Ok(Some(Read { line: self.number, range }))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.bytes, None)
    }

    fn unseen(&self) -> Vec<String> {
        self.objects.unseen()
    }
}

#[cfg(test)]
mod tests {
    use super::super::JoinOptions;
    use super::super::transcript::transcribe;
    use super::*;
    use futures_util::FutureExt;
    use std::path::PathBuf;

    /// An input that gets these rows, and then the message, if there is one.
    async fn sent(rows: &[&str], last: Option<Message>, options: &InputOptions) -> Result<Box<dyn Input>, Error> {
        let (sender, receiver) = row_queue();
        for row in rows {
            assert!(sender.send(row).await);
        }
        if let Some(last) = last {
            sender.rows.send(last).await.unwrap();
        }
        query("select 1".into(), receiver, options)
    }

    async fn rows(rows: &[&str], last: Option<Message>, options: &InputOptions) -> Result<Vec<String>, Error> {
        let input = sent(rows, last, options).await?;
        tokio::task::spawn_blocking(|| transcribe(input)).await.unwrap()
    }

    #[tokio::test]
    async fn rows_become_ranges_and_members() {
        let sent = [
            "{\"cc\": \"AU\", \"network\": \"1.0.0.0/24\", \"n\": 1.50}",
            "{\"cc\": null, \"network\": \"1.0.1.0\"}",
            "{\"cc\": \"FR\", \"network\": null}",
        ];
        assert_eq!(
            rows(&sent, Some(Message::End), &InputOptions::default()).await.unwrap(),
            [
                "1 1.0.0.0-1.0.0.255 \"cc\":\"AU\",\"n\":1.50",
                "2 1.0.1.0-1.0.1.0 \"cc\":null",
                "3 ! the member \"network\" is neither a string nor a number | {\"cc\": \"FR\", \"network\": null}",
            ]
        );
        assert!(rows(&[], Some(Message::End), &InputOptions::default()).await.unwrap().is_empty());
    }

    #[test]
    fn a_column_that_is_not_needed_may_be_there_twice() {
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (names, range, keep, expected) in [
            (&["ip", "x", "x"][..], &[][..], &[][..], Some("x")),
            (&["ip", "x", "x", "y"], &[], &["y"], None),
            (&["ip", "x", "x", "y"], &[], &["Y", "x"], Some("x")),
            (&["net", "x", "x"], &["net"], &["y"], None),
            (&["net", "x", "x"], &["net"], &[], Some("x")),
            (&["x", "x", "y"], &[], &["y"], Some("x")),
            (&["ip", "ip", "y"], &[], &["y"], Some("ip")),
            (&["a", "b", "a", "y"], &["a", "b"], &["y"], Some("a")),
        ] {
            let columns = Columns { source: "here".into(), kind: "column", names: named(names) };
            let options = InputOptions { range: named(range), keep: named(keep), ..InputOptions::default() };
            assert_eq!(repeated_column(&columns, &options), expected, "{names:?} {range:?} {keep:?}");
        }
    }

    #[tokio::test]
    async fn a_query_that_ends_early_or_fails_is_an_error() {
        let one = ["{\"ip\": \"1.2.3.4\"}"];
        let early = rows(&one, None, &InputOptions::default()).await.unwrap_err();
        assert_eq!(early.to_string(), "select 1: the query was stopped before its last row");
        let lost = Error::Postgres(millstream_pg::Error::Lost { message: "closed".into() });
        let failed = rows(&one, Some(Message::Failed(lost)), &InputOptions::default()).await.unwrap_err();
        assert!(matches!(failed, Error::Postgres(_)), "{failed}");
    }

    #[tokio::test]
    async fn rows_are_bounded_and_counted() {
        let long = format!("{{\"ip\": \"{}\"}}", "x".repeat(LINE_BYTES_MAX));
        let mut input = sent(&[&long], Some(Message::End), &InputOptions::default()).await.unwrap();
        let read = move || {
            let first = input.next(&mut String::new()).unwrap().unwrap();
            assert_eq!((input.name(), input.progress()), ("select 1", (SHOWN_BYTES as u64 + 1, None)));
            assert!(input.next(&mut String::new()).unwrap().is_none());
            assert!(input.next(&mut String::new()).unwrap().is_none());
            first
        };
        let first = tokio::task::spawn_blocking(read).await.unwrap();
        assert_eq!(first.line, 1);
        let rejected = first.range.unwrap_err();
        assert_eq!(rejected.reason, format!("the row has more than {LINE_BYTES_MAX} bytes"));
        assert!(rejected.text.ends_with("xxx…"));
    }

    #[tokio::test]
    async fn a_row_waits_until_there_is_room_for_its_bytes() {
        let (sender, mut receiver) = row_queue();
        let row = "x".repeat(LINE_BYTES_MAX);
        for _ in 0..QUERY_QUEUE_BYTES / LINE_BYTES_MAX {
            assert!(sender.send(&row).await);
        }
        let mut waiting = std::pin::pin!(sender.send(&row));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(receiver.0.recv().await);
        assert!(waiting.await);
        drop(receiver);
        assert!(!sender.send(&row).await);
    }

    #[tokio::test]
    async fn a_query_is_not_joined() {
        let join = Some(JoinOptions::new(PathBuf::from("a.csv")));
        let error = rows(&[], None, &InputOptions { join, ..InputOptions::default() }).await.unwrap_err();
        assert!(error.to_string().starts_with("select 1 cannot be joined"), "{error}");
    }
}
