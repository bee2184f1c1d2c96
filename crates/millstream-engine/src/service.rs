//! Streams of one process into one collection, each a load of its own. They share one control session and one memory, and write
//! in turn.

use crate::budget::Budget;
use crate::control::{Control, Shared};
use crate::drain::Drain;
use crate::error::Error;
use crate::feed::Feed;
use crate::limits::{
    SERVICE_LOADS_MAX, SERVICE_NOTICES_MAX, SERVICE_WRITERS_MAX, SERVICE_WRITERS_MIN, SERVICE_WRITERS_PER_PROCESSOR,
};
use crate::observe::{Event, Observer, Tally};
use crate::outcome::Surroundings;
use crate::request::LoadRequest;
use crate::stream::Stream;
use bytes::Bytes;
use millstream_document::chunk::Chunk;
use millstream_document::source::frame_lines;
use millstream_pg::advisory::LockKey;
use millstream_pg::quote_name;
use millstream_store::{Holder, group_lock};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Streams into one collection. Each has a name and one lane, and is a load of its own, which is resumed when a stream of
/// this name is opened again: by this process, or by another one.
///
/// ```no_run
/// use millstream_engine::{LoadRequest, Placed, Service, Surroundings};
/// use millstream_model::KeyRequest;
/// use millstream_pg::{ConnInfo, Environment};
///
/// async fn load(log: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
///     let db = ConnInfo::parse("postgres://localhost/shop", &Environment::from_process())?;
///     let request = LoadRequest::new("events".parse()?, KeyRequest::parse_list("id:text")?, Vec::new());
///     let service = Service::open(&request, &Surroundings::new(db), 2).await?;
///     let stream = service.stream("the log").await?;
///     // Only what no earlier run has committed.
///     let begin = stream.watermark().map_or(0, |watermark| watermark.offset);
///     for (place, document) in (0..).zip(log).skip_while(|(place, _)| *place < begin) {
///         let mut placed = Placed::at(place, 0);
///         placed.push(place, document.as_bytes(), 0);
///         stream.producer().send_placed(placed).await?;
///     }
///     stream.close().await?;
///     Ok(())
/// }
/// ```
pub struct Service {
    request: LoadRequest,
    around: Surroundings,
    shared: Shared,
    sample: Option<Chunk>,
    names: Names,
    /// Says why the loads stand still, until the service is dropped.
    _attended: oneshot::Sender<()>,
}

/// The names of the streams that are open. The session of the service would lock one load twice.
type Names = Arc<Mutex<HashSet<String>>>;

/// The name of an open stream.
struct OpenName {
    name: String,
    names: Names,
}

impl Drop for OpenName {
    fn drop(&mut self) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

impl Service {
    /// Connects, and checks that loads can work with this server and database. At most so many streams will be open at
    /// once. They share the request's memory: none has more than twice as much of it as it leaves to the others. A few of them
    /// write at once, and the batches of the rest grow meanwhile.
    ///
    /// # Errors
    /// [`Error::Refused`] when the request is not for streams, or names a layout or a number of streams that is not
    /// possible; the server's.
    pub async fn open(request: &LoadRequest, around: &Surroundings, streams: u16) -> Result<Self, Error> {
        Box::pin(Self::connect(request, around, streams, None)).await
    }

    /// As [`Service::open`], for one of several processes that divide streams among them. They know each other by the name of
    /// their group, so that one can take over what another one does not release: see [`Service::take_over`].
    ///
    /// # Errors
    /// As [`Service::open`].
    pub async fn open_in_group(
        request: &LoadRequest,
        around: &Surroundings,
        streams: u16,
        group: &str,
    ) -> Result<Self, Error> {
        Box::pin(Self::connect(request, around, streams, Some(group_lock(&request.schema, group)))).await
    }

    async fn connect(
        request: &LoadRequest,
        around: &Surroundings,
        streams: u16,
        group: Option<LockKey>,
    ) -> Result<Self, Error> {
        request.check_stream()?;
        if !request.layout.fills_table {
            let problem = format!("streams of a service do not go with --layout {}", request.layout.name);
            return Err(Error::refused(problem, "leave it out: their documents go into the table"));
        }
        if streams == 0 || streams > SERVICE_LOADS_MAX {
            let problem = format!("a service has 1 to {SERVICE_LOADS_MAX} streams, not {streams}");
            return Err(Error::refused(problem, "divide them among several processes"));
        }
        let observer: Arc<dyn Observer> = Arc::new(Once::new(Arc::clone(&around.observer)));
        let around = Surroundings { observer, ..around.clone() };
        let request = LoadRequest { lanes: Some(1), format: "ndjson".into(), ..request.clone() };
        let drain = Drain::new(&around.stop, request.stop_wait);
        let opening = drain.bounds(Box::pin(Control::open(&request, &around, group)));
        let opened = around.attended(request.standstill_after, opening).await;
        let control = opened.ok_or_else(|| drain.ended())??;
        let budget = Budget::new(request.memory_bytes, streams, writers_max(&around));
        let shared = Shared { control, budget, table: Arc::default(), drain: None };
        let (attended, over) = oneshot::channel();
        let (attending, after) = (around.clone(), request.standstill_after);
        tokio::spawn(async move {
            attending
                .attended(after, async {
                    // Nothing is ever sent.
                    let _ = over.await;
                })
                .await;
        });
        Ok(Self { request, around, shared, sample: None, names: Names::default(), _attended: attended })
    }

