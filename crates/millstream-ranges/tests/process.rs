//! A test of this program, run once more in a process of its own.

use std::ffi::OsStr;
use std::process::{Command, Output};

/// Runs it to its end, with these variables.
pub(crate) fn again(test: &str, variables: &[(&str, &OsStr)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).envs(variables.iter().copied());
    command.output().unwrap()
}
