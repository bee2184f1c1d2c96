//! Builds a generation: reads the inputs on a thread, sorts, decides about overlaps, writes, and makes it current.

mod overlap;
mod record;
mod write;

pub use overlap::Overlap;

use crate::error::Error;
use crate::input::{Input, Read, Rejected};
use crate::limits::{
    BATCH_BYTES, BATCH_QUEUE, BATCH_RECORDS, BATCH_WAIT, MAP_BYTES_MAX, MAP_BYTES_MIN, MAP_FACTOR, PAGE_BYTES_MAX,
    PROGRESS_RANGES, REJECTS_MAX, SORT_BYTES, SORT_BYTES_MIN,
};
use crate::store::{Building, FORMAT, Layout, Receipt, hash};
use millstream_failpoint as failpoint;
use millstream_input::{Sorted, Sorter};
use millstream_model::range::Family;
use overlap::{Counts, Sweep};
use record::{InputPosition, RangeRecord};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;
use write::{Put, Written, write};

/// What to build.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    /// The folder; made if it is missing.
    pub store: PathBuf,
    /// What happens where ranges overlap.
    pub overlap: Overlap,
    /// Whether adjacent ranges with equal members become one.
    pub merge: bool,
    /// How ranges are kept.
    pub layout: Layout,
    /// Memory to sort in. If it is too little, sorted runs go to files without names in the store's folder.
    pub memory_bytes: usize,
    /// Address space of the first try to write. `None`: chosen from the content. If it is too little, another try has
    /// more.
    pub map_bytes: Option<usize>,
    /// Rejected entries that stop the build.
    pub rejects_max: u64,
}

impl BuildRequest {
    /// A request with defaults for everything else.
    pub fn new(store: PathBuf) -> Self {
        Self {
            store,
            overlap: Overlap::default(),
            merge: false,
            layout: Layout::default(),
            memory_bytes: SORT_BYTES,
            map_bytes: None,
            rejects_max: REJECTS_MAX,
        }
    }
}

/// An entry of the input that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reject {
    /// The input.
    pub source: String,
    /// The line on which it begins, from 1; the number of the entry where there are no lines.
    pub line: u64,
    /// What is wrong.
    pub reason: String,
    /// The entry, cut if it is long.
    pub text: String,
}

/// How far a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// `reading` or `writing`.
    pub phase: &'static str,
    /// Ranges read or written.
    pub ranges: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes to read, if that is known.
    pub total_bytes: Option<u64>,
}

