//! Compares documents of the sources with rows of the table, side by side in key order.

use super::equality::equal;
use super::fold::{Expected, Folding};
use super::record::Origin;
use super::stored::{Stored, StoredRow};
use crate::decode::JsonbText;
use crate::error::Error;
use crate::limits::{FOLDED_BATCH_BYTES, FOLDED_QUEUE};
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

/// A difference at a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) difference: Difference,
    pub(super) key: Vec<Option<String>>,
    /// Where in the sources the document is that the table should hold.
    pub(super) place: Option<Origin>,
}

/// The counts and findings of a comparison.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) keys: u64,
    pub(super) equal: u64,
    pub(super) missing: u64,
    pub(super) different: u64,
    pub(super) extra: u64,
    pub(super) findings: Vec<Finding>,
}

/// How to compare, and how much to list.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) types: Vec<KeyType>,
    /// Where the runs are.
    pub(super) directory: PathBuf,
    /// Whether a row without a document is a difference.
    pub(super) exact: bool,
    pub(super) findings_max: usize,
}

/// Compares every document with the rows of its key.
pub(super) async fn compare(folding: Folding, stored: Stored, terms: &Terms) -> Result<Comparison, Error> {
    let folded = Batches::start(folding, terms.directory.clone());
    let mut comparer = Comparer { folded, stored, terms, found: Comparison::default(), text: Vec::new() };
    comparer.run().await?;
    Ok(comparer.found)
}

struct Comparer<'t> {
    folded: Batches,
    stored: Stored,
    terms: &'t Terms,
    found: Comparison,
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
        while let Some(extra) = row.filter(|_| self.terms.exact) {
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
    async fn compare_key(&mut self, folded: &Expected, mut row: Option<StoredRow>) -> Result<Option<StoredRow>, Error> {
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

    fn list(&mut self, difference: Difference, folded: &Expected) {
        if self.found.findings.len() < self.terms.findings_max {
            let key = key_texts(&self.terms.types, &folded.key).into_iter().map(Some).collect();
            self.found.findings.push(Finding { difference, key, place: Some(folded.place) });
        }
    }

    fn extra(&mut self, row: &StoredRow) -> Result<(), Error> {
        self.found.extra += 1;
        if self.terms.exact && self.found.findings.len() < self.terms.findings_max {
            let key = row.key_texts(&self.terms.types)?;
            self.found.findings.push(Finding { difference: Difference::Extra, key, place: None });
        }
        Ok(())
    }
}

/// Folded documents, merged from the runs on a thread of their own.
struct Batches {
    receiver: mpsc::Receiver<io::Result<Vec<Expected>>>,
    batch: std::vec::IntoIter<Expected>,
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

    async fn next(&mut self) -> Result<Option<Expected>, Error> {
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
fn read(folding: &mut Folding) -> io::Result<Vec<Expected>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < FOLDED_BATCH_BYTES {
        let Some(expected) = folding.next()? else { break };
        bytes += expected.key.len() + expected.document.len() + size_of::<Expected>();
        batch.push(expected);
    }
    Ok(batch)
}
