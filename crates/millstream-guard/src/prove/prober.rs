//! The process that sends the packets of a proof, in the network of the host.

use super::network::HOST;
use super::probe::{Passed, Task};
use millstream_host::Sandbox;
use millstream_model::Refusal;
use std::path::PathBuf;

/// How that process is started. It reads a [`Task`], does it by [`super::send`], and prints what [`Passed`] as JSON, on a line of
/// its own.
#[derive(Debug, Clone)]
pub struct Prober {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Prober {
    /// Lets it do a task.
    pub(super) fn passed(&self, sandbox: &Sandbox, task: &Task) -> Result<Passed, Refusal> {
        let input = serde_json::to_string(task).map_err(|error| Refusal::new(error.to_string()))?;
        let ended = sandbox.feed(HOST, &self.program, &self.args, input)?;
        let printed = ended.stdout.lines().rfind(|line| line.starts_with('{')).unwrap_or_default();
        serde_json::from_str(printed)
            .map_err(|error| Refusal::new(format!("what sent the packets printed no result: {error}")))
    }
}