/// Watches a build, and may stop it.
pub trait Observer: Sync {
    /// An entry cannot be used.
    fn rejected(&self, reject: &Reject);
    /// The build has come this far. Called a few times for each million of ranges.
    fn progress(&self, progress: Progress);
    /// Whether somebody wants the build to end. The store is then as it was.
    fn is_stopped(&self) -> bool;
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn rejected(&self, _: &Reject) {}
    fn progress(&self, _: Progress) {}
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Builds a generation from inputs and makes it the current one. Blocks.
///
/// # Errors
/// Those of the inputs and the disk; [`Error::Overlap`], [`Error::Rejects`] and [`Error::Stopped`]; there is no range
/// to store, or no entry has a member that is to be kept. The store is then as it was. An input may still be read for a
/// while, on a thread of its own.
pub fn build(request: &BuildRequest, inputs: Vec<Box<dyn Input>>, observer: &dyn Observer) -> Result<Receipt, Error> {
    let began = Instant::now();
    if request.memory_bytes < SORT_BYTES_MIN {
        let problem = format!("--memory takes {} MiB or more", SORT_BYTES_MIN >> 20);
        return Err(Error::refused(problem, "leave it out for the default"));
    }
    let building = Building::begin(&request.store)?;
    let names: Vec<String> = inputs.iter().map(|input| input.name().to_owned()).collect();
    let types = inputs.iter().flat_map(|input| input.types()).collect();
    let mut sorter = Sorter::new(&request.store, request.memory_bytes);
    let failed = Error::file("write", &request.store);
    let Reads { read, rejected, unseen } = read_all(inputs, &mut sorter, request, observer)?;
    if read == rejected {
        let problem = format!("there is no range to store: {read} entries read, {rejected} rejected");
        let hint = "check the input and --format, --range; the store is as it was";
        return Err(Error::refused(problem, hint));
    }
    if !unseen.is_empty() {
        let problem = format!("no entry has a member {}", unseen.join(", "));
        let hint = "correct or leave out the name in --keep; the store is as it was";
        return Err(Error::refused(problem, hint));
    }
    let mut receipt = Receipt {
        format: FORMAT,
        generation: building.generation,
        layout: request.layout,
        sources: names,
        types,
        read,
        rejected,
        ..Receipt::default()
    };
    let mut sorted = sorter.finish().map_err(failed)?;
    write_sorted(request, &building, &mut sorted, &mut receipt, observer)?;
    (receipt.bytes, receipt.xxh3) = hash(&building.unfinished)?;
    failpoint::hit_on_thread("ranges-hashed");
    receipt.seconds = began.elapsed().as_secs_f64();
    receipt.ranges_per_second = read as f64 / receipt.seconds;
    assert!(receipt.adds_up(), "every entry is in one column of the receipt: {receipt:?}");
    building.publish(&receipt)?;
    Ok(receipt)
}

/// What was read.
struct Reads {
    read: u64,
    rejected: u64,
    /// Members to keep that no entry has.
    unseen: Vec<String>,
}

/// What the reading thread sends.
#[derive(Default)]
struct Batch {
    records: Vec<RangeRecord>,
    rejects: Vec<Reject>,
    bytes: u64,
    total_bytes: Option<u64>,
}

/// Reads on a thread of its own. After an error nobody waits for the thread, because a pipe or a query may keep it
/// waiting for ever; it ends when it has read some more.
fn read_all(
    inputs: Vec<Box<dyn Input>>,
    sorter: &mut Sorter,
    request: &BuildRequest,
    observer: &dyn Observer,
) -> Result<Reads, Error> {
    let rejects_max = request.rejects_max;
    let mut key = Vec::new();
    let (sender, batches) = sync_channel(BATCH_QUEUE);
    let is_awaited = Arc::new(AtomicBool::new(false));
    let awaited = Arc::clone(&is_awaited);
    let reader = std::thread::spawn(move || read_batches(inputs, &sender, &awaited));
    let mut reads = Reads { read: 0, rejected: 0, unseen: Vec::new() };
    loop {
        if observer.is_stopped() {
            return Err(Error::Stopped);
        }
        let Batch { records, rejects, bytes, total_bytes } = match batches.recv_timeout(BATCH_WAIT) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => {
                is_awaited.store(true, Ordering::Relaxed);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        is_awaited.store(false, Ordering::Relaxed);
        reads.read += (records.len() + rejects.len()) as u64;
        for reject in &rejects {
            reads.rejected += 1;
            observer.rejected(reject);
            if reads.rejected > rejects_max {
                return Err(Error::Rejects { count: reads.rejected, most: rejects_max });
            }
        }
        for record in records {
            record.put_key(&mut key);
            let body = [&record.range.end.to_le_bytes(), record.members.as_bytes()];
            sorter.push(&key, &body).map_err(Error::file("write", &request.store))?;
        }
        observer.progress(Progress { phase: "reading", ranges: reads.read, bytes, total_bytes });
    }
    reads.unseen = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok(reads)
}

/// Reads until the end, or until nobody receives any more. Returns the names that no input has seen.
fn read_batches(
    inputs: Vec<Box<dyn Input>>,
    sender: &SyncSender<Batch>,
    is_awaited: &AtomicBool,
) -> Result<Vec<String>, Error> {
    let mut members = String::new();
    let known: Option<Vec<u64>> = inputs.iter().map(|input| input.progress().1).collect();
    let total_bytes = known.map(|bytes| bytes.iter().sum());
    let mut bytes_before = 0;
    let mut unseen: Option<Vec<String>> = None;
    for (number, mut input) in (0..).zip(inputs) {
        let mut ended = false;
        while !ended {
            let mut batch = Batch { records: Vec::with_capacity(BATCH_RECORDS), ..Batch::default() };
            let mut batch_bytes = 0;
            while batch.records.len() + batch.rejects.len() < BATCH_RECORDS && batch_bytes < BATCH_BYTES {
                let Some(Read { line, range }) = input.next(&mut members)? else {
                    ended = true;
                    break;
                };
                match range {
                    Ok(range) => {
                        batch_bytes += members.len();
                        let place = InputPosition { input: number, line };
                        batch.records.push(RangeRecord { range, place, members: members.as_str().into() });
                    }
                    Err(Rejected { reason, text }) => {
                        batch_bytes += reason.len() + text.len();
                        batch.rejects.push(Reject { source: input.name().to_owned(), line, reason, text });
                    }
                }
                if is_awaited.load(Ordering::Relaxed) {
                    break;
                }
            }
            (batch.bytes, batch.total_bytes) = (bytes_before + input.progress().0, total_bytes);
            if sender.send(batch).is_err() {
                return Ok(Vec::new());
            }
        }
        bytes_before += input.progress().0;
        let not_here = input.unseen();
        match &mut unseen {
            Some(unseen) => unseen.retain(|name| not_here.contains(name)),
            None => unseen = Some(not_here),
        }
    }
    Ok(unseen.unwrap_or_default())
}

/// Writes the file, with more address space after each try that had too little, and fills in the counts.
fn write_sorted(
    request: &BuildRequest,
    building: &Building,
    sorted: &mut Sorted,
    receipt: &mut Receipt,
    observer: &dyn Observer,
) -> Result<(), Error> {
    let records = (receipt.read - receipt.rejected).saturating_mul(size_of::<RangeRecord>() as u64);
    let content = usize::try_from(sorted.bytes().saturating_add(records)).unwrap_or(usize::MAX);
    let guess = content.saturating_mul(MAP_FACTOR).clamp(MAP_BYTES_MIN, MAP_BYTES_MAX);
    // A multiple of every page size.
    let mut map_bytes = request.map_bytes.unwrap_or(guess).next_multiple_of(PAGE_BYTES_MAX);
    loop {
        sorted.rewind().map_err(Error::file("read", &request.store))?;
        let names = receipt.sources.clone();
        let mut content = Sweeping {
            records: Records { sorted, record: millstream_input::SortRecord::default(), store: &request.store },
            sweep: Some(Sweep::new(request.overlap, request.merge, &names)),
            receipt: receipt.clone(),
            written: 0,
            observer,
        };
        let written = write(&building.unfinished, request.layout, map_bytes, &mut content)?;
        if matches!(written, Written::Whole) {
            *receipt = content.receipt;
            return Ok(());
        }
        building.discard()?;
        map_bytes = map_bytes.saturating_mul(MAP_FACTOR);
    }
}

/// Records in order.
struct Records<'a> {
    sorted: &'a mut Sorted,
    record: millstream_input::SortRecord,
    store: &'a Path,
}

impl Records<'_> {
    fn next(&mut self) -> Result<Option<RangeRecord>, Error> {
        if !self.sorted.next(&mut self.record).map_err(Error::file("read", self.store))? {
            return Ok(None);
        }
        let millstream_input::SortRecord { key, body } = &self.record;
        let record = body.split_first_chunk().and_then(|(end, members)| RangeRecord::of(key, *end, members));
        record.map(Some).ok_or_else(|| Error::file("read", self.store)(io::Error::other("a sorted run is damaged")))
    }
}

