//! The sources of a load, read one after the other on a thread of their own.

use crate::error::Error;
use crate::limits::{
    FEED_QUEUE, FRAME_BYTES, INFERENCE_BYTES_MAX, OBJECT_SCHEMAS_MAX, SOURCES_AHEAD, TRANSFORMED_CHUNK_BYTES,
    UNVERIFIED_MEMORIES_MAX,
};
use crate::observe::{Event, Observer, Silent, Tally};
use crate::request::LoadRequest;
use millstream_document::chunk::{Chunk, Frame};
use millstream_document::limits::INFERENCE_DOCUMENTS;
use millstream_document::source::{self, Location, Progress, SchemaColumn, SourceError, SourceOptions};
use millstream_document::transform::{self, Transform};
use millstream_failpoint as failpoint;
use millstream_input::Content;
use millstream_model::{Position, Prefix};
use millstream_store::{Error as StoreError, SourceContent};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::mpsc;

/// Chunks of all sources in order.
pub(crate) struct Feed {
    sources: Vec<Location>,
    /// Names by which the load knows its sources.
    pub(crate) names: Vec<String>,
    /// Versions of the texts that are made of those that are no text.
    pub(crate) made: BTreeSet<&'static str>,
    reading: ReadingThread,
    /// Whether every source can be read again from its beginning, in this run.
    repeatable: bool,
    /// Whether a later run can be given the same sources: files, and a stream that has a name.
    pub(crate) resumable: bool,
    running: Option<Running>,
    unverified: Option<Unverified>,
    /// Bytes of chunks that may wait until the sources are compared, if those can be read again.
    waiting_bytes_max: usize,
    /// Whether chunks come out that earlier runs have committed as a whole: somebody wants the keys of all documents.
    from_start: bool,
    /// Up to where they have come out.
    handed_out: Position,
}

/// What earlier runs of a load have read, until it is compared with the sources.
struct Unverified {
    /// Everything before this position is committed.
    committed: Position,
    /// Something is committed up to this position.
    read: Position,
}

/// What the reading thread works with.
#[derive(Clone)]
struct ReadingThread {
    format: String,
    options: SourceOptions,
    /// The beginning of one source, as an earlier run read it.
    prefix: Option<(u32, Prefix)>,
    /// Of the sources before this one, those that are known by their tags are not read. Only the prefix is compared.
    first: u32,
    /// Stages that every document passes.
    transforms: Vec<Arc<dyn Transform>>,
    tally: Arc<Tally>,
    /// Hears when reading begins.
    observer: Arc<dyn Observer>,
    /// What the files and objects held that were read to their end, by their index.
    contents: Contents,
    /// What the schema of the first source describes, once it was read.
    schema: Arc<OnceLock<Vec<SchemaColumn>>>,
}

type Contents = Arc<Mutex<Vec<Option<SourceContent>>>>;

struct Running {
    chunks: mpsc::Receiver<Result<Chunk, SourceError>>,
    /// Chunks read ahead, to infer types or to compare the beginning of the sources.
    peeked: VecDeque<Chunk>,
}

impl ReadingThread {
    fn note(&self, index: u32, content: Option<SourceContent>) {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = contents.get_mut(index as usize) {
            *known = content;
        }
    }

    /// Notes what the schema of the first source describes.
    fn note_schema(&self, index: u32, progress: &Progress) {
        if index == 0
            && self.schema.get().is_none()
            && let Some(columns) = progress.columns()
        {
            // Another reading may have noted it.
            let _ = self.schema.set(columns.to_vec());
        }
    }
}

