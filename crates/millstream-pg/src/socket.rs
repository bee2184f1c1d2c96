//! The socket to a server, from which only so many bytes are read before the login is done.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::conninfo::{Keepalives, may_serve};
use crate::limits::LOGIN_BYTES_MAX;

/// Where a server listens, and how a dead connection to it is detected.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A numeric address and a port.
    Tcp(IpAddr, u16, Keepalives),
    /// The file of a Unix socket, and whether nobody has named it.
    Unix(PathBuf, bool),
}

/// The socket to a server.
///
/// The driver keeps what a server sends until it has read a message, and all notices until the login is done. A server that
/// sends without end, or announces a message of 2 GB, would take all of our memory before it has proved anything.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    room: Room,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// How many bytes a server may still send. Clones are the same number.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<AtomicU64>);

/// A server has sent more than [`LOGIN_BYTES_MAX`] before the login was done.
#[derive(Debug, thiserror::Error)]
#[error("the server sent more than {} MiB before the login was done", LOGIN_BYTES_MAX >> 20)]
pub(crate) struct Flooded;

/// Somebody else listens on a socket that nobody has named, where everybody may make one.
#[derive(Debug, thiserror::Error)]
#[error("another user of this machine (uid {uid}) listens on this socket, and others may make sockets there, too")]
pub(crate) struct Stranger {
    uid: u32,
}

impl Room {
    const UNLIMITED: u64 = u64::MAX;

    /// The login is done: from now on, the server may send as much as it is asked for.
    pub(crate) fn lift(&self) {
        self.0.store(Self::UNLIMITED, Relaxed);
    }
}

impl Socket {
    /// Connects to a server.
    ///
    /// # Errors
    /// Nobody listens there, an option of the socket is refused, or a [`Stranger`] listens.
    pub(crate) async fn open(place: &Place) -> io::Result<Self> {
        let stream = match place {
            Place::Tcp(ip, port, keepalives) => {
                let stream = TcpStream::connect((*ip, *port)).await?;
                stream.set_nodelay(true)?;
                watch(&stream, keepalives)?;
                Stream::Tcp(stream)
            }
            Place::Unix(file, is_searched) => {
                let stream = UnixStream::connect(file).await?;
                let (dir, uid) = (file.parent().unwrap_or(Path::new("/")), stream.peer_cred()?.uid());
                if *is_searched && !may_serve(dir, uid) {
                    return Err(io::Error::other(Stranger { uid }));
                }
                Stream::Unix(stream)
            }
        };
        Ok(Self { stream, room: Room(Arc::new(AtomicU64::new(LOGIN_BYTES_MAX))) })
    }

    /// How many bytes the server may still send.
    pub(crate) fn room(&self) -> Room {
        self.room.clone()
    }
}

/// Lets the kernel notice that the other side is gone.
fn watch(stream: &TcpStream, keepalives: &Keepalives) -> io::Result<()> {
    if let Some(timeout) = keepalives.user_timeout {
        sockopt::set_tcp_user_timeout(stream, u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX))?;
    }
    if keepalives.on {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, keepalives.idle)?;
        sockopt::set_tcp_keepintvl(stream, keepalives.interval)?;
        sockopt::set_tcp_keepcnt(stream, keepalives.retries)?;
    }
    Ok(())
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = self.room.0.load(Relaxed);
        if room == 0 {
            return Poll::Ready(Err(io::Error::other(Flooded)));
        }
        let before = buf.filled().len();
        let read = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        if room != Room::UNLIMITED {
            let taken = buf.filled().len() - before;
            self.room.0.store(room.saturating_sub(taken as u64), Relaxed);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
