//! Runs the binary in a clean environment.

use std::process::{Command, Output, Stdio};

/// Variables of the caller that would reach the binary; `PG*` go too.
const VARIABLES: &[&str] = &["DATABASE_URL", "MILLSTREAM_DB", "MILLSTREAM_HOME", "MILLSTREAM_SCHEMA"];

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// The run's stdout as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The run itself if it ended with this code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// The binary with these arguments: without a terminal, in 80 columns, without the caller's settings.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(args).env("COLUMNS", "80").stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG") || VARIABLES.contains(&name)) {
            command.env_remove(&name);
        }
    }
    command
}

/// The same, but SIGHUP ends it as in a terminal, even if the tests run under `nohup`.
pub fn command_in_terminal(args: &[&str]) -> Command {
    let plain = command(args);
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    Run {
        code: status.code().expect("the binary is not killed"),
        stdout: String::from_utf8(stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(stderr).expect("stderr is UTF-8"),
    }
}

/// Runs the binary with these arguments to its end.
pub fn millstream(args: &[&str]) -> Run {
    run(&mut command(args))
}
