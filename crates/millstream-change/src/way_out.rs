//! What helps after a refusal.

use std::fmt;

/// The number of a change, with the first word of the commands that confirm and undo it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number(pub &'static str, pub u32);

/// What helps after a refusal. Its text is the hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WayOut {
    /// First confirm, undo or close the change of this number.
    End(Number),
    /// Undo the change of this number.
    Undo(Number),
    /// First undo the change of this number.
    UndoFirst(Number),
    /// Close the change of this number, which keeps the present value.
    Keep(Number),
    /// The same, if what was changed is gone for good.
    KeepIfGone(Number),
    /// Wait for the experiment of the lab that holds settings. If it was killed, its next run gives them back.
    WaitForLab,
    /// No experiment shows the change: compare two commands of your own.
    CompareByHand,
    /// Let the lab keep its data on this disk.
    MoveLab(String),
}

impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let confirm = |Number(room, number): &Number| format!("millstream {room} confirm {number}");
        let undo = |Number(room, number): &Number| format!("millstream {room} undo {number}");
        let keep = |number: &Number| {
            let undo = undo(number);
            format!("{undo} --keep closes the change and keeps the present value")
        };
        match self {
            Self::End(number) => write!(f, "first run {} or {}; {}", confirm(number), undo(number), keep(number)),
            Self::Undo(number) => write!(f, "close it with {}", undo(number)),
            Self::UndoFirst(number) => write!(f, "first run {}", undo(number)),
            Self::Keep(number) => f.write_str(&keep(number)),
            Self::KeepIfGone(number) => write!(f, "if what was changed is gone for good, {}", keep(number)),
            Self::WaitForLab => {
                f.write_str("wait for that; if it was killed, the next millstream lab run as root gives them back")
            }
            Self::CompareByHand => f.write_str(
                "fillfactor has one, and so have settings of the kernel, attributes of a disk, and settings of the \
                 server that such transactions show; compare two commands of your own with millstream lab run \
                 --a COMMAND --b COMMAND",
            ),
            Self::MoveLab(disk) => write!(
                f,
                "set MILLSTREAM_HOME to a directory on {disk}, print the experiment with --experiment, and run it with \
                 millstream lab run"
            ),
        }
    }
}
