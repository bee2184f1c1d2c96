//! Settings of the host that experiments change: the queue of the data's disk, and what `sysctl` knows.

use super::cluster::Trouble;
use crate::error::Error;
use millstream_host::kernel::device::queues_below;
use millstream_host::{HostChanges, MemoryLimit, sysctl_file};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// How the names of settings of the data's disk begin.
const DISK: &str = "disk.";

/// The host, and what was changed of it.
#[derive(Debug, Default)]
pub(crate) struct Host {
    changes: Option<HostChanges>,
}

impl Host {
    /// Gives back what a lab that was killed has changed, if this account may do so. `more`: something else may be left, too.
    /// Returns whether nobody else is at work on this machine.
    pub(crate) fn recover(&mut self, more: bool, say: &mut (dyn FnMut(&str) + Send)) -> bool {
        if !more && !HostChanges::is_pending() && !MemoryLimit::is_left() {
            return false;
        }
        match HostChanges::open() {
            Ok((changes, left)) => {
                for setting in left {
                    let now = match HostChanges::is_gone(&setting) {
                        true => "is gone, so that it needs no value",
                        false => "has its own value again",
                    };
                    say(&format!("{} {now}: a run that was killed had changed it", setting.display()));
                }
                MemoryLimit::lift_left();
                self.changes = Some(changes);
            }
            // Another run is at work, and gives back what it changes.
            Err(millstream_host::Error::Busy { .. }) => {}
            Err(error) => say(&format!("a run that was killed has left changes of this machine: {}", why(error))),
        }
        self.changes.is_some()
    }

    /// Takes the host for this run: nobody else may change its settings meanwhile.
    pub(crate) fn claim(&mut self, allowed: bool) -> Result<&mut HostChanges, Trouble> {
        if !allowed {
            return Err(Trouble::Unfit(not_allowed()));
        }
        let changes = match self.changes.take() {
            Some(changes) => changes,
            None => HostChanges::open().map_err(unfit)?.0,
        };
        Ok(self.changes.insert(changes))
    }

    /// Gives the host these settings, and every other one that was changed its own value. `data` is the directory whose
    /// disk is meant.
    pub(crate) fn set(
        &mut self,
        wanted: &BTreeMap<String, String>,
        data: Option<&Path>,
        allowed: bool,
    ) -> Result<(), Trouble> {
        let mut files = BTreeMap::new();
        for (name, value) in wanted {
            files.extend(paths(name, data)?.into_iter().map(|path| (path, value.clone())));
        }
        let changes = match (&mut self.changes, wanted.is_empty()) {
            (None, true) => return Ok(()),
            (Some(changes), true) => changes,
            (_, false) => self.claim(allowed)?,
        };
        changes.apply(&files).map_err(unfit)
    }

    /// Gives back everything.
    pub(crate) fn restore(&mut self) -> Result<(), Error> {
        match &mut self.changes {
            Some(changes) => changes.restore().map_err(|error| Error::Wrong(error.to_string())),
            None => Ok(()),
        }
    }
}

/// Why an arm cannot be run that changes this machine.
pub(super) fn not_allowed() -> String {
    "it changes this machine; --change-host allows that, and gives back what it changes".to_owned()
}

fn unfit(error: millstream_host::Error) -> Trouble {
    Trouble::Unfit(why(error))
}

fn why(error: millstream_host::Error) -> String {
    match error {
        millstream_host::Error::Setting { ref source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            format!("{error}; run it as root")
        }
        error => error.to_string(),
    }
}

/// The files of a setting: one, or one for each disk.
fn paths(name: &str, data: Option<&Path>) -> Result<Vec<PathBuf>, Trouble> {
    let unknown = || Trouble::Unfit(format!("{name} is not a setting of the host"));
    let Some(of_disk) = name.strip_prefix(DISK) else {
        return Ok(vec![sysctl_file(name).ok_or_else(unknown)?]);
    };
    if !of_disk.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(unknown());
    }
    let queues = data.map(queues_below).unwrap_or_default();
    match queues.is_empty() {
        true => Err(Trouble::Unfit("the disk of the server's data is not known here".to_owned())),
        false => Ok(queues.into_iter().map(|queue| queue.join(of_disk)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_a_file_of_the_kernel() {
        assert_eq!(paths("vm.swappiness", None).unwrap(), [sysctl_file("vm.swappiness").unwrap()]);
        for name in ["../etc/passwd", "disk./x", "disk...", ""] {
            assert!(matches!(paths(name, Some(Path::new("/"))), Err(Trouble::Unfit(_))), "{name}");
        }
        let Err(Trouble::Unfit(why)) = paths("disk.scheduler", Some(Path::new("/proc"))) else { panic!() };
        assert_eq!(why, "the disk of the server's data is not known here");
    }

    #[test]
    fn nothing_is_changed_without_leave() {
        let wanted = BTreeMap::from([("vm.swappiness".to_owned(), "1".to_owned())]);
        let Err(Trouble::Unfit(why)) = Host::default().set(&wanted, None, false) else { panic!() };
        assert!(why.contains("; --change-host allows that"), "{why}");
        assert!(Host::default().set(&BTreeMap::new(), None, false).is_ok());
    }
}
