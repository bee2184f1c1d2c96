//! Which process works on a copy of a cluster: a note in each of its folders names it while it does.
//!
//! The locks of a home keep apart only the copies that share it. A killed copy leaves its note, so the note also says how to
//! find out whether the process is alive. A cluster is copied on its own machine, so both copies are processes of this one.

use crate::state::{boot, random};
use std::fs;
use std::path::Path;

/// The name of the note. It begins like those of unfinished files, which no copy deletes.
pub(crate) const WORK: &str = ".millstream-copy.work";

/// A note of this process that no other copy has, neither in this process.
pub(crate) fn note(folder: &Path) -> String {
    let pid = std::process::id();
    format!("{} {pid} {} {:016x}", boot(), started(pid).unwrap_or_default(), random(folder))
}

/// Whether the process of a note is alive on this machine.
pub(crate) fn is_alive(note: &str) -> bool {
    let words: Vec<&str> = note.split(' ').collect();
    let [of_boot, pid, of_start, _] = words[..] else { return false };
    // The same number may belong to a later process.
    of_boot == boot() && pid.parse::<u32>().is_ok_and(|pid| started(pid).is_some_and(|started| started == of_start))
}

/// When a process was started, in the kernel's ticks. `None` if it has ended.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| !has_ended).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_note_is_of_a_living_process_until_that_ends() {
        let folder = Path::new("/to");
        let own = note(folder);
        assert!(is_alive(&own) && own != note(folder));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let with = |n: usize, word: &str| {
            let mut words: Vec<&str> = own.split(' ').collect();
            words[n] = word;
            words.join(" ")
        };
        let (pid, start) = (child.id().to_string(), started(child.id()).unwrap());
        let of_child = format!("{} {pid} {start} 0", boot());
        assert!(is_alive(&of_child));
        for other in [with(0, "another-boot"), with(1, "0"), with(2, "1"), String::new(), "a b".to_owned()] {
            assert!(!is_alive(&other), "{other}");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!is_alive(&of_child));
    }
}