impl Feed {
    /// Checks that the sources exist and that each file begins as its format requires. So a wrong file in the last
    /// place costs nothing.
    ///
    /// # Errors
    /// [`SourceError`] names the source.
    pub(crate) fn open(request: &LoadRequest, tally: Arc<Tally>) -> Result<Self, Error> {
        let sources: Vec<Location> = request.locations().collect();
        let (mut names, mut total, mut streams) = (Vec::new(), Some(0), 0);
        let mut read_once = HashSet::new();
        for (location, typed) in sources.iter().zip(&request.sources) {
            let found = location.find()?;
            if location.stream_identity().is_some_and(|identity| !read_once.insert(identity)) {
                let stream = source::path(typed);
                let problem =
                    format!("{} is a stream that is named twice, and it can be read only once", stream.display());
                return Err(Error::refused(problem, "name it once"));
            }
            total = total.zip(found.size).map(|(a, b): (u64, u64)| a + b);
            let given = request.source_name.clone().filter(|_| !location.is_repeatable());
            streams += usize::from(!location.is_repeatable());
            names.push(given.unwrap_or(found.name));
        }
        if request.source_name.is_some() && streams != 1 {
            return Err(Error::refused(
                format!("--source-name names the one source that is not a file, and there are {streams}"),
                "leave it out; files have names of their own",
            ));
        }
        let document_bytes_max = request.document_bytes_max;
        // Each document of a chunk may grow in each transform.
        let chunk_bytes = match request.transforms.is_empty() {
            true => request.chunk_bytes,
            false => request.chunk_bytes.min(TRANSFORMED_CHUNK_BYTES),
        };
        let dialect = request.dialect.clone();
        let options = SourceOptions { chunk_bytes, document_bytes_max, dialect, ..SourceOptions::default() };
        let mut made = BTreeSet::new();
        // An object is not: it may be one of thousands that earlier runs have read, and its hash says what is made of it.
        for location in sources.iter().filter(|location| location.is_repeatable() && location.tag().is_none()) {
            made.extend(source::probe(location, &request.format, &options)?);
        }
        tally.expect_input(total);
        let (repeatable, resumable) = (streams == 0, streams == 0 || request.source_name.is_some());
        let (format, transforms) = (request.format.clone(), request.transforms.clone());
        let contents = Arc::new(Mutex::new(vec![None; sources.len()]));
        let schema = Arc::default();
        let observer = Arc::new(Silent);
        let reading =
            ReadingThread { format, options, prefix: None, first: 0, transforms, tally, observer, contents, schema };
        let waiting_bytes_max = request.memory_bytes.saturating_mul(UNVERIFIED_MEMORIES_MAX);
        let (running, unverified, from_start) = (None, None, request.delete_missing.is_some());
        Ok(Self {
            sources,
            names,
            made,
            reading,
            repeatable,
            resumable,
            running,
            unverified,
            waiting_bytes_max,
            from_start,
            handed_out: Position::default(),
        })
    }

    /// A feed without sources: the program sends the documents itself, one stream for the load. `resumable`: a
    /// later run can be given the same stream, by its name. `sample` are documents from which types may be inferred; they
    /// are not loaded.
    pub(crate) fn of_stream(request: &LoadRequest, tally: Arc<Tally>, resumable: bool, sample: Option<Chunk>) -> Self {
        let names = vec![request.source_name.clone().unwrap_or_else(|| "stream".into())];
        let format = request.format.clone();
        let (options, transforms, contents) = (SourceOptions::default(), Vec::new(), Contents::default());
        let schema = Arc::default();
        let observer = Arc::new(Silent);
        let reading =
            ReadingThread { format, options, prefix: None, first: 0, transforms, tally, observer, contents, schema };
        // Nothing follows the sample.
        let (_, chunks) = mpsc::channel(1);
        Self {
            sources: Vec::new(),
            names,
            made: BTreeSet::new(),
            reading,
            repeatable: false,
            resumable,
            running: Some(Running { chunks, peeked: sample.into_iter().collect() }),
            unverified: None,
            waiting_bytes_max: 0,
            from_start: false,
            handed_out: Position::default(),
        }
    }

    /// Reports to an observer when reading begins.
    pub(crate) fn reports_to(&mut self, observer: &Arc<dyn Observer>) {
        self.reading.observer = Arc::clone(observer);
    }

