//! The sources of a load, read one after the other on a thread of their own.

use crate::chunk::Chunk;
use crate::error::Error;
use crate::limits::{FEED_QUEUE, INFERENCE_BYTES_MAX, INFERENCE_DOCUMENTS};
use crate::observe::Tally;
use crate::request::LoadRequest;
use crate::source::{self, Prefix, SourceError, SourceOptions};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Chunks of all sources in order.
pub(crate) struct Feed {
    sources: Vec<PathBuf>,
    names: Vec<String>,
    reading: Reading,
    /// Whether every source can be read again from its beginning.
    repeatable: bool,
    running: Option<Running>,
}

/// What the reading thread works with.
#[derive(Clone)]
struct Reading {
    format: String,
    options: SourceOptions,
    /// Beginning of one source that an earlier run has read.
    prefix: Option<(u32, Prefix)>,
    tally: Arc<Tally>,
}

struct Running {
    chunks: mpsc::Receiver<Result<Chunk, SourceError>>,
    /// Chunks read ahead for the key's sake.
    peeked: VecDeque<Chunk>,
}

impl Feed {
    /// Checks that the sources are there, so that a wrong name in the last place costs nothing.
    ///
    /// # Errors
    /// [`SourceError`] names the source.
    pub(crate) fn open(request: &LoadRequest, tally: Arc<Tally>) -> Result<Self, Error> {
        let sources: Vec<PathBuf> = request.sources.iter().map(PathBuf::from).collect();
        let (mut names, mut repeatable, mut total) = (Vec::new(), true, Some(0));
        for path in &sources {
            let file = regular_file(path)?;
            repeatable &= file.is_some();
            total = total.zip(file.as_ref().map(|f| f.1)).map(|(a, b): (u64, u64)| a + b);
            names.push(file.map_or_else(|| path.display().to_string(), |f| f.0));
        }
        tally.expect_input(total);
        let options = SourceOptions { document_bytes_max: request.document_bytes_max, ..SourceOptions::default() };
        let reading = Reading { format: request.format.clone(), options, prefix: None, tally };
        Ok(Self { sources, names, reading, repeatable, running: None })
    }

    /// Whether every source is a file that can be read again.
    pub(crate) fn repeatable(&self) -> bool {
        self.repeatable
    }

    /// Names by which the load knows its sources: whole paths, so that the same command means the
    /// same load from every directory.
    pub(crate) fn source_names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Has the beginning of a source compared with what an earlier run has read of it.
    pub(crate) fn verify(&mut self, prefix: Option<(u32, Prefix)>) {
        self.reading.prefix = prefix;
    }

    /// The first chunks, without consuming them: enough for key inference.
    ///
    /// # Errors
    /// [`SourceError`] when a source cannot be read.
    pub(crate) async fn sample(&mut self) -> Result<Vec<Chunk>, Error> {
        let running = self.running.get_or_insert_with(|| start(&self.sources, &self.reading));
        let (mut documents, mut bytes) = (0, 0);
        while documents < INFERENCE_DOCUMENTS && bytes < INFERENCE_BYTES_MAX {
            let Some(chunk) = running.chunks.recv().await else { break };
            let chunk = chunk?;
            documents += chunk.frames.len();
            bytes += chunk.bytes.len();
            running.peeked.push_back(chunk);
        }
        let sample = running.peeked.iter().cloned().collect();
        if self.repeatable {
            // Read again from the beginning, so that a prefix can be compared.
            self.running = None;
        }
        Ok(sample)
    }

    /// The next chunk, or `None` after the last of the last source.
    ///
    /// # Errors
    /// [`SourceError`] when a source cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        let running = self.running.get_or_insert_with(|| start(&self.sources, &self.reading));
        if let Some(chunk) = running.peeked.pop_front() {
            return Ok(Some(chunk));
        }
        Ok(running.chunks.recv().await.transpose()?)
    }
}

/// Absolute path and size of a regular file; `None` for standard input, pipes and devices.
fn regular_file(path: &Path) -> Result<Option<(String, u64)>, Error> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let name = || path.display().to_string();
    let open_error = |source| SourceError::Open { name: name(), source };
    let metadata = std::fs::metadata(path).map_err(open_error)?;
    if metadata.is_dir() {
        return Err(SourceError::Directory { name: name() }.into());
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    std::fs::File::open(path).map_err(open_error)?;
    let absolute = std::fs::canonicalize(path).map_err(open_error)?;
    Ok(Some((absolute.display().to_string(), metadata.len())))
}

/// Reads all sources on a thread that ends with them, or when nobody listens any more. The thread
/// is not joined: it may wait for a standard input that never ends.
fn start(sources: &[PathBuf], reading: &Reading) -> Running {
    let (sender, chunks) = mpsc::channel(FEED_QUEUE);
    let (sources, reading) = (sources.to_vec(), reading.clone());
    std::thread::spawn(move || {
        if let Err(error) = read_all(&sources, &reading, &sender) {
            // Nobody listens: the load is over.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Running { chunks, peeked: VecDeque::new() }
}

fn read_all(
    sources: &[PathBuf],
    reading: &Reading,
    sender: &mpsc::Sender<Result<Chunk, SourceError>>,
) -> Result<(), SourceError> {
    let mut before = 0;
    for (index, path) in (0u32..).zip(sources) {
        let mut options = reading.options.clone();
        options.prefixes.extend(reading.prefix.filter(|(source, _)| *source == index).map(|(_, prefix)| prefix));
        let mut opened = source::open(path, index, &reading.format, &options)?;
        while let Some(chunk) = opened.source.next_chunk()? {
            reading.tally.input_read(before + opened.progress.bytes_read());
            if sender.blocking_send(Ok(chunk)).is_err() {
                return Ok(());
            }
        }
        before += opened.progress.bytes_read();
    }
    Ok(())
}
