//! A command line, and the ways to run it.

use crate::child::Child;
use crate::error::Error;
use crate::limits::OUTPUT_BYTES_MAX;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// A program with its arguments, its environment and its input. Without an input it reads an empty one.
pub struct Command {
    pub(crate) inner: tokio::process::Command,
    input: Vec<u8>,
    /// Most bytes that it may write to each of its outputs.
    output_max: u64,
}

/// The file of a program by its name in `PATH`.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The program.
    pub program: PathBuf,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Command {
    /// A program by its path, or by its name in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { inner: tokio::process::Command::new(program), input: Vec::new(), output_max: OUTPUT_BYTES_MAX }
    }

    /// Adds an argument. Other users of the machine can read it.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.inner.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        self.inner.args(args);
        self
    }

    /// Sets a variable.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.inner.env(name, value);
        self
    }

    /// Removes a variable.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.inner.env_remove(name);
        self
    }

    /// Sets what the program reads from stdin. [`Command::run`], [`Command::run_blocking`] and [`Command::leave`] send it.
    pub fn input(&mut self, input: impl Into<Vec<u8>>) -> &mut Self {
        self.input = input.into();
        self
    }

    /// Sets how many bytes the program may write to stdout and to stderr, each. [`Command::run`] and
    /// [`Command::run_blocking`] keep what it writes in memory, and end a program that writes more.
    pub fn output_max(&mut self, bytes: u64) -> &mut Self {
        self.output_max = bytes;
        self
    }

    /// The program.
    pub fn program(&self) -> &Path {
        Path::new(self.inner.as_std().get_program())
    }

    /// Runs the program to its end. Without a time limit, so only for programs that end at once.
    ///
    /// # Errors
    /// It cannot be started, or writes too much. Its exit code is not an error: see [`Ended::succeeded`].
    pub fn run_blocking(&mut self) -> Result<Ended, Error> {
        self.capture();
        let (command, input, most) = (self.inner.as_std_mut(), &self.input, self.output_max);
        let output = command.spawn().and_then(|mut child| {
            let (pipe, out, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let (stdout, stderr) = std::thread::scope(|scope| {
                // A program that ends before it has read everything says why in its output.
                pipe.map(|mut pipe| scope.spawn(move || pipe.write_all(input)));
                let errors = scope.spawn(move || kept_blocking(errors, most));
                let stdout = kept_blocking(out, most);
                if stdout.is_err() {
                    // Nobody reads it any more, and it may not mind.
                    let _ = child.kill();
                }
                let stderr = errors.join().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
                (stdout, stderr)
            });
            let status = child.wait()?;
            Ok(Output { status, stdout: stdout?, stderr: stderr? })
        });
        output.map(|output| Ended::of(self.program(), output)).map_err(Error::ended(self.program(), most))
    }

    /// Runs the program to its end, and until nobody has its output open. It is killed if it takes too long or writes too
    /// much, or if the future is dropped.
    ///
    /// # Errors
    /// It cannot be started, is late, or writes too much. Its exit code is not an error: see [`Ended::succeeded`].
    pub async fn run(&mut self, limit: Duration) -> Result<Ended, Error> {
        self.capture();
        let spawned = self.inner.kill_on_drop(true).spawn();
        let most = self.output_max;
        // What waits in it is large.
        let ending = Box::pin(async {
            let mut child = spawned?;
            let (pipe, out, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let send = async {
                if let Some(mut pipe) = pipe {
                    // A program that ends before it has read everything says why in its output.
                    let _ = pipe.write_all(&self.input).await;
                }
                io::Result::Ok(())
            };
            let ((), stdout, stderr, status) =
                tokio::try_join!(send, kept(out, most), kept(errors, most), child.wait())?;
            io::Result::Ok(Output { status, stdout, stderr })
        });
        let program = self.program();
        let output = tokio::time::timeout(limit, ending).await;
        let output = output.map_err(|_| Error::Late { program: program.to_owned(), limit })?;
        output.map(|output| Ended::of(program, output)).map_err(Error::ended(program, most))
    }

    /// Starts the program in the background, in a process group of its own: an interrupt from the terminal does not
    /// reach it. Its input stays open until [`Child::finish`]; its output is dropped.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self) -> Result<Child, Error> {
        self.inner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.spawn_apart()
    }

    /// Starts the program in the background and leaves it alone once it has printed something to stdout: it outlives this
    /// process. It should call [`crate::leave_terminal`] first.
    ///
    /// # Errors
    /// It cannot be started, or prints nothing in time: then it is killed.
    pub async fn leave(&mut self, limit: Duration) -> Result<(), Error> {
        self.capture();
        let mut child = self.inner.stderr(Stdio::null()).spawn().map_err(Error::run(self.program()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let Some(mut output) = output else { return Ok(()) };
        let getting_ready = async {
            if let Some(mut pipe) = input {
                // A program that ends before it has read everything does not get ready.
                let _ = pipe.write_all(&self.input).await;
            }
            output.read_exact(&mut [0]).await
        };
        let ready = tokio::time::timeout(limit, getting_ready).await;
        if matches!(ready, Ok(Ok(_))) {
            return Ok(());
        }
        let _ = child.start_kill();
        Err(Error::NotReady { program: self.program().to_owned() })
    }

    /// Replaces this process by the program. Returns only if that fails; SIGPIPE then ends this process.
    pub fn exec(&mut self) -> Error {
        let error = self.inner.as_std_mut().exec();
        Error::run(self.program())(error)
    }

    /// Starts the program in a process group of its own.
    pub(crate) fn spawn_apart(&mut self) -> Result<Child, Error> {
        let spawned = self.inner.as_std_mut().process_group(0).spawn();
        spawned.map(Child).map_err(Error::run(self.program()))
    }

    pub(crate) fn capture(&mut self) {
        let stdin = if self.input.is_empty() { Stdio::null() } else { Stdio::piped() };
        self.inner.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    }
}

/// What a program writes to a pipe, if it is not too much.
async fn kept(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most.saturating_add(1)).read_to_end(&mut kept).await?;
    }
    not_too_much(kept, most)
}