    /// What the sources hold that are files or objects, in their order, if they were read to their end.
    pub(crate) fn contents(&self) -> Vec<Option<SourceContent>> {
        self.reading.contents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Limits the chunks to this many bytes, unless reading has begun.
    pub(crate) fn cut_at(&mut self, chunk_bytes: usize) {
        let options = &mut self.reading.options;
        options.chunk_bytes = options.chunk_bytes.min(chunk_bytes);
    }

    /// Makes the feed compare the beginning of the sources with what earlier runs have read, and leave out the objects of
    /// which everything is committed, unless somebody wants the keys of all documents. Until that is done, no chunk comes
    /// out: documents of another file must not be committed under the positions of this one. The chunks that wait are what
    /// an earlier run had in flight. If they take too much memory, files are read again instead. Everything before `committed`
    /// is committed, and `prefix` is the most of the sources that earlier runs have read.
    ///
    /// # Errors
    /// [`Error::Refused`] when a stream has already been read, because it cannot be read again.
    pub(crate) fn verify(&mut self, committed: Position, prefix: Option<(u32, Prefix)>) -> Result<(), Error> {
        let Some((source, prefix)) = prefix.filter(|_| !self.sources.is_empty()) else { return Ok(()) };
        self.compare_with(source, prefix)?;
        self.reading.first = if self.from_start { 0 } else { committed.source };
        self.unverified = Some(Unverified { committed, read: Position { source, offset: prefix.length } });
        Ok(())
    }

    /// Sets what the beginning of a source is compared with when it is read.
    fn compare_with(&mut self, source: u32, prefix: Prefix) -> Result<(), Error> {
        if self.running.is_some() {
            return Err(Error::refused(
                "another run of this load created the collection while this run inferred its types",
                "run the same command again",
            ));
        }
        self.reading.prefix = Some((source, prefix));
        Ok(())
    }

    /// Reads everything and compares it with what a finished load has read.
    ///
    /// # Errors
    /// `AddedUp` when it differs; [`SourceError`] when a source cannot be read.
    pub(crate) async fn require_unchanged(&mut self, load_id: i64, prefix: Option<(u32, Prefix)>) -> Result<(), Error> {
        let mut read = Position::default();
        if let Some((source, prefix)) = prefix {
            self.compare_with(source, prefix)?;
            self.reading.first = source;
            read = Position { source, offset: prefix.length };
        }
        let name = self.names.get(read.source as usize).cloned().unwrap_or_default();
        let before = if read.source == 0 { "" } else { " (or a source before it)" };
        let differs = |problem: String| Error::from(StoreError::AddedUp { load_id, problem });
        let changed = || differs(format!("{name}{before}, whose first {} bytes have changed", read.offset));
        let mut end = Position::default();
        loop {
            let chunk = match self.next().await {
                Err(Error::Source(SourceError::Changed { .. })) => return Err(changed()),
                Err(Error::Source(SourceError::Continued { .. })) => {
                    return Err(differs(format!("{name}, whose last document has grown")));
                }
                chunk => chunk?,
            };
            let Some(chunk) = chunk else { break };
            let source = chunk.source;
            let new = |frame: &Frame| Position { source, offset: frame.offset } >= read;
            if chunk.frames.last().is_some_and(new) {
                let name = self.names.get(source as usize).cloned().unwrap_or_default();
                return Err(differs(format!("{name}, which has more documents now")));
            }
            end = Position { source, offset: chunk.end };
        }
        if end < read { Err(changed()) } else { Ok(()) }
    }

    /// The first chunks, enough to infer types. They are not consumed.
    ///
    /// # Errors
    /// [`SourceError`] when a source cannot be read.
    pub(crate) async fn sample(&mut self) -> Result<Vec<Chunk>, Error> {
        let running = self.running.get_or_insert_with(|| start(&self.sources, &self.reading));
        // A stream that pauses may never send a second sample.
        let mut documents: usize = running.peeked.iter().map(|chunk| chunk.frames.len()).sum();
        let mut bytes: usize = running.peeked.iter().map(|chunk| chunk.bytes.len()).sum();
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

    /// The schemas of the sources that differ, each with the index of the first source that has it. None if the first source
    /// or any other has no schema, or if another is no file: it cannot be looked at before it is read. Of objects, the first
    /// ones count. The sample must have been taken.
    ///
    /// # Errors
    /// [`SourceError`] when a source cannot be read.
    pub(crate) async fn schemas(&mut self) -> Result<Vec<(usize, Vec<SchemaColumn>)>, Error> {
        let Some(first) = self.reading.schema.get() else { return Ok(Vec::new()) };
        let mut schemas = vec![(0, first.clone())];
        let (sources, reading) = (self.sources.clone(), self.reading.clone());
        let compare = move || -> Result<_, SourceError> {
            let mut objects = 0;
            for (index, location) in sources.iter().enumerate().skip(1) {
                objects += usize::from(location.tag().is_some());
                if location.tag().is_some() && objects >= OBJECT_SCHEMAS_MAX {
                    continue;
                }
                let schema = match location.is_repeatable() {
                    true => source::schema(location, &reading.format, &reading.options)?,
                    false => None,
                };
                match schema {
                    Some(schema) if schemas.iter().any(|(_, known)| *known == schema) => {}
                    Some(schema) => schemas.push((index, schema)),
                    None => return Ok(Vec::new()),
                }
            }
            Ok(schemas)
        };
        let done = tokio::task::spawn_blocking(compare).await;
        Ok(done.map_err(|_| Error::BrokenOff("the thread that reads the schemas has gone"))??)
    }

    /// The next chunk, or `None` after the last of the last source.
    ///
    /// # Errors
    /// [`SourceError`] when a source cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        let mut running = self.running.get_or_insert_with(|| start(&self.sources, &self.reading));
        if let Some(unverified) = &self.unverified {
            let mut first = None;
            if self.from_start {
                // Nothing of such a chunk is written again, so it need not wait.
                first = running.chunks.recv().await.transpose()?;
                if let Some(chunk) = first.take_if(|chunk| unverified.has_committed(chunk)) {
                    self.handed_out = Position { source: chunk.source, offset: chunk.end };
                    return Ok(Some(chunk));
                }
            }
            let waiting_bytes_max = if self.repeatable { self.waiting_bytes_max } else { usize::MAX };
            if !running.hold_until_verified(first, unverified, &self.names, waiting_bytes_max).await? {
                // They are compared once more. A change between the two readings is noticed late, as one in the
                // middle of a load is.
                running = self.running.insert(start(&self.sources, &self.reading));
                running.skip(if self.from_start { self.handed_out } else { unverified.committed }).await?;
            }
            self.unverified = None;
        }
        if let Some(chunk) = running.peeked.pop_front() {
            return Ok(Some(chunk));
        }
        Ok(running.chunks.recv().await.transpose()?)
    }
}

impl Unverified {
    /// Whether everything of a chunk is committed, and it does not complete what must be compared.
    fn has_committed(&self, chunk: &Chunk) -> bool {
        let end = Position { source: chunk.source, offset: chunk.end };
        end <= self.committed && end < self.read
    }
}

impl Running {
    /// Reads from the `first` chunk, if that was read already, up to the position that earlier runs have reached, which
    /// compares everything before it. Keeps the chunks with documents that are not committed. If they take more than so
    /// many bytes of memory, it keeps none and returns false.
    async fn hold_until_verified(
        &mut self,
        mut first: Option<Chunk>,
        unverified: &Unverified,
        names: &[String],
        waiting_bytes_max: usize,
    ) -> Result<bool, Error> {
        let Unverified { committed, read } = *unverified;
        let (mut end, mut waiting_bytes) = (Position::default(), 0);
        loop {
            let chunk = match first.take() {
                Some(chunk) => chunk,
                None => match self.chunks.recv().await {
                    Some(chunk) => chunk?,
                    None => break,
                },
            };
            end = Position { source: chunk.source, offset: chunk.end };
            if end > committed || end >= read {
                waiting_bytes += chunk.held_bytes() + chunk.frames.len() * FRAME_BYTES;
                self.peeked.push_back(chunk);
                if waiting_bytes > waiting_bytes_max {
                    self.peeked.clear();
                }
            }
            if end >= read {
                break;
            }
        }
        // If the source has ended earlier, or damage has ended it, nothing was compared.
        let compared = end.source == read.source && end.offset >= read.offset;
        if compared || read.offset == 0 {
            return Ok(waiting_bytes <= waiting_bytes_max);
        }
        let name = names.get(read.source as usize).cloned().unwrap_or_default();
        Err(SourceError::Changed { name, length: read.offset }.into())
    }

