//! A TCP proxy in front of a server that delays, holds or cuts connections, and counts their round trips.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Most bytes that are passed on at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Most chunks that wait in one direction of a connection.
const CHUNKS_LATE_MAX: usize = 256;

/// What the proxy does with what it receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Delay in each direction.
    pub delay: Duration,
    /// The proxy keeps what the client sends.
    pub requests_held: bool,
    /// The proxy keeps what the server sends. A COMMIT then happens, but its answer is lost when the connections are
    /// cut.
    pub answers_held: bool,
    /// New connections are closed at once.
    pub closed: bool,
    /// Every second new connection is closed at once, the first one included.
    pub every_second_closed: bool,
    /// Raised by [`Proxy::cut`]; connections of an earlier generation end.
    generation: u64,
}

/// A proxy on a port of 127.0.0.1. It ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    traffic: watch::Sender<Traffic>,
    turns: Arc<AtomicU64>,
    /// Every open connection holds one of these.
    open: Arc<()>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of `host:port`.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(target: impl Into<String>) -> Self {
        let target: Arc<str> = target.into().into();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let traffic = watch::Sender::new(Traffic::default());
        let watched = traffic.subscribe();
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        let open = Arc::new(());
        let mark = Arc::downgrade(&open);
        let accepting = tokio::spawn(async move {
            let mut closes = false;
            while let Ok((client, _)) = listener.accept().await {
                closes = !closes && watched.borrow().every_second_closed;
                if closes {
                    continue;
                }
                let (target, watched, mark) = (Arc::clone(&target), watched.clone(), mark.upgrade());
                let turns = Turns { all: Arc::clone(&counted), answered: AtomicBool::new(true) };
                tokio::spawn(async move {
                    serve(client, &target, watched, &turns).await;
                    drop(mark);
                });
            }
        });
        Self { address, traffic, turns, open, accepting }
    }

    /// How often a client has sent something after an answer, over all connections so far. Requests that the client
    /// sends without waiting count as one turn, if the delay is long enough to send them all.
    pub fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    /// Changes what happens to connections, open and new.
    pub fn set(&self, change: impl FnOnce(&mut Traffic)) {
        self.traffic.send_modify(change);
    }

    /// Ends every open connection. What the proxy keeps is lost.
    pub fn cut(&self) {
        self.set(|traffic| traffic.generation += 1);
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// The turns of one connection.
struct Turns {
    all: Arc<AtomicU64>,
    /// Whether the client has received something since it last sent.
    answered: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

async fn serve(client: TcpStream, target: &str, mut traffic: watch::Receiver<Traffic>, turns: &Turns) {
    if traffic.borrow_and_update().closed {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    // Small messages must not wait for each other, or every test would take longer.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut client_out, mut client_in) = client.into_split();
    let (mut server_out, mut server_in) = server.into_split();
    let other = traffic.clone();
    tokio::select! {
        () = pass(&mut client_out, &mut server_in, traffic, Direction::Requests, turns) => {}
        () = pass(&mut server_out, &mut client_in, other, Direction::Answers, turns) => {}
    }
}

/// Passes bytes on until one side ends or the connection is cut.
async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    traffic: watch::Receiver<Traffic>,
    direction: Direction,
    turns: &Turns,
) {
    let generation = traffic.borrow().generation;
    let (delayed, mut cut) = (traffic.clone(), traffic.clone());
    // Reading continues while bytes wait, as on a long line.
    let (late, due) = mpsc::channel(CHUNKS_LATE_MAX);
    let reading = async move {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if direction == Direction::Requests && turns.answered.swap(false, Relaxed) {
                turns.all.fetch_add(1, Relaxed);
            }
            let delay = delayed.borrow().delay;
            if late.send((Instant::now() + delay, buffer[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = async { tokio::join!(reading, write(due, to, traffic, direction, turns)); } => {}
        _ = cut.wait_for(|now| now.generation != generation) => {}
    }
}

/// Writes each chunk when it is due, until there are no more.
async fn write(
    mut due: mpsc::Receiver<(Instant, Vec<u8>)>,
    to: &mut (impl AsyncWriteExt + Unpin),
    mut traffic: watch::Receiver<Traffic>,
    direction: Direction,
    turns: &Turns,
) {
    while let Some((at, bytes)) = due.recv().await {
        tokio::time::sleep_until(at).await;
        let open = |now: &Traffic| match direction {
            Direction::Requests => !now.requests_held,
            Direction::Answers => !now.answers_held,
        };
        if traffic.wait_for(open).await.is_err() {
            return;
        }
        if direction == Direction::Answers {
            turns.answered.store(true, Relaxed);
        }
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
