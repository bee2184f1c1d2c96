//! The rows of a query, each as a JSON object.

use super::objects::Objects;
use super::{Input, InputOptions, Read, refuse_join, rejected};
use crate::error::Error;
use crate::limits::LINE_BYTES_MAX;
use futures_util::TryStreamExt;
use tokio::sync::mpsc;
use tokio_postgres::Client;

/// Rows that come through a channel; the place of a row is its number. Each is the text of a JSON object, and
/// [`send_query`] sends them. An empty text is the end: a channel that is closed without it has lost rows, because its
/// sender was stopped.
///
/// The input blocks while it waits for rows, so read it outside of asynchronous code.
///
/// # Errors
/// An option is of no use for a query.
pub fn query(
    name: String,
    rows: mpsc::Receiver<Result<String, Error>>,
    options: &InputOptions,
) -> Result<Box<dyn Input>, Error> {
    refuse_join(&name, options)?;
    let objects = Objects::new(&name, options)?;
    Ok(Box::new(Rows { name, rows, objects, number: 0, bytes: 0, has_ended: false }))
}

/// Runs a query and sends its rows to an input, as fast as that reads them. What goes wrong is sent, too.
pub async fn send_query(client: &Client, sql: &str, sender: mpsc::Sender<Result<String, Error>>) {
    let ended = match send_rows(client, sql, &sender).await {
        Ok(()) => Ok(String::new()),
        Err(error) => Err(Error::from(error)),
    };
    // Nobody receives any more if the build has failed.
    let _ = sender.send(ended).await;
}

async fn send_rows(
    client: &Client,
    sql: &str,
    sender: &mpsc::Sender<Result<String, Error>>,
) -> Result<(), millstream_pg::Error> {
    let sql = sql.trim_end().trim_end_matches(';');
    // The line feed ends a comment. A column of the query could have any short name, and would hide the row.
    let sql = format!(
        "select pg_catalog.to_jsonb(millstream_ranges_row)::pg_catalog.text from (\n{sql}\n) as millstream_ranges_row"
    );
    let none: [&str; 0] = [];
    let rows = client.query_raw(sql.as_str(), none).await?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.try_next().await? {
        let text: String = row.try_get(0)?;
        if sender.send(Ok(text)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// The rows of a query.
struct Rows {
    name: String,
    rows: mpsc::Receiver<Result<String, Error>>,
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
        let row = self.rows.blocking_recv().ok_or_else(|| {
            let problem = "the query was stopped before its last row".into();
            Error::Input { name: self.name.clone(), problem }
        })??;
        if row.is_empty() {
            self.has_ended = true;
            return Ok(None);
        }
        self.number += 1;
        self.bytes += row.len() as u64;
        let range = if row.len() <= LINE_BYTES_MAX {
            self.objects.range(row.as_bytes(), members)?
        } else {
            Err(format!("the row has more than {LINE_BYTES_MAX} bytes"))
        };
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
}

#[cfg(test)]
mod tests {
    use super::super::JoinOptions;
    use super::super::transcript::transcribe;
    use super::*;
    use std::path::PathBuf;

    fn rows(rows: Vec<Result<String, Error>>, options: &InputOptions) -> Result<Vec<String>, Error> {
        let (sender, receiver) = mpsc::channel(rows.len().max(1));
        for row in rows {
            sender.try_send(row).unwrap();
        }
        drop(sender);
        transcribe(query("select 1".into(), receiver, options)?)
    }

    fn texts(texts: &[&str]) -> Vec<Result<String, Error>> {
        texts.iter().map(|text| Ok((*text).to_owned())).collect()
    }

    #[test]
    fn rows_become_ranges_and_members() {
        let sent = texts(&[
            "{\"cc\": \"AU\", \"network\": \"1.0.0.0/24\", \"n\": 1.50}",
            "{\"cc\": null, \"network\": \"1.0.1.0\"}",
            "{\"cc\": \"FR\", \"network\": null}",
            "",
        ]);
        assert_eq!(
            rows(sent, &InputOptions::default()).unwrap(),
            [
                "1 1.0.0.0-1.0.0.255 \"cc\":\"AU\",\"n\":1.50",
                "2 1.0.1.0-1.0.1.0 \"cc\":null",
                "3 ! the member \"network\" is neither a string nor a number | {\"cc\": \"FR\", \"network\": null}",
            ]
        );
        assert!(rows(texts(&[""]), &InputOptions::default()).unwrap().is_empty());
    }

    #[test]
    fn a_query_that_ends_early_or_fails_is_an_error() {
        let early = rows(texts(&["{\"ip\": \"1.2.3.4\"}"]), &InputOptions::default()).unwrap_err();
        assert_eq!(early.to_string(), "select 1: the query was stopped before its last row");
        let mut sent = texts(&["{\"ip\": \"1.2.3.4\"}"]);
        sent.push(Err(Error::Postgres(millstream_pg::Error::Lost { message: "closed".into() })));
        let failed = rows(sent, &InputOptions::default()).unwrap_err();
        assert!(matches!(failed, Error::Postgres(_)), "{failed}");
    }

    #[test]
    fn rows_are_bounded_and_counted() {
        let long = format!("{{\"ip\": \"{}\"}}", "x".repeat(LINE_BYTES_MAX));
        let (sender, receiver) = mpsc::channel(3);
        sender.try_send(Ok(long.clone())).unwrap();
        sender.try_send(Ok(String::new())).unwrap();
        let mut input = query("q".into(), receiver, &InputOptions::default()).unwrap();
        let read = input.next(&mut String::new()).unwrap().unwrap();
        assert_eq!(read.line, 1);
        assert_eq!(read.range.unwrap_err().reason, format!("the row has more than {LINE_BYTES_MAX} bytes"));
        assert_eq!((input.name(), input.progress()), ("q", (long.len() as u64, None)));
        assert!(input.next(&mut String::new()).unwrap().is_none());
        assert!(input.next(&mut String::new()).unwrap().is_none());
    }

    #[test]
    fn a_query_is_not_joined() {
        let join = Some(JoinOptions::new(PathBuf::from("a.csv")));
        let error = rows(Vec::new(), &InputOptions { join, ..InputOptions::default() }).unwrap_err();
        assert!(error.to_string().starts_with("select 1 cannot be joined"), "{error}");
    }
}
