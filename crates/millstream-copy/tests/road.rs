//! The ways of a copy from one end to the other, as a table: what is said of a copy holds on each of them.

use crate::place::{Place, Process};
use millstream_copy::{Plan, Receipt, Verification};
use millstream_testkit::{Need, RsyncDaemon, machine_has};
use std::io::Write;

/// How the ends are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Here,
    /// The destination, by a remote shell.
    ToShell,
    /// The source, by a remote shell.
    FromShell,
    ToDaemon,
    FromDaemon,
}

/// All of them.
pub const WAYS: [Way; 5] = [Way::Here, Way::ToShell, Way::FromShell, Way::ToDaemon, Way::FromDaemon];
/// Those on which a copy can be compared later: a daemon tells no hashes.
pub const COMPARED: [Way; 4] = [Way::Here, Way::ToShell, Way::FromShell, Way::FromDaemon];

/// A place whose copies go a way.
pub struct Road {
    pub way: Way,
    pub place: Place,
    shell: String,
    daemon: Option<RsyncDaemon>,
}

/// Runs a test on each of these ways that the machine has, in a place of its own.
pub fn each_road(ways: &[Way], test: impl Fn(&Road)) {
    // Without it, the ways between machines are not there.
    let has_rsync = ways.iter().all(|way| *way == Way::Here) || machine_has(&[Need::RSYNC]);
    for way in ways {
        let place = Place::new();
        let by_daemon = matches!(way, Way::ToDaemon | Way::FromDaemon);
        let daemon = if by_daemon { RsyncDaemon::start(&place.path("")) } else { None };
        if *way != Way::Here && !has_rsync || by_daemon && daemon.is_none() {
            continue;
        }
        let shell = place.plain_shell();
        test(&Road { way: *way, place, shell, daemon });
    }
}

/// A failed test says on which way.
impl Drop for Road {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "on the way {:?}", self.way);
        }
    }
}

impl Road {
    /// Whether the destination lies on another machine.
    pub fn sends(&self) -> bool {
        matches!(self.way, Way::ToShell | Way::ToDaemon)
    }

    fn far(&self, name: &str) -> String {
        match &self.daemon {
            Some(daemon) => format!("{}/{name}", daemon.address()),
            None => self.place.far(name),
        }
    }

    /// A path of the place as that of the source.
    pub fn from(&self, name: &str) -> String {
        if matches!(self.way, Way::FromShell | Way::FromDaemon) { self.far(name) } else { name.to_owned() }
    }

    /// A path of the place as that of the destination.
    pub fn to(&self, name: &str) -> String {
        if self.sends() { self.far(name) } else { name.to_owned() }
    }

    fn words<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        let shell = matches!(self.way, Way::ToShell | Way::FromShell).then_some(self.shell.as_str());
        words.iter().copied().chain(shell).collect()
    }

    /// As [`Place::copy`].
    #[track_caller]
    pub fn copy(&self, from: &str, to: &str, words: &[&str]) -> Receipt {
        self.place.copy(&self.from(from), &self.to(to), &self.words(words))
    }

    /// As [`Place::copy_in_part`].
    #[track_caller]
    pub fn copy_in_part(&self, from: &str, to: &str, words: &[&str]) -> Receipt {
        self.place.copy_in_part(&self.from(from), &self.to(to), &self.words(words))
    }

    /// As [`Place::refused`].
    #[track_caller]
    pub fn refused(&self, from: &str, to: &str, words: &[&str]) -> String {
        self.place.refused(&self.from(from), &self.to(to), &self.words(words))
    }

    /// As [`Place::plan`].
    #[track_caller]
    pub fn plan(&self, from: &str, to: &str, words: &[&str]) -> Plan {
        self.place.plan(&self.from(from), &self.to(to), &self.words(words))
    }

    /// A source as people read it.
    pub fn shown(&self, from: &str) -> String {
        if self.from(from) == from { self.place.text(from) } else { self.from(from) }
    }

    /// As [`Place::process`].
    pub fn process(&self, from: &str, to: &str, words: &[&str]) -> Process {
        self.place.process(&self.from(from), &self.to(to), &self.words(words))
    }

    fn verifying(&self) -> Vec<&str> {
        if self.way == Way::ToShell { vec![self.shell.as_str()] } else { Vec::new() }
    }

    /// As [`Place::verify`].
    #[track_caller]
    pub fn found(&self, what: &str) -> Vec<Verification> {
        self.place.verify(&self.to(what), &self.verifying()).unwrap()
    }

    /// As [`Place::is_whole`].
    #[track_caller]
    pub fn is_whole(&self, what: &str) -> Verification {
        self.place.is_whole(&self.to(what), &self.verifying())
    }

    /// As [`Place::problems`].
    #[track_caller]
    pub fn problems(&self, what: &str) -> String {
        self.place.problems(&self.to(what), &self.verifying())
    }
}
