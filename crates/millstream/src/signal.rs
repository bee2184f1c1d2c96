//! Ctrl-C, SIGTERM and SIGHUP: they end the process at once, unless a command asks to end in good order.

use crate::exit::Exit;
use crate::failure::Failure;
use millstream_host::hangup_is_ignored;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// A signal that follows the first one sooner counts as the same: `timeout` sends its signal to the process and to its
/// group.
const SECOND_AFTER: Duration = Duration::from_millis(100);

/// The signals that ask the process to end.
#[derive(Debug, Clone)]
pub struct Signals {
    first: watch::Receiver<Option<Exit>>,
    orderly: Arc<AtomicBool>,
}

impl Signals {
    /// Starts watching. Until a command calls [`Signals::stop_asked`], a signal ends the process at once; afterwards
    /// the second signal does.
    pub fn watch() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::user("cannot watch for signals").because(&error);
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        // Under nohup, the command continues when its terminal is closed.
        let mut hangup = if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup()).map_err(failed)?) };
        let (sender, first) = watch::channel(None);
        let orderly = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&orderly);
        tokio::spawn(async move {
            let mut first_at: Option<Instant> = None;
            loop {
                let exit = tokio::select! {
                    _ = interrupt.recv() => Exit::Interrupted,
                    _ = terminate.recv() => Exit::Terminated,
                    () = received(&mut hangup) => Exit::HungUp,
                };
                match first_at {
                    _ if !asked.load(Ordering::SeqCst) => exit.now(),
                    None => {
                        first_at = Some(Instant::now());
                        sender.send_replace(Some(exit));
                    }
                    Some(at) if at.elapsed() >= SECOND_AFTER => exit.now(),
                    Some(_) => {}
                }
            }
        });
        Ok(Self { first, orderly })
    }

    /// Resolves at the first signal, with the exit that it asks for. After this call the command must end itself in
    /// good order, and only a second signal ends the process at once.
    pub async fn stop_asked(&self) -> Exit {
        self.orderly.store(true, Ordering::SeqCst);
        let mut first = self.first.clone();
        let exit = first.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
        match exit {
            Some(exit) => exit,
            // The watching task lives as long as the runtime, so the wait cannot end without a signal.
            None => std::future::pending().await,
        }
    }
}

/// Resolves at the next signal; never, if the signal is not watched.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}
