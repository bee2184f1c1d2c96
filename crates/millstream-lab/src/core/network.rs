//! A slow network: a TCP proxy in front of the server that holds every byte for half a round trip.
//!
//! It does not limit the rate: bytes that arrive while others are held are held too, each for its own time. It uses
//! threads, because they wake up closer to the due time than the runtime's timer, which counts milliseconds.

use crate::error::Error;
use crate::limits::{DELAYED_CHUNK_BYTES, DELAYED_CHUNKS_MAX};
use millstream_pg::{Address, ConnInfo, Host};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A proxy on a port of 127.0.0.1. When it is dropped, it ends with its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// The server's address through the proxy.
    pub(crate) db: ConnInfo,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Host,
    /// Delay of a byte in each direction.
    delay: Duration,
    ended: AtomicBool,
    /// Connections to cut at the end.
    connections: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy in front of the first host of `db`.
    ///
    /// # Errors
    /// There is no free port.
    pub(crate) fn start(db: &ConnInfo, round_trip: Duration) -> Result<Self, Error> {
        let failed = |source| Error::Io { what: "listen on", path: "127.0.0.1".into(), source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let host = db.hosts.first().ok_or_else(|| Error::Wrong("a server without host".to_owned()))?;
        let shared = Arc::new(Shared {
            target: host.clone(),
            delay: round_trip / 2,
            ended: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { db: through(db, host, address), address, shared })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wake the thread that accepts connections. It then sees that the proxy has ended.
        drop(TcpStream::connect(self.address));
        for stream in self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It fails if the connection has ended.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// The same database at the proxy's address. The host keeps its name, because a certificate is checked against it.
fn through(db: &ConnInfo, host: &Host, proxy: SocketAddr) -> ConnInfo {
    let mut db = db.clone();
    let address = Address::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    db.hosts = vec![Host { address, port: proxy.port(), ..host.clone() }];
    db
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        // If we cannot connect to the server, the client sees its connection closed.
        if let Ok(client) = client {
            let _ = serve(client, shared);
        }
    }
}

fn serve(client: TcpStream, shared: &Shared) -> io::Result<()> {
    let server = connect(&shared.target)?;
    client.set_nodelay(true)?;
    for (from, to) in [(client.try_clone()?, server.try_clone()?), (server.try_clone()?, client.try_clone()?)] {
        let (sender, receiver) = sync_channel(DELAYED_CHUNKS_MAX);
        let delay = shared.delay;
        thread::spawn(move || receive(from, &sender, delay));
        thread::spawn(move || pass_on(&receiver, to));
    }
    let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
    connections.extend([client, server]);
    Ok(())
}

/// Received bytes, and when they are due at the other side.
type Chunk = (Instant, Vec<u8>);

fn receive(mut from: TcpStream, sender: &SyncSender<Chunk>, delay: Duration) {
    let mut buffer = vec![0; DELAYED_CHUNK_BYTES];
    while let Ok(length) = from.read(&mut buffer) {
        if length == 0 || sender.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn pass_on(receiver: &Receiver<Chunk>, mut to: TcpStream) {
    while let Ok((due, bytes)) = receiver.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // It fails if the other side is gone.
    let _ = to.shutdown(Shutdown::Write);
}

/// A socket in the file system is read, written and shut down as one of TCP is. Small messages must not wait for each
/// other: the only delay must be ours.
fn connect(host: &Host) -> io::Result<TcpStream> {
    let stream = match &host.address {
        Address::Socket(dir) => {
            let stream = UnixStream::connect(dir.join(format!(".s.PGSQL.{}", host.port)))?;
            return Ok(OwnedFd::from(stream).into());
        }
        Address::Name(name) => TcpStream::connect((name.as_str(), host.port))?,
        Address::Ip(ip) => TcpStream::connect((*ip, host.port))?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Environment;
    use std::os::unix::net::UnixListener;

    /// A server that sends back what it gets, and a proxy in front of it.
    fn echo(round_trip: Duration) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        });
        let url = format!("postgres://u:p@127.0.0.1:{port}/d");
        let db = ConnInfo::parse(&url, &Environment::from_variables([])).unwrap();
        Proxy::start(&db, round_trip).unwrap()
    }

    #[test]
    fn an_answer_takes_the_round_trip_at_least() {
        let proxy = echo(Duration::from_millis(30));
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        for _ in 0..3 {
            let start = Instant::now();
            stream.write_all(b"ping").unwrap();
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"ping");
            assert!(start.elapsed() >= Duration::from_millis(30));
        }
    }

    #[test]
    fn bytes_arrive_as_they_were_sent_and_the_end_arrives_too() {
        let proxy = echo(Duration::from_millis(5));
        let mut rng = fastrand::Rng::with_seed(1);
        let sent: Vec<u8> = (0..4 << 20).map(|_| rng.u8(..)).collect();
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        let mut out = stream.try_clone().unwrap();
        let again = sent.clone();
        thread::spawn(move || {
            out.write_all(&again).unwrap();
            out.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got == sent, "{} bytes came back of {}", got.len(), sent.len());
    }

    #[test]
    fn a_server_may_have_a_socket_in_the_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            io::copy(&mut stream.try_clone().unwrap(), &mut stream)
        });
        let url = format!("postgres:///d?host={}&user=u", dir.path().display());
        let db = ConnInfo::parse(&url, &Environment::from_variables([])).unwrap();
        let proxy = Proxy::start(&db, Duration::from_millis(2)).unwrap();
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        stream.write_all(b"ping").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ping");
    }

    #[test]
    fn the_server_keeps_its_name_and_password_and_a_dropped_proxy_cuts() {
        let proxy = echo(Duration::ZERO);
        let host = &proxy.db.hosts[0];
        assert_eq!((host.port, host.password.as_ref().unwrap().reveal()), (proxy.address.port(), "p"));
        assert_eq!(proxy.db.dbname, "d");
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        drop(proxy);
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
}
