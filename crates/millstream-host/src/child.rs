//! A process in the background.

use rustix::process::{Pid, Signal, kill_process_group};
use std::process::ExitStatus;

/// A process that [`crate::Command::start`] has started. If this is dropped before the process ends, the process is
/// killed with its children.
///
/// If our own process is killed, nobody drops this. A program that must end then too reads its input, which closes.
#[derive(Debug)]
pub struct Child(pub(crate) std::process::Child);

impl Child {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// How it ended; `None` while it lives.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Closes its input and waits for its end.
    pub fn finish(&mut self) {
        let _ = self.0.wait();
    }

    /// Kills the process, and what it has started and left in its process group. Only while the process was not waited
    /// for is the group certainly still its own.
    pub(crate) fn end_group(&self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.end_group();
        }
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use crate::Command;

    #[test]
    fn a_child_ends_when_its_input_does_or_when_it_is_dropped() {
        let mut reader = Command::new("cat").start().unwrap();
        assert_eq!(reader.ended(), None);
        reader.finish();
        assert!(reader.ended().unwrap().success());
        let sleeper = Command::new("sleep").arg("60").start().unwrap();
        let pid = rustix::process::Pid::from_child(&sleeper.0);
        drop(sleeper);
        assert!(rustix::process::test_kill_process(pid).is_err(), "it is dead, and its parent knows");
    }
}
