//! A run: the schedule is handed to the sessions, and everything that happens is counted.

use super::alarm::Alarm;
use super::backlog::Backlog;
use super::pace::Pace;
use super::remark::remarks;
use super::result::{DropReason, WorkloadResult};
use super::schedule::{Arrival, Schedule};
use super::session::{Exchange, Session};
use super::tally::{Moments, Tally};
use super::value::{Draw, draw_all};
use super::workload::Workload;
use crate::error::Error;
use crate::limits::{DUE_MAX, RECONNECT_MS};
use millstream_pg::{ConnInfo, SessionSettings};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// How a workload is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The seed of its arrivals and values.
    pub seed: u64,
    /// All rates are multiplied by this.
    pub rate_factor: f64,
    /// Becomes true if the run is to end before its time. It then reports what it has.
    pub stop: watch::Receiver<bool>,
}

/// Runs a workload against a server.
///
/// The generator has a thread of its own, with all sessions, so that requests need no other thread to wake up. It must
/// keep a processor for itself: its lateness says whether it did.
///
/// # Errors
/// The server's before the schedule begins. Later ones are counted.
pub async fn run_workload(workload: &Workload, db: &ConnInfo, options: &RunOptions) -> Result<WorkloadResult, Error> {
    let (workload, db, options) = (workload.scaled(options.rate_factor), db.clone(), options.clone());
    let (sender, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("generator".to_owned());
    let started = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = match runtime.map_err(Error::io("start", Path::new("the generator's runtime"))) {
            Ok(runtime) => runtime.block_on(Box::pin(measured(workload, db, options))),
            Err(error) => Err(error),
        };
        // If nobody waits for the result any more, nobody reads it.
        let _ = sender.send(result);
    });
    started.map_err(Error::io("start", Path::new("the generator's thread")))?;
    // The sender only goes away without a result in a panic, which ends the process.
    result.await.unwrap_or_else(|_| Err(Error::Wrong("the generator ended without a result".to_owned())))
}

/// What the schedule and the sessions share.
#[derive(Debug)]
struct Shared {
    workload: Workload,
    draws: Vec<Vec<Draw>>,
    db: ConnInfo,
    seed: u64,
    origin: Instant,
    backlog: Backlog,
    tally: Mutex<Tally>,
    /// The server's processes of the sessions.
    pids: Mutex<Vec<i32>>,
}