    /// Reads up to the first chunk that goes beyond a position, and keeps it.
    async fn skip(&mut self, before: Position) -> Result<(), Error> {
        while let Some(chunk) = self.chunks.recv().await {
            let chunk = chunk?;
            if (Position { source: chunk.source, offset: chunk.end }) > before {
                self.peeked.push_back(chunk);
                break;
            }
        }
        Ok(())
    }
}

/// Reads all sources on a thread, which ends with them or when nobody receives any more. The thread is not joined,
/// because it may wait for a standard input that never ends.
fn start(sources: &[Location], reading: &ReadingThread) -> Running {
    reading.observer.event(Event::Reading);
    let (sender, chunks) = mpsc::channel(FEED_QUEUE);
    let (sources, reading) = (sources.to_vec(), reading.clone());
    std::thread::spawn(move || {
        if let Err(error) = read_all(&sources, &reading, &sender) {
            // If this fails, nobody receives any more: the load is over.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Running { chunks, peeked: VecDeque::new() }
}

fn read_all(
    sources: &[Location],
    reading: &ReadingThread,
    sender: &mpsc::Sender<Result<Chunk, SourceError>>,
) -> Result<(), SourceError> {
    let (mut bytes_before, mut hash_before, mut not_finite) = (0, None, 0);
    for (index, location) in (0u32..).zip(sources) {
        let tagged = location.tag().map(|tag| source::tagged(hash_before, tag).digest128());
        if tagged.is_some() && index < reading.first {
            (hash_before, bytes_before) = (tagged, bytes_before + location.find()?.size.unwrap_or(0));
            reading.tally.input_read(bytes_before);
            reading.note(index, content(location, None, None));
            continue;
        }
        let mut options = reading.options.clone();
        options.before = hash_before;
        options.prefixes.extend(reading.prefix.filter(|(source, _)| *source == index).map(|(_, prefix)| prefix));
        sources.iter().skip(index as usize + 1).take(SOURCES_AHEAD).for_each(Location::prepare);
        let before = match location {
            Location::File(path) => std::fs::metadata(path).ok(),
            Location::Pipe(_) | Location::Object(_) => None,
        };
        let mut opened = source::open(location, index, &reading.format, &options)?;
        while let Some(chunk) = opened.source.next_chunk()? {
            failpoint::hit_on_thread("chunk-read");
            hash_before = Some(chunk.prefix_hash);
            reading.note_schema(index, &opened.progress);
            reading.tally.input_read(bytes_before + opened.progress.bytes_read());
            if sender.blocking_send(Ok(transform::apply(&reading.transforms, chunk))).is_err() {
                return Ok(());
            }
        }
        reading.note_schema(index, &opened.progress);
        // Also of an object without documents, because a later run cannot know that of one that it does not read.
        hash_before = tagged.or(hash_before);
        bytes_before += opened.progress.bytes_read();
        not_finite += opened.progress.not_finite();
        reading.tally.made_null(not_finite);
        reading.note(index, content(location, before.as_ref(), opened.progress.content()));
    }
    Ok(())
}

/// What a source held that was read to its end. A converter reads a file in an order of its own, so it is read once more,
/// and has none if it was changed since it was opened. `None` if it is a stream.
fn content(location: &Location, before: Option<&Metadata>, known: Option<Content>) -> Option<SourceContent> {
    let content = match location {
        Location::Pipe(_) => return None,
        Location::Object(_) => location.content().ok()??,
        Location::File(path) => {
            let before = before.filter(|facts| facts.is_file())?;
            match known {
                Some(content) => content,
                None => {
                    let content = Content::of(path).ok()?;
                    let after = std::fs::metadata(path).ok()?;
                    let same = |facts: &Metadata| (facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec());
                    (same(before) == same(&after)).then_some(content)?
                }
            }
        }
    };
    Some(SourceContent { bytes: content.bytes, hash: content.hash })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_input::{Object, ReadAt};
    use std::io::{Cursor, Read};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An object that counts how often it is read.
    #[derive(Debug)]
    struct Stored {
        name: String,
        text: String,
        tag: String,
        reads: AtomicUsize,
    }

    impl Object for Stored {
        fn name(&self) -> &str {
            &self.name
        }

        fn size(&self) -> u64 {
            self.text.len() as u64
        }

        fn tag(&self) -> &str {
            &self.tag
        }

        fn reader(&self) -> Box<dyn Read + Send> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            Box::new(Cursor::new(self.text.clone().into_bytes()))
        }

        fn places(&self) -> Box<dyn ReadAt> {
            Box::new(tempfile::tempfile().expect("a file"))
        }
    }

    /// A request of objects with these texts and tags, and the objects.
    fn of_objects(contents: &[(&str, &str)]) -> (LoadRequest, Vec<Arc<Stored>>) {
        let stored = contents.iter().enumerate().map(|(n, (text, tag))| {
            let (name, text) = (format!("s3://a/{n}.json"), (*text).to_owned());
            Arc::new(Stored { name, text, tag: (*tag).to_owned(), reads: AtomicUsize::new(0) })
        });
        let stored: Vec<Arc<Stored>> = stored.collect();
        let names = stored.iter().map(|object| object.name.clone()).collect();
        let mut request = LoadRequest::new("a".parse().expect("a name"), Vec::new(), names);
        (request.format, request.chunk_bytes) = ("ndjson".into(), 100);
        stored.iter().for_each(|object| request.objects.add(Arc::clone(object) as Arc<dyn Object>));
        (request, stored)
    }

    #[tokio::test]
    async fn objects_of_which_everything_is_committed_are_not_read_again() {
        let text: String = (0..50).map(|n| format!("{{\"id\":{n}}}\n")).collect();
        // The second one has no documents.
        let contents = [(text.as_str(), "a"), ("\n", "b"), (text.as_str(), "c"), (text.as_str(), "d")];
        let (request, stored) = of_objects(&contents);
        assert!(request.is_repeatable() && request.is_resumable());
        let mut feed = Feed::open(&request, Arc::default()).expect("they were found");
        assert_eq!(feed.names, request.sources);
        let mut whole = Vec::new();
        while let Some(chunk) = feed.next().await.expect("it is read") {
            whole.push(chunk);
        }
        let committed = whole.iter().position(|chunk| chunk.source == 2).expect("a chunk of the third") + 2;
        let read = whole.iter().position(|chunk| chunk.source == 3).expect("a chunk of the fourth") + 2;
        let resumed = |request: &LoadRequest| {
            let mut feed = Feed::open(request, Arc::default()).expect("they were found");
            let Chunk { source, end: length, prefix_hash: hash, .. } = &whole[read];
            feed.compare_with(*source, Prefix { length: *length, hash: *hash }).expect("nothing is read yet");
            feed.reading.first = whole[committed].source;
            feed.unverified = Some(Unverified { committed: end(&whole[committed]), read: end(&whole[read]) });
            feed
        };
        let rest: Vec<Position> = whole[committed + 1..].iter().map(end).collect();
        assert_eq!(ends(&mut resumed(&request)).await.expect("they are the same"), rest);
        let reads = || stored.iter().map(|object| object.reads.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert_eq!(reads(), [1, 1, 2, 2]);
        // Nor are they if somebody asks what they hold. Who wants all keys gets them.
        let mut feed = resumed(&request);
        ends(&mut feed).await.expect("they are the same");
        let held = feed.contents();
        assert_eq!(held.iter().flatten().count(), 4, "{held:?}");
        assert_eq!(reads(), [1, 1, 3, 3]);
        let mut feed = resumed(&request);
        (feed.from_start, feed.reading.first) = (true, 0);
        let all: Vec<Position> = whole.iter().map(end).collect();
        assert_eq!(ends(&mut feed).await.expect("they are the same"), all);
        assert_eq!(feed.contents(), held);
        assert_eq!(reads(), [2, 2, 4, 4]);
        for changed in 0..4 {
            let mut contents = contents;
            contents[changed].1 = "another";
            let (request, stored) = of_objects(&contents);
            let refused = ends(&mut resumed(&request)).await;
            assert!(matches!(refused, Err(Error::Source(SourceError::Changed { .. }))), "{changed}: {refused:?}");
            assert_eq!(stored[0].reads.load(Ordering::Relaxed), 0);
        }
    }

    #[tokio::test]
    async fn objects_that_a_finished_load_has_added_up_are_compared_by_their_tags() {
        let text = "{\"id\":1}\n{\"id\":2}\n";
        let contents = [(text, "a"), (text, "b")];
        let mut feed = Feed::open(&of_objects(&contents).0, Arc::default()).expect("they were found");
        let mut prefix = None;
        while let Some(Chunk { source, end: length, prefix_hash: hash, .. }) = feed.next().await.expect("it is read") {
            prefix = Some((source, Prefix { length, hash }));
        }
        for (changed, same) in [(None, true), (Some(0), false), (Some(1), false)] {
            let mut contents = contents;
            if let Some(changed) = changed {
                contents[changed].1 = "another";
            }
            let (request, stored) = of_objects(&contents);
            let mut feed = Feed::open(&request, Arc::default()).expect("they were found");
            assert_eq!(feed.require_unchanged(7, prefix).await.is_ok(), same, "{changed:?}");
            assert_eq!(stored[0].reads.load(Ordering::Relaxed), 0, "its tag says enough");
        }
    }

    fn end(chunk: &Chunk) -> Position {
        Position { source: chunk.source, offset: chunk.end }
    }

    /// The ends of all chunks that are left.
    async fn ends(feed: &mut Feed) -> Result<Vec<Position>, Error> {
        let mut ends = Vec::new();
        while let Some(chunk) = feed.next().await? {
            ends.push(end(&chunk));
        }
        Ok(ends)
    }

    #[tokio::test]
    async fn files_of_which_too_much_waits_are_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let text: String = (0..500).map(|n| format!("{{\"id\":{n}}}\n")).collect();
        let sources = ["a", "b"].map(|name| folder.path().join(name));
        sources.iter().for_each(|source| std::fs::write(source, &text).expect("a file"));
        let names = sources.iter().map(|source| source.display().to_string()).collect();
        let mut request = LoadRequest::new("a".parse().expect("a name"), Vec::new(), names);
        (request.format, request.chunk_bytes) = ("ndjson".into(), 100);
        let opened = || Feed::open(&request, Arc::default()).expect("both are there");
        let (mut whole, mut feed) = (Vec::new(), opened());
        while let Some(chunk) = feed.next().await.expect("it is read") {
            whole.push(chunk);
        }
        let (committed, read) = (10, whole.len() - 10);
        let resumed = |waiting_bytes_max| {
            let (mut feed, Chunk { source, end: length, prefix_hash: hash, .. }) = (opened(), &whole[read]);
            feed.compare_with(*source, Prefix { length: *length, hash: *hash }).expect("nothing is read yet");
            feed.unverified = Some(Unverified { committed: end(&whole[committed]), read: end(&whole[read]) });
            Feed { waiting_bytes_max, ..feed }
        };
        let rest: Vec<Position> = whole[committed + 1..].iter().map(end).collect();
        for (waiting_bytes_max, waiting) in [(0, 0), (2_000, 0), (usize::MAX, read - committed - 1)] {
            let mut feed = resumed(waiting_bytes_max);
            assert_eq!(feed.next().await.expect("it is the same").as_ref().map(end), Some(rest[0]));
            assert_eq!(feed.running.as_ref().map(|running| running.peeked.len()), Some(waiting));
            assert_eq!(ends(&mut feed).await.expect("it is the same"), rest[1..], "{waiting_bytes_max}");
        }
        for waiting_bytes_max in [0, usize::MAX] {
            let mut feed = Feed { from_start: true, ..resumed(waiting_bytes_max) };
            let all: Vec<Position> = whole.iter().map(end).collect();
            assert_eq!(ends(&mut feed).await.expect("it is the same"), all, "{waiting_bytes_max}");
            let content = Content::of(&sources[0]).expect("a file");
            let content = Some(SourceContent { bytes: content.bytes, hash: content.hash });
            assert_eq!(feed.contents(), [content, content], "both were read to their end");
        }
        // An earlier run has committed all that it has read: nothing of the last chunk is lost.
        for waiting_bytes_max in [0, usize::MAX] {
            let mut feed = Feed { from_start: true, ..resumed(waiting_bytes_max) };
            feed.unverified = Some(Unverified { committed: end(&whole[read]), read: end(&whole[read]) });
            let all: Vec<Position> = whole.iter().map(end).collect();
            assert_eq!(ends(&mut feed).await.expect("it is the same"), all, "{waiting_bytes_max}");
        }
        std::fs::write(&sources[0], text.replacen('7', "8", 1)).expect("a file");
        for waiting_bytes_max in [0, usize::MAX] {
            let refused = resumed(waiting_bytes_max).next().await;
            assert!(matches!(refused, Err(Error::Source(SourceError::Changed { .. }))), "{refused:?}");
        }
    }
}
