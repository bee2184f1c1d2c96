//! Compares documents of the sources with rows of the table, side by side in key order.

use super::equality::equal;
use super::fold::Folding;
use super::record::KeyedDocument;
use super::stored::{Stored, StoredRow};
use super::{Finding, Verification, VerifyRequest, source_name};
use crate::error::Error;
use crate::limits::{FOLDED_BATCH_BYTES, FOLDED_QUEUE};
use millstream_document::decode::JsonbText;
use millstream_model::KeyType;
use millstream_model::key_bytes::key_texts;
use std::io;
use std::path::PathBuf;
use tokio::sync::mpsc;

/// How a table differs from its sources at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The sources have a document, the table has no row.
    Missing,
    /// Both exist and are not equal by jsonb `=`.
    Different,
    /// The table has a row, the sources have no document.
    Extra,
}

/// Compares every document with the rows of its key, whose columns have these types. Adds up in `found`.
pub(super) async fn compare(
    folding: Folding,
    stored: Stored,
    types: Vec<KeyType>,
    request: &VerifyRequest,
    found: Verification,
) -> Result<Verification, Error> {
    let folded = Batches::start(folding, request.directory.clone());
    let mut comparer = Comparer { folded, stored, types, request, found, text: Vec::new() };
    comparer.run().await?;
    Ok(comparer.found)
}

struct Comparer<'r> {
    folded: Batches,
    stored: Stored,
    types: Vec<KeyType>,
    request: &'r VerifyRequest,
    found: Verification,
    /// The document's text as jsonb prints it.
    text: Vec<u8>,
}

impl Comparer<'_> {
    /// Reads both sides in key order, as a merge join does.
    async fn run(&mut self) -> Result<(), Error> {
        let mut jsonb = JsonbText::default();
        let mut row = self.stored.next().await?;
        while let Some(folded) = self.folded.next().await? {
            self.found.keys += 1;
            row = self.skip_lesser(&folded.key, row).await?;
            self.text.clear();
            jsonb.put(&folded.document, &mut self.text);
            row = self.compare_key(&folded, row).await?;
        }
        // Unless surplus rows are differences, nothing is left to find, and the rest of the table is not read.
        while let Some(extra) = row.filter(|_| self.request.exact) {
            self.extra(&extra)?;
            row = self.stored.next().await?;
        }
        Ok(())
    }

    /// Skips the rows before a key. No document has their keys, so they count as extra.
    async fn skip_lesser(&mut self, key: &[u8], mut row: Option<StoredRow>) -> Result<Option<StoredRow>, Error> {
        while let Some(lesser) = row.as_ref().filter(|row| row.key.as_deref().is_none_or(|own| own < key)) {
            self.extra(lesser)?;
            row = self.stored.next().await?;
        }
        Ok(row)
    }

    /// Compares a document with the rows of its key. A table without a unique key may have several. One that is equal
    /// is right; every further equal one counts as extra.
    async fn compare_key(
        &mut self,
        folded: &KeyedDocument,
        mut row: Option<StoredRow>,
    ) -> Result<Option<StoredRow>, Error> {
        let (mut rows, mut right) = (0, 0);
        while let Some(candidate) = row.as_ref().filter(|row| row.key.as_ref() == Some(&folded.key)) {
            rows += 1;
            if candidate.document()?.is_some_and(|document| equal(&self.text, document)) {
                right += 1;
                if right > 1 {
                    self.extra(candidate)?;
                }
            } else {
                self.found.different += 1;
                self.list(Difference::Different, folded);
            }
            row = self.stored.next().await?;
        }
        if rows == 0 {
            self.found.missing += 1;
            self.list(Difference::Missing, folded);
        }
        self.found.equal += right.min(1);
        Ok(row)
    }

    fn list(&mut self, difference: Difference, folded: &KeyedDocument) {
        if self.found.findings.len() < self.request.findings_max {
            let key = key_texts(&self.types, &folded.key).into_iter().map(Some).collect();
            let source = Some(source_name(&self.request.load, folded.place.source));
            self.found.findings.push(Finding { difference, key, source, line: Some(folded.place.line) });
        }
    }

    /// Counts a surplus row, if those are looked for.
    fn extra(&mut self, row: &StoredRow) -> Result<(), Error> {
        let Some(extra) = &mut self.found.extra else { return Ok(()) };
        *extra += 1;
        if self.found.findings.len() < self.request.findings_max {
            let (difference, key) = (Difference::Extra, row.key_texts(&self.types)?);
            self.found.findings.push(Finding { difference, key, source: None, line: None });
        }
        Ok(())
    }
}

/// Folded documents, merged from the runs on a thread of their own.
struct Batches {
    receiver: mpsc::Receiver<io::Result<Vec<KeyedDocument>>>,
    batch: std::vec::IntoIter<KeyedDocument>,
    directory: PathBuf,
}

impl Batches {
    fn start(mut folding: Folding, directory: PathBuf) -> Self {
        let (sender, receiver) = mpsc::channel(FOLDED_QUEUE);
        tokio::task::spawn_blocking(move || {
            loop {
                let batch = read(&mut folding);
                let last = !matches!(&batch, Ok(batch) if !batch.is_empty());
                // The receiver is gone if the comparison has failed.
                if sender.blocking_send(batch).is_err() || last {
                    return;
                }
            }
        });
        Self { receiver, batch: Vec::new().into_iter(), directory }
    }

    async fn next(&mut self) -> Result<Option<KeyedDocument>, Error> {
        if let Some(folded) = self.batch.next() {
            return Ok(Some(folded));
        }
        let batch = self.receiver.recv().await;
        let batch = batch.ok_or(Error::BrokenOff("the thread that merges the sorted runs has gone"))?;
        self.batch = batch.map_err(|source| Error::Runs { directory: self.directory.clone(), source })?.into_iter();
        Ok(self.batch.next())
    }
}

/// The next documents; none at the end.
fn read(folding: &mut Folding) -> io::Result<Vec<KeyedDocument>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < FOLDED_BATCH_BYTES {
        let Some(expected) = folding.next()? else { break };
        bytes += expected.bytes() + size_of::<KeyedDocument>();
        batch.push(expected);
    }
    Ok(batch)
}
