//! The recorder itself: reads every source each second, until its input closes.

use super::file::{FORMAT, Line, Lines};
use super::place::Surroundings;
use super::process::DB_VARIABLE;
use super::reading::{Sample, Values};
use super::session::{Answer, Session};
use super::track::Track;
use super::waits::Waits;
use super::{Read, SOURCES};
use crate::error::Error;
use crate::limits::{RECORDER_LINES_MAX, RECORDER_STEP_MS, WAIT_SAMPLE_MS};
use millstream_pg::{ConnInfo, Environment};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

/// What the recorder watches, and where it writes.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file. An old one is replaced.
    pub out: PathBuf,
    /// The server's data directory, whose device is watched.
    pub data: Option<PathBuf>,
    /// The directory of the WAL, if it is not in the data directory.
    pub wal: Option<PathBuf>,
}

/// Records until stdin closes. The environment says which server to watch, if any: see [`super::Recorder::start`].
///
/// # Errors
/// The file cannot be written, or the server cannot be reached at the start. The file then says why.
pub async fn run(options: &Options) -> Result<(), Error> {
    let mut lines = Lines::create(&options.out)?;
    let started = match Watch::start(options).await {
        Ok(watch) => watch.run(&mut lines).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &started {
        lines.write(Line::Error { error: error.chain() });
    }
    started
}

/// Everything that is watched.
struct Watch {
    begun: Instant,
    cpu_begun: Option<f64>,
    place: Surroundings,
    session: Option<Session>,
    waits: Waits,
    tracks: Vec<Track>,
    notes: Vec<String>,
}

impl Watch {
    async fn start(options: &Options) -> Result<Self, Error> {
        let mut notes = Vec::new();
        let place = Surroundings::of(options.data.as_deref(), options.wal.as_deref(), &mut notes);
        let session = match std::env::var(DB_VARIABLE) {
            Ok(text) => {
                // The text says everything. `PG*` variables are meant for other programs.
                let mut surroundings = Environment::from_variables([]);
                if let Ok(home) = std::env::var("HOME") {
                    surroundings = surroundings.with_home(home);
                }
                Some(Session::open(ConnInfo::parse(&text, &surroundings)?).await?)
            }
            Err(_) => None,
        };
        let mut tracks: Vec<Track> = SOURCES.iter().map(Track::of).collect();
        tracks.retain(|track| match track.source.read {
            Read::Kernel(_) => true,
            Read::Server(query) => session.as_ref().is_some_and(|session| query(session.version()).is_some()),
        });
        Ok(Self { begun: Instant::now(), cpu_begun: None, place, session, waits: Waits::default(), tracks, notes })
    }

    async fn run(mut self, lines: &mut Lines) -> Result<(), Error> {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.begun = Instant::now();
        self.cpu_begun = millstream_host::own_cpu_seconds();
        self.read(&mut Values::new()).await;
        if !lines.write(Line::Start { recorder: FORMAT, started: started.as_secs_f64() }) {
            return Err(Error::Recorder("its file cannot be written".to_owned()));
        }
        let mut closed = input_closed();
        let every = Duration::from_millis(if self.session.is_some() { WAIT_SAMPLE_MS } else { RECORDER_STEP_MS });
        // Ticks keep to the schedule. Those that are missed are left out.
        let mut ticks = tokio::time::interval_at((self.begun + every).into(), every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut line_at = Duration::from_millis(RECORDER_STEP_MS);
        let last = line_at * RECORDER_LINES_MAX;
        loop {
            tokio::select! {
                biased;
                _ = &mut closed => break,
                _ = ticks.tick() => {}
            }
            self.sample().await;
            if self.begun.elapsed() < line_at {
                continue;
            }
            let mut values = self.waits.take();
            let at = self.read(&mut values).await;
            if line_at > last || !lines.write(Line::Second { t: at, values }) {
                self.notes.push("the recorder ended before the run: its file is full".to_owned());
                break;
            }
            while line_at <= self.begun.elapsed() {
                line_at += Duration::from_millis(RECORDER_STEP_MS);
            }
        }
        self.end(lines).await
    }

    async fn sample(&mut self) {
        let Some(session) = &mut self.session else { return };
        session.restore().await;
        if let Answer::Rows(rows) = session.sample().await {
            self.waits.add(&rows);
        }
    }

    /// Reads all sources and returns the time, in seconds since the start.
    async fn read(&mut self, values: &mut Values) -> f64 {
        let at = self.begun.elapsed().as_secs_f64();
        // First the kernel's, which answer at once.
        for track in &mut self.tracks {
            if let Read::Kernel(read) = track.source.read {
                track.take(self.begun.elapsed().as_secs_f64(), read(&self.place), values);
            }
        }
        let Some(session) = &mut self.session else { return at };
        for track in self.tracks.iter_mut().filter(|track| !track.disabled) {
            let Read::Server(query) = track.source.read else { continue };
            let Some(sql) = query(session.version()) else { continue };
            match session.counters(sql).await {
                Answer::Rows(counters) => {
                    track.take(self.begun.elapsed().as_secs_f64(), Sample::counters(counters), values);
                }
                Answer::Missed => {}
                Answer::Refused(why) => {
                    track.disabled = true;
                    let name = track.source.name;
                    self.notes.extend(why.map(|why| format!("source {name} is not recorded: {why}")));
                }
            }
        }
        session.look();
        at
    }

    async fn end(mut self, lines: &mut Lines) -> Result<(), Error> {
        let seconds = self.read(&mut Values::new()).await;
        let mut summary = self.waits.summary();
        self.tracks.iter().for_each(|track| track.summary(&mut summary));
        summary.insert("recorder.seconds".to_owned(), seconds);
        let mut cost = |name: &str, cpu: Option<f64>| {
            if let Some(cpu) = cpu.filter(|_| seconds > 0.0) {
                summary.insert(format!("recorder.{name}_seconds"), cpu);
                summary.insert(format!("recorder.{name}_percent"), cpu / seconds * 100.0);
            }
        };
        // What the recorder needs for its start comes before the run.
        cost("cpu", millstream_host::own_cpu_seconds().zip(self.cpu_begun).map(|(end, begin)| end - begin));
        cost("server_cpu", self.session.as_ref().and_then(Session::cpu_seconds));
        cost("server_query", self.session.as_ref().map(Session::query_seconds));
        let losses = self.session.as_ref().map_or(0, Session::losses);
        if losses > 0 {
            self.notes.push(format!("the recorder's session at the server was lost ({losses})"));
        }
        if lines.write(Line::End { summary, notes: self.notes }) {
            Ok(())
        } else {
            Err(Error::Recorder("its file cannot be written".to_owned()))
        }
    }
}

/// Resolves when stdin closes: the process that started the recorder has finished the run, or is dead.
fn input_closed() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = sender.send(());
    });
    receiver
}