    /// Gives documents, one a line, from which the first stream infers the types that the request leaves open, if the
    /// collection does not exist. They are not loaded.
    #[must_use]
    pub fn with_sample(mut self, documents: impl Into<Bytes>) -> Self {
        let bytes = documents.into();
        let (frames, _) = frame_lines(&bytes, 0, 1, usize::MAX);
        self.sample = Some(Chunk { source: 0, end: bytes.len() as u64, prefix_hash: 0, bytes, frames, original: None });
        self
    }

    /// Opens the stream of this name, and resumes its load if there is one.
    ///
    /// # Errors
    /// As [`crate::load`], before the first document; [`Error::Refused`] when a stream of this name is open.
    pub async fn stream(&self, name: &str) -> Result<Stream, Error> {
        if !self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
            return Err(Error::refused(format!("a stream named {name} is open"), "close it first"));
        }
        let open = OpenName { name: name.to_owned(), names: Arc::clone(&self.names) };
        let tally = Arc::new(Tally::part_of(&self.around.tally));
        let around = Surroundings { tally: Arc::clone(&tally), ..self.around.clone() };
        let request = LoadRequest { source_name: Some(name.to_owned()), ..self.request.clone() };
        let feed = Feed::of_stream(&request, tally, true, self.sample.clone());
        Box::pin(Stream::of_service(&request, &around, feed, (&self.shared, Box::new(open)))).await
    }

    /// Who else runs the load of the stream of this name. As long as somebody does, the stream cannot be opened here.
    ///
    /// # Errors
    /// The server's.
    pub async fn holder(&self, name: &str) -> Result<Option<Holder>, Error> {
        let (control, LoadRequest { collection, schema, .. }) = (&self.shared.control, &self.request);
        let session = control.session().await?;
        let client = &session.connection.client;
        Ok(millstream_store::holder(client, schema, &quote_name(collection), name, control.group()).await?)
    }

    /// The collection into which another process of the group loads one of the streams of these names, if it is another one
    /// than this one. Each of the two would get a part of the documents. `None` for a service that is in no group.
    ///
    /// # Errors
    /// The server's.
    pub async fn elsewhere(&self, names: &[String]) -> Result<Option<String>, Error> {
        let (control, LoadRequest { collection, schema, .. }) = (&self.shared.control, &self.request);
        let Some(group) = control.group() else { return Ok(None) };
        let session = control.session().await?;
        let client = &session.connection.client;
        Ok(millstream_store::elsewhere(client, schema, &quote_name(collection), names, group).await?)
    }

    /// Ends the run of a load that another process of the group does not end itself, because it was stopped or cannot be
    /// reached. What that run has committed stays; what it had in flight is rolled back, and it commits nothing more, whenever
    /// it wakes. The stream can then be opened here. For a holder that is not [`of_group`](Holder::of_group), wait instead.
    ///
    /// # Errors
    /// The server's, such as when the role may not end the session.
    pub async fn take_over(&self, holder: &Holder) -> Result<(), Error> {
        let mut session = self.shared.control.session().await?;
        Ok(millstream_store::take_over(&mut session.connection.client, &self.request.schema, holder).await?)
    }
}

/// How many streams write at once.
fn writers_max(around: &Surroundings) -> u16 {
    if !around.db.is_local() {
        return SERVICE_WRITERS_MAX;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = u16::try_from(processors).unwrap_or(u16::MAX).saturating_mul(SERVICE_WRITERS_PER_PROCESSOR);
    wanted.clamp(SERVICE_WRITERS_MIN, SERVICE_WRITERS_MAX)
}

/// Passes on events, and those about the table only once: each load looks at it.
pub(crate) struct Once {
    observer: Arc<dyn Observer>,
    seen: Mutex<Vec<Event>>,
}

impl Once {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, seen: Mutex::new(Vec::new()) }
    }

    /// Whether an event is not one that was passed on before.
    fn is_news(&self, event: &Event) -> bool {
        let about_table = matches!(
            event,
            Event::Key(_) | Event::Columns(_) | Event::Version(_) | Event::Created(_) | Event::Warning(_)
        );
        if !about_table {
            return true;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(event) {
            return false;
        }
        if seen.len() < SERVICE_NOTICES_MAX {
            seen.push(event.clone());
        }
        true
    }
}

impl Observer for Once {
    fn event(&self, event: Event) {
        if self.is_news(&event) {
            self.observer.event(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counted(Mutex<usize>);

    impl Observer for Counted {
        fn event(&self, _: Event) {
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn what_every_load_finds_is_reported_once() {
        let counted = Arc::new(Counted::default());
        let once = Once::new(Arc::clone(&counted) as Arc<dyn Observer>);
        for load_id in 1..4 {
            once.event(Event::Key(vec!["id text".into()]));
            once.event(Event::Warning("a trigger".into()));
            once.event(Event::Started { load_id, lanes: 1 });
        }
        assert_eq!(*counted.0.lock().unwrap(), 5, "a key, a warning, and three loads");
    }
}
