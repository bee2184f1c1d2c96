//! The exit codes.

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for was done.
    Done,
    /// Done, with findings: rejects, a missing key, a missed index.
    Findings,
    /// Failed because of the user, the configuration or the database.
    Error,
    /// Our bug (`EX_SOFTWARE` in sysexits.h).
    Bug,
    /// SIGHUP: the terminal was closed.
    HungUp,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Exit {
    /// The code that the shell sees; above 128 it is 128 and the number of the signal.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Findings => 1,
            Self::Error => 2,
            Self::Bug => 70,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// Leaves the process at once.
    pub fn now(self) -> ! {
        std::process::exit(i32::from(self.code()))
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_documented_ones() {
        let exits =
            [Exit::Done, Exit::Findings, Exit::Error, Exit::Bug, Exit::HungUp, Exit::Interrupted, Exit::Terminated];
        assert_eq!(exits.map(Exit::code), [0, 1, 2, 70, 129, 130, 143]);
    }
}