/// Sorted records on their way to the file.
struct Sweeping<'a> {
    records: Records<'a>,
    /// `None` after the end.
    sweep: Option<Sweep<'a>>,
    /// Has the counts after the end.
    receipt: Receipt,
    written: u64,
    observer: &'a dyn Observer,
}

impl Sweeping<'_> {
    /// Puts the next few ranges, in order. Returns whether there are more.
    ///
    /// # Errors
    /// Those of `put`, of the disk, and [`Error::Stopped`].
    fn next(&mut self, put: Put<'_>) -> Result<bool, Error> {
        let Some(sweep) = &mut self.sweep else { return Ok(false) };
        if self.written.is_multiple_of(PROGRESS_RANGES) {
            let ranges = self.written;
            self.observer.progress(Progress { phase: "writing", ranges, bytes: 0, total_bytes: None });
            if self.observer.is_stopped() {
                return Err(Error::Stopped);
            }
        }
        self.written += 1;
        if let Some(record) = self.records.next()? {
            sweep.push(record, put)?;
            return Ok(true);
        }
        if let Some(sweep) = self.sweep.take() {
            self.count(sweep.finish(put)?);
        }
        Ok(false)
    }

    fn count(&mut self, counts: Counts) {
        let Counts { whole, merged, cut, covered, stored } = counts;
        let receipt = &mut self.receipt;
        (receipt.whole, receipt.merged, receipt.cut, receipt.covered) = (whole, merged, cut, covered);
        (receipt.stored_v4, receipt.stored_v6) = (stored[Family::V4 as usize], stored[Family::V6 as usize]);
        receipt.stored = receipt.stored_v4 + receipt.stored_v6;
    }
}
