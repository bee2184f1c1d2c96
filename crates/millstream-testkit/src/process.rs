//! The program as a process, in a clean environment.

use crate::wait::until;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Of each output of a run, a failed test shows so many characters.
const SHOWN_CHARS: usize = 2_000;

/// Where cargo names the program to the tests of its crate. They read it when they run, so that several test binaries can
/// share this file.
const PROGRAM: &str = "CARGO_BIN_EXE_millstream";

/// Variables of the caller that would reach the program.
const VARIABLES: &[&str] = &[
    "DATABASE_URL",
    "MILLSTREAM_DB",
    "MILLSTREAM_HOME",
    "MILLSTREAM_OBJECT_RANGES",
    "MILLSTREAM_SCHEMA",
    "MILLSTREAM_TRUST_OWNER",
];

/// How the names of variables begin that would reach the program, too.
const BEGINNINGS: [&str; 4] = ["PG", "AWS_", "AZURE_", "GOOGLE_"];

/// The result of a run.
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// What it printed on stdout.
    pub stdout: String,
    /// What it printed on stderr.
    pub stderr: String,
}

/// The last part of what was printed: of a failed test, only so much is kept that a longer message would be lost.
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |text: &str| {
            let skipped = text.chars().count().saturating_sub(SHOWN_CHARS);
            text.chars().skip(skipped).collect::<String>()
        };
        let Self { code, stdout, stderr } = self;
        f.debug_struct("Run").field("code", code).field("stdout", &end(stdout)).field("stderr", &end(stderr)).finish()
    }
}

impl Run {
    /// The run's stdout as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The run itself.
    ///
    /// # Panics
    /// If it ended with another code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// The program with these arguments: without a terminal, in 80 columns, without the caller's settings.
///
/// # Panics
/// Outside the tests of the program's crate.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env("COLUMNS", "80").stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let is_callers =
            |name: &str| VARIABLES.contains(&name) || BEGINNINGS.iter().any(|begins| name.starts_with(begins));
        if name.to_str().is_some_and(is_callers) {
            command.env_remove(&name);
        }
    }
    command
}

fn program() -> OsString {
    std::env::var_os(PROGRAM)
        .unwrap_or_else(|| panic!("{PROGRAM} is not set; run the test with `cargo test -p millstream`"))
}

/// The same, but SIGHUP ends it as in a terminal, even if the tests run under `nohup`.
pub fn command_in_terminal(args: &[&str]) -> Command {
    started_by("env", &["--default-signal=HUP"], &command(args))
}

/// A command whose new files have all the rights that it gives them.
pub fn with_open_umask(plain: &Command) -> Command {
    started_by("sh", &["-c", "umask 000; exec \"$@\"", "sh"], plain)
}

/// A command that another program starts.
pub fn started_by(program: &str, args: &[&str], plain: &Command) -> Command {
    let mut command = Command::new(program);
    command.args(args).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(dir) = plain.get_current_dir() {
        command.current_dir(dir);
    }
    command.stdin(Stdio::null());
    command
}

/// The doctor with these arguments on a server. Its home is also its current directory.
pub fn doctor(args: &[&str], url: &str, home: &Path) -> Command {
    let mut command = command(&["doctor"]);
    command.args(args).args(["--db", url]).current_dir(home).env("MILLSTREAM_HOME", home);
    command
}

/// Runs a command to its end.
///
/// # Panics
/// If a signal ends it, or if it prints what is not UTF-8.
pub fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    Run {
        code: status.code().expect("the program is not killed"),
        stdout: String::from_utf8(stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(stderr).expect("stderr is UTF-8"),
    }
}

/// Runs the program with these arguments to its end.
pub fn millstream(args: &[&str]) -> Run {
    run(&mut command(args))
}

/// Runs a command, which must be killed at one of its failpoints.
///
/// # Panics
/// If it ends in another way.
#[track_caller]
pub fn killed(command: &mut Command, failpoints: &str) {
    let killed = command.env("MILLSTREAM_FAILPOINTS", failpoints).output().expect("the program starts");
    assert_eq!(killed.status.signal(), Some(9), "{failpoints}: {}", String::from_utf8_lossy(&killed.stderr));
}

/// Fails if a child has ended, with its status, and with what it said if its stderr is piped.
///
/// # Panics
/// If it has ended.
#[track_caller]
pub fn assert_runs(child: &mut Child) {
    if let Some(status) = child.try_wait().expect("a child has a status") {
        let mut said = String::new();
        if let Some(stderr) = &mut child.stderr {
            stderr.read_to_string(&mut said).expect("stderr is UTF-8");
        }
        panic!("the command has ended, {status}: {said}");
    }
}

/// Waits until a child is held at a failpoint, which makes this file.
///
/// # Panics
/// If the child ends, or is not held in two minutes.
#[track_caller]
pub fn until_held(child: &mut Child, file: &Path) -> impl Future<Output = ()> {
    until("a command is held at its failpoint", async move || {
        assert_runs(child);
        file.exists()
    })
}

/// Sends a signal, such as `INT`, to a process.
///
/// # Panics
/// If there is no such process.
#[track_caller]
pub fn send(signal: &str, pid: impl fmt::Display) {
    // The program `kill` is of a package that may be missing; every shell has its own.
    let kill = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", signal, &pid.to_string()]).status();
    assert!(kill.expect("a shell starts").success(), "there is no process {pid}");
}
