//! A load as a process that is killed and run again. If it reads a stream, the test decides how fast.

use crate::process::command;
use millstream_testkit::until;
use std::io::Write;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Time after which the feeding thread checks again for more to send.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One command and its run.
pub struct Client {
    args: Vec<String>,
    child: Option<Child>,
    input: Option<Arc<Input>>,
}

/// What comes on standard input, from its beginning in every run.
struct Input {
    text: Vec<u8>,
    /// How much of it may be sent.
    open: AtomicUsize,
}

impl Client {
    /// A load in small batches with these sources and options, and with this standard input.
    pub fn new(table: &str, url: &str, more: &[&str], input: Option<Vec<u8>>) -> Self {
        let args =
            ["load", "--into", table, "--key", "id:bigint", "--db", url, "--batch-rows", "300", "--format", "ndjson"];
        let quiet = ["--max-rejects", "1000000", "--output", "json", "--progress", "none"];
        let args = [&args[..], &quiet, more].concat().into_iter().map(str::to_owned).collect();
        let input = input.map(|text| Arc::new(Input { text, open: AtomicUsize::new(0) }));
        Self { args, child: None, input }
    }

    /// Starts a run of the command. Only the number of lanes differs from run to run.
    pub fn start(&mut self, lanes: u16, failpoints: &str) {
        let lanes = lanes.to_string();
        let mut args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        args.extend(["--lanes", &lanes]);
        let stdin = if self.input.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut command = command(&args);
        command.env("MILLSTREAM_FAILPOINTS", failpoints).stdin(stdin);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Some((pipe, input)) = child.stdin.take().zip(self.input.clone()) {
            std::thread::spawn(move || input.send(pipe));
        }
        self.child = Some(child);
    }

    /// Allows the stream to be read up to this point.
    pub fn feed(&self, to: usize) {
        self.input.as_ref().expect("it reads a stream").open.store(to, Ordering::Release);
    }

    /// Whether a run is active. Panics if a run failed.
    pub fn runs(&mut self) -> bool {
        let Some(child) = &mut self.child else { return false };
        if child.try_wait().unwrap().is_none() {
            return true;
        }
        let output = self.child.take().expect("it ran").wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
        false
    }

    /// Kills the run, if there is one. The output shows whether it had ended before.
    pub async fn kill(&mut self) -> Option<Output> {
        self.child.as_mut()?.kill().unwrap();
        self.end().await
    }

    /// Waits for the end of the run, if there is one.
    pub async fn end(&mut self) -> Option<Output> {
        let mut child = self.child.take()?;
        until("the load ends", async || child.try_wait().unwrap().is_some()).await;
        Some(child.wait_with_output().unwrap())
    }
}

impl Drop for Client {
    /// Ends the run even if the test fails.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Input {
    fn send(&self, mut pipe: impl Write) {
        let mut sent = 0;
        while sent < self.text.len() {
            let open = self.open.load(Ordering::Acquire);
            // A killed reader does not read on.
            if pipe.write_all(&self.text[sent..open.max(sent)]).is_err() {
                return;
            }
            sent = open.max(sent);
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
