//! Ctrl-C, SIGTERM and SIGHUP: they end the process at once, unless a command asks to end in good order.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::LAST_WAIT;
use millstream_host::hangup_is_ignored;
use millstream_pg::{ConnInfo, Roster};
use rustix::process::{getpid, kill_process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// A signal that follows the first one sooner counts as the same: `timeout` sends its signal to the process and to its
/// group.
const SECOND_AFTER: Duration = Duration::from_millis(100);

/// The signals that ask the process to end.
#[derive(Debug, Clone)]
pub struct Signals {
    asked: watch::Receiver<Asked>,
    orderly: Arc<AtomicBool>,
    /// The sessions to cancel before the process ends, if the command has asked for that.
    roster: Arc<Mutex<Option<Roster>>>,
}

/// What the signals so far ask for.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    exit: Option<Exit>,
    /// There was a second signal.
    hurried: bool,
}

impl Signals {
    /// Starts watching. Until a command calls [`Signals::stop_asked`], a signal ends the process at once; afterwards
    /// the second signal does. A command with sessions gets a moment to end by itself, before they are cancelled.
    pub fn watch() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::user("cannot watch for signals").because(&error);
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        // Under nohup, the command continues when its terminal is closed.
        let mut hangup = if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup()).map_err(failed)?) };
        let (sender, asked) = watch::channel(Asked::default());
        let signals = Self { asked, orderly: Arc::default(), roster: Arc::default() };
        let watched = signals.clone();
        tokio::spawn(async move {
            let mut last_at: Option<Instant> = None;
            loop {
                let exit = tokio::select! {
                    _ = interrupt.recv() => Exit::Interrupted,
                    _ = terminate.recv() => Exit::Terminated,
                    () = received(&mut hangup) => Exit::HungUp,
                };
                let same = last_at.is_some_and(|at| at.elapsed() < SECOND_AFTER);
                if !watched.orderly.load(Ordering::SeqCst) {
                    exit.now();
                }
                if same {
                    continue;
                }
                last_at = Some(Instant::now());
                let Asked { exit: before, hurried } = *sender.borrow();
                match before {
                    None => _ = sender.send_replace(Asked { exit: Some(exit), hurried: false }),
                    Some(_) if hurried => exit.now(),
                    Some(_) => {
                        sender.send_modify(|asked| asked.hurried = true);
                        tokio::spawn(end_soon(watched.roster().clone(), exit));
                    }
                }
            }
        });
        Ok(signals)
    }

    /// Resolves at the first signal, with the exit that it asks for. After this call the command must end itself in
    /// good order, and only a second signal ends the process.
    pub fn stop_asked(&self) -> impl Future<Output = Exit> + Send + use<> {
        self.orderly.store(true, Ordering::SeqCst);
        let mut asked = self.asked.clone();
        async move {
            let exit = asked.wait_for(|asked| asked.exit.is_some()).await.ok().and_then(|asked| asked.exit);
            match exit {
                Some(exit) => exit,
                // The watching task lives as long as the runtime, so the wait cannot end without a signal.
                None => std::future::pending().await,
            }
        }
    }

    /// Resolves at the second signal.
    pub async fn hurried(&self) {
        let mut asked = self.asked.clone();
        if asked.wait_for(|asked| asked.hurried).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Cancels what the sessions through `db` do before a second signal ends the process.
    pub fn cancel_sessions_of(&self, db: &ConnInfo) {
        *self.roster() = Some(db.roster.clone());
    }

    fn roster(&self) -> MutexGuard<'_, Option<Roster>> {
        self.roster.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Asks this process to end in good order, as SIGTERM from outside does.
pub fn terminate() {
    // A process may send itself a signal, so this cannot fail.
    let _ = kill_process(getpid(), rustix::process::Signal::TERM);
}

/// Ends the process after the second signal. A command with sessions gets a moment to end by itself.
async fn end_soon(roster: Option<Roster>, exit: Exit) {
    if let Some(roster) = roster {
        tokio::time::sleep(LAST_WAIT).await;
        roster.cancel().await;
    }
    exit.now()
}

/// Resolves at the next signal; never, if the signal is not watched.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}