impl Shared {
    fn new(workload: Workload, db: ConnInfo, seed: u64) -> Self {
        let draws = |class: &super::workload::Class| class.values.iter().map(|(_, draw)| *draw).collect();
        Self {
            draws: workload.classes.iter().map(draws).collect(),
            backlog: Backlog::new(workload.backlog),
            tally: Mutex::new(Tally::new(&workload.classes)),
            pids: Mutex::new(vec![0; workload.connections]),
            origin: Instant::now(),
            workload,
            db,
            seed,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pids(&self) -> MutexGuard<'_, Vec<i32>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out a request that is due.
    fn due(&self, arrival: Arrival) {
        let added = self.backlog.add(arrival);
        let mut tally = self.tally();
        tally.scheduled(arrival.class);
        if !added {
            tally.dropped(arrival.class, DropReason::Backlog, self.now_ns());
        }
    }
}

async fn measured(workload: Workload, db: ConnInfo, mut options: RunOptions) -> Result<WorkloadResult, Error> {
    let connections = workload.connections;
    let (sessions, connect_ms) = sessions(&workload, &db).await?;
    let mut alarm = Alarm::new().map_err(Error::io("create", Path::new("a timer")))?;
    let cpu_before = cpu_seconds();
    let shared = Arc::new(Shared::new(workload, db, options.seed));
    let mut workers = JoinSet::new();
    for (number, session) in sessions.into_iter().enumerate() {
        workers.spawn(serve(Arc::clone(&shared), number, session));
    }
    let stopped = dispatch(&shared, &mut alarm, &mut options.stop).await?;
    let seconds = shared.origin.elapsed().as_secs_f64();
    let overdue_at_end = shared.backlog.overdue() as u64;
    shared.backlog.close();
    drain(&shared, workers).await;
    let cpu_seconds = cpu_seconds() - cpu_before;
    let shared = Arc::into_inner(shared).ok_or_else(|| Error::Wrong("a session outlived its run".to_owned()))?;
    let tally = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (classes, lateness, lag) = tally.results(&shared.workload.classes);
    let mut result = WorkloadResult {
        about: shared.workload.about,
        seed: options.seed,
        rate_factor: options.rate_factor,
        connections,
        seconds,
        stopped,
        connect_ms,
        overdue_at_end,
        cpu_seconds,
        lateness: lateness.summary(),
        lag: lag.summary(),
        classes,
        remarks: Vec::new(),
    };
    result.remarks = remarks(&result);
    Ok(result)
}

/// Opens the sessions one after the other, and returns the mean time that one took.
async fn sessions(workload: &Workload, db: &ConnInfo) -> Result<(Vec<Session>, f64), Error> {
    let start = Instant::now();
    let mut sessions = Vec::with_capacity(workload.connections);
    for _ in 0..workload.connections {
        sessions.push(Session::open(db, &workload.classes).await?);
    }
    let mean = start.elapsed().div_f64(sessions.len().max(1) as f64);
    Ok((sessions, mean.as_secs_f64() * 1e3))
}

/// Hands out the requests of the schedule, each at its time, until its end. True if it was stopped.
async fn dispatch(shared: &Shared, alarm: &mut Alarm, stop: &mut watch::Receiver<bool>) -> Result<bool, Error> {
    let paces: Vec<Pace> = shared.workload.classes.iter().map(|class| class.pace.clone()).collect();
    let mut schedule = Schedule::new(&paces, shared.seed).peekable();
    let end_ns = u64::from(shared.workload.seconds) * 1_000_000_000;
    loop {
        let now_ns = shared.now_ns();
        let mut handed_out = 0;
        while let Some(arrival) = schedule.next_if(|next| next.at_ns <= now_ns && handed_out < DUE_MAX) {
            shared.due(arrival);
            handed_out += 1;
        }
        let next_ns = schedule.peek().map_or(end_ns, |next| next.at_ns);
        if schedule.peek().is_none() && now_ns >= end_ns {
            return Ok(false);
        }
        if next_ns <= now_ns {
            // There is more to hand out, but the sessions run on the same thread.
            tokio::task::yield_now().await;
            if is_stopped(stop) {
                return Ok(true);
            }
            continue;
        }
        // Handing out took time.
        let wait = Duration::from_nanos(next_ns.saturating_sub(shared.now_ns()));
        tokio::select! {
            biased;
            woken = alarm.after(wait) => woken.map_err(Error::io("wait for", Path::new("a timer")))?,
            // If the sender is gone, nobody waits for the result.
            _ = stop.wait_for(|stop| *stop) => return Ok(true),
        }
    }
}

fn is_stopped(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow() || stop.has_changed().is_err()
}

/// One session: takes requests until there are no more.
async fn serve(shared: Arc<Shared>, number: usize, mut session: Session) {
    shared.pids()[number] = session.backend_pid();
    let mut exchange = Exchange::default();
    loop {
        let free_ns = shared.now_ns();
        let Some(arrival) = shared.backlog.next().await else { break };
        let class = arrival.class;
        draw_all(&shared.draws[class], shared.seed, class, arrival.number, &mut exchange.drawn);
        let sent_ns = shared.now_ns();
        let failure = session.request(class, &mut exchange).await.err();
        let moments = Moments { intended_ns: arrival.at_ns, free_ns, sent_ns, done_ns: shared.now_ns() };
        shared.tally().ended(class, &moments, &exchange.steps_ns, failure.as_deref());
        if session.is_lost() {
            let Some(another) = reopened(&shared).await else { break };
            session = another;
            shared.pids()[number] = session.backend_pid();
        }
    }
}

/// Opens a session again, however long it takes. `None` if there will be no more requests for it. Those that are due
/// meanwhile wait for other sessions, or are dropped.
async fn reopened(shared: &Shared) -> Option<Session> {
    while !shared.backlog.is_closed() {
        if let Ok(session) = Session::open(&shared.db, &shared.workload.classes).await {
            return Some(session);
        }
        tokio::time::sleep(Duration::from_millis(RECONNECT_MS)).await;
    }
    None
}

/// Waits for requests that wait or run, for a limited time. What has not ended then is counted as dropped, and the
/// server's processes that still work on it are ended.
async fn drain(shared: &Shared, mut workers: JoinSet<()>) {
    let all = async { while workers.join_next().await.is_some() {} };
    if tokio::time::timeout(Duration::from_secs(shared.workload.finish_seconds.into()), all).await.is_err() {
        workers.shutdown().await;
        // The numbers are there; a server that cannot be reached now does not change them.
        let _ = end_sessions(shared).await;
    }
    let now_ns = shared.now_ns();
    let mut tally = shared.tally();
    for arrival in shared.backlog.clear() {
        tally.dropped(arrival.class, DropReason::NotBegun, now_ns);
    }
    for (class, open) in tally.open().into_iter().enumerate() {
        (0..open).for_each(|_| tally.dropped(class, DropReason::NotFinished, now_ns));
    }
}

async fn end_sessions(shared: &Shared) -> Result<(), Error> {
    let control = Box::pin(millstream_pg::connect(&shared.db, &SessionSettings::named("millstream drive end"))).await?;
    let pids = shared.pids().clone();
    // A process id may belong to another session by now.
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity
               where pid = any($1) and application_name like '%millstream drive%'";
    control.client.execute(sql, &[&pids]).await?;
    Ok(())
}

/// Processor time of this process so far. The kernel's clock of it counts nanoseconds, while its statistics count
/// clock ticks.
#[expect(clippy::cast_precision_loss, reason = "microseconds matter, and they fit")]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