/// The same without a runtime.
fn kept_blocking(pipe: Option<impl Read>, most: u64) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most.saturating_add(1)).read_to_end(&mut kept)?;
    }
    not_too_much(kept, most)
}

fn not_too_much(kept: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    if kept.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(kept) }
}

impl std::fmt::Debug for Command {
    /// The program alone: arguments and variables may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Command({})", self.program().display())
    }
}

impl Ended {
    pub(crate) fn of(program: &Path, output: Output) -> Self {
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self { program: program.to_owned(), status: output.status, stdout, stderr }
    }

    /// Checks that the program ended with exit code 0.
    ///
    /// # Errors
    /// [`Error::Failed`] if it did not. What it printed is its stderr, or its stdout if that is empty.
    pub fn succeeded(self) -> Result<Self, Error> {
        if self.status.success() {
            return Ok(self);
        }
        let said = if self.stderr.trim().is_empty() { self.stdout } else { self.stderr };
        Err(Error::Failed { program: self.program, status: self.status, said: said.trim().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1_000);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn output_and_exit_code_are_captured() {
        let script = "cat; echo $A >&2; exit 3";
        // More than a pipe holds.
        let input = "x".repeat(1 << 20);
        let blocking = shell(script).env("A", "odd").input(input.clone()).run_blocking().unwrap();
        let awaited = shell(script).env("A", "odd").input(input.clone()).run(LIMIT).await.unwrap();
        for ended in [blocking, awaited] {
            assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(3), "odd\n"));
            assert!(ended.stdout == input);
            let error = ended.succeeded().unwrap_err();
            assert_eq!(error.to_string(), "/bin/sh failed (exit status: 3): odd");
        }
        let unread = shell("exec true").input(input).run(LIMIT).await.and_then(Ended::succeeded);
        assert_eq!(unread.unwrap().stdout, "");
    }

    #[tokio::test]
    async fn a_program_that_is_left_alone_must_get_ready() {
        let dir = tempfile::tempdir().unwrap();
        let [go, file] = ["go", "done"].map(|name| dir.path().join(name));
        let script = format!(
            "[ \"$(cat)\" = input ] || exit; echo ready; until [ -e {} ]; do sleep 0.01; done; echo > {}",
            go.display(),
            file.display()
        );
        shell(&script).input("input").leave(LIMIT).await.unwrap();
        std::fs::write(go, "").unwrap();
        let appeared = crate::wait_until(LIMIT, Duration::from_millis(10), || file.exists().then_some(()));
        appeared.await.unwrap();
        let error = shell("exit 1").leave(LIMIT).await.unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh ended before it was ready, or took too long");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed_when_its_time_is_over() {
        let hung = shell("echo here; exec sleep 60").run(Duration::from_millis(50)).await;
        assert_eq!(hung.unwrap_err().to_string(), "/bin/sh had not ended after 50ms and was killed");
    }

    #[tokio::test]
    async fn a_program_that_writes_too_much_is_ended() {
        for script in ["yes", "yes >&2", "trap '' PIPE; while :; do echo y; done 2> /dev/null"] {
            let mut command = shell(script);
            command.output_max(1_000);
            let says = "/bin/sh printed more than 1000 bytes and was ended";
            assert_eq!(command.run(LIMIT).await.unwrap_err().to_string(), says, "{script}");
            assert_eq!(command.run_blocking().unwrap_err().to_string(), says, "{script}");
        }
        let mut enough = shell("printf 12345; printf 1234 >&2");
        enough.output_max(5);
        let (awaited, blocking) = (enough.run(LIMIT).await.unwrap(), enough.run_blocking().unwrap());
        for ended in [awaited, blocking] {
            assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("12345", "1234"));
        }
    }

    #[tokio::test]
    async fn a_program_that_is_missing_is_named() {
        let says = "there is no program /nowhere/millstream";
        let mut command = Command::new("/nowhere/millstream");
        assert_eq!(command.run_blocking().unwrap_err().to_string(), says);
        assert_eq!(command.run(LIMIT).await.unwrap_err().to_string(), says);
        assert_eq!(command.measure(LIMIT).await.unwrap_err().to_string(), says);
        assert_eq!(command.start().unwrap_err().to_string(), says);
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut command = shell("echo $PGPASSWORD");
        assert_eq!(format!("{:?}", command.env("PGPASSWORD", "secret")), "Command(/bin/sh)");
    }
}
