//! The sessions that are open through a connection info and its clones: whose they are, and how to cancel what they do.

use crate::limits::CANCEL_TIMEOUT_MS;
use futures_util::future::{BoxFuture, join_all};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The open sessions of a command. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub struct Roster(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    members: Vec<Arc<Member>>,
    /// What the command waits for by asking again and again, and since when.
    waits: Vec<Arc<(&'static str, Instant)>>,
}

/// Asks the server to cancel what a session does.
pub(crate) type Cancel = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// An open session.
struct Member {
    pid: i32,
    cancel: Cancel,
    /// Rows of what the session does now; zero if unknown.
    rows: AtomicU64,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session {}", self.pid)
    }
}

/// The place of a session in the roster, until dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    roster: Roster,
    member: Arc<Member>,
}

/// Something that the command waits for, until dropped.
#[derive(Debug)]
#[must_use = "the wait ends when this is dropped"]
pub struct Waiting {
    roster: Roster,
    wait: Arc<(&'static str, Instant)>,
}

impl Roster {
    /// Adds a session.
    pub(crate) fn enter(&self, pid: i32, cancel: Cancel) -> Seat {
        let member = Arc::new(Member { pid, cancel, rows: AtomicU64::new(0) });
        self.entries().members.push(Arc::clone(&member));
        Seat { roster: self.clone(), member }
    }

    /// The process ids of the sessions, and the rows of what each does now; zero if unknown.
    pub fn sessions(&self) -> Vec<(i32, u64)> {
        self.entries().members.iter().map(|member| (member.pid, member.rows.load(Relaxed))).collect()
    }

    /// Notes that the command waits for others by asking again and again, so that the server sees no session wait.
    pub fn waits_for(&self, what: &'static str) -> Waiting {
        let wait = Arc::new((what, Instant::now()));
        self.entries().waits.push(Arc::clone(&wait));
        Waiting { roster: self.clone(), wait }
    }

    /// The wait that began first: what for, and how long it has lasted.
    pub(crate) fn wait(&self) -> Option<(&'static str, Duration)> {
        self.entries().waits.first().map(|wait| (wait.0, wait.1.elapsed()))
    }

    /// Cancels what all sessions do. Returns when the server has done so, or after [`CANCEL_TIMEOUT_MS`].
    pub async fn cancel(&self) {
        let members = self.entries().members.clone();
        cancelled(&members).await;
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Seat {
    /// Notes how many rows the session works on now.
    pub(crate) fn works_on(&self, rows: u64) {
        self.member.rows.store(rows, Relaxed);
    }

    /// Cancels what the session does, within [`CANCEL_TIMEOUT_MS`].
    pub(crate) async fn cancel(&self) {
        cancelled(std::slice::from_ref(&self.member)).await;
    }

    /// The roster.
    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.roster.entries().members.retain(|member| !Arc::ptr_eq(member, &self.member));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.roster.entries().waits.retain(|wait| !Arc::ptr_eq(wait, &self.wait));
    }
}

/// Cancels what these sessions do. If that fails, the server ends a session soon after its client.
async fn cancelled(members: &[Arc<Member>]) {
    let requests = members.iter().map(|member| (member.cancel)());
    let _ = tokio::time::timeout(Duration::from_millis(CANCEL_TIMEOUT_MS), join_all(requests)).await;
}

/// Which sessions are open makes no difference to where a connection info leads.
impl PartialEq for Roster {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Roster {}
