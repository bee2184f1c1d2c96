//! The process that sends packets in a network of its own.

use millstream_host::{Command, Ended, Sandbox};
use millstream_model::Refusal;
use serde::de::DeserializeOwned;
use std::path::PathBuf;

/// How that process is started. It prints what became of the packets as JSON, on a line of its own.
#[derive(Debug, Clone)]
pub struct Prober {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Prober {
    /// Starts it in a network. What it is to send is its input, or one more argument: `add` says so.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        sandbox: &Sandbox,
        network: usize,
        add: impl FnOnce(&mut Command),
    ) -> Result<T, Refusal> {
        let mut command = sandbox.command(network, &self.program);
        add(command.args(&self.args));
        let ended = command.run_blocking().and_then(Ended::succeeded)?;
        let printed = ended.stdout.lines().rfind(|line| line.starts_with('{')).unwrap_or_default();
        serde_json::from_str(printed)
            .map_err(|error| Refusal::new(format!("what sent the packets printed no result: {error}")))
    }
}
