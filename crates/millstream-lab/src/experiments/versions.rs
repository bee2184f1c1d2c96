//! What commands say of their version. Several arms have the same command.

use super::command::{self, Ground, short};
use std::collections::BTreeMap;

/// The answers so far, by what was asked.
#[derive(Debug, Default)]
pub(super) struct Versions(BTreeMap<String, String>);

impl Versions {
    /// The first line that a shell command prints.
    pub(super) async fn of(&mut self, ask: &str) -> String {
        if let Some(known) = self.0.get(ask) {
            return known.clone();
        }
        let printed = command::shell(ask, Ground::Nothing).await.ok();
        let line = printed.and_then(|measured| measured.ended.stdout.lines().next().map(short));
        let line = line.unwrap_or_else(|| "unknown".to_owned());
        self.0.insert(ask.to_owned(), line.clone());
        line
    }
}
