//! The server's port: the same at every start, unless another program uses it.

use crate::error::Error;
use crate::home::Home;
use crate::limits::{DATA_FILE_BYTES_MAX, PORT_FIRST, PORTS};
use crate::options::Progress;
use millstream_host::read_plain;
use std::net::{Ipv4Addr, TcpListener};

/// Ports to try, the remembered one first.
#[derive(Debug)]
pub(crate) struct Ports<'a> {
    home: &'a Home,
    remembered: Option<u16>,
    left: std::vec::IntoIter<u16>,
}

impl<'a> Ports<'a> {
    pub(crate) fn of(home: &'a Home) -> Self {
        let text = read_plain(&home.port(), DATA_FILE_BYTES_MAX).ok().flatten().unwrap_or_default();
        let remembered = text.trim().parse().ok().filter(|port| *port != 0);
        let all: Vec<u16> = remembered.into_iter().chain(PORT_FIRST..PORT_FIRST + PORTS).collect();
        Self { home, remembered, left: all.into_iter() }
    }

    /// The next port that nobody listens on at this moment.
    pub(crate) fn next_free(&mut self) -> Option<u16> {
        self.left.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
    }

    /// Keeps the port for the next start.
    pub(crate) fn remember(&self, port: u16, progress: Progress<'_>) -> Result<(), Error> {
        if self.remembered == Some(port) {
            return Ok(());
        }
        if let Some(old) = self.remembered {
            progress(&format!("port {old} is busy; the server is on port {port} from now on"));
        }
        Home::replace(&self.home.port(), 0o600, &format!("{port}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remembered_port_comes_first_unless_it_is_busy() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home { dir: dir.path().to_owned() };
        // Another process may take a port in the moment in which it is free.
        let first_once_free = (0..5).any(|_| {
            let busy = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = busy.local_addr().unwrap().port();
            Ports::of(&home).remember(port, &mut |_| {}).unwrap();
            assert_ne!(Ports::of(&home).next_free(), Some(port));
            drop(busy);
            Ports::of(&home).next_free() == Some(port)
        });
        assert!(first_once_free);
        std::fs::write(home.port(), "nonsense").unwrap();
        assert!(Ports::of(&home).next_free().unwrap() >= PORT_FIRST);
    }
}
