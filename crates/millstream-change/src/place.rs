//! Where the targets of changes are.

use millstream_model::Refusal;
use millstream_pg::ConnInfo;
use std::path::{Path, PathBuf};

/// Where the targets of changes are.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The server that the user named. Changes of this machine need none.
    pub server: Option<ConnInfo>,
    /// Where the machine's `/` is, if it is a directory of a test.
    pub root: Option<PathBuf>,
    /// The directory in which the lab keeps the data of its servers. Only experiments need it.
    pub lab: Option<PathBuf>,
}

impl Place {
    /// The server that the user named.
    ///
    /// # Errors
    /// There is none.
    pub fn server(&self) -> Result<&ConnInfo, Refusal> {
        self.server.as_ref().ok_or_else(|| Refusal::new("the change is one of a server, and no server was named"))
    }

    /// A path of the machine, such as `/etc/hosts`.
    pub fn path(&self, path: &Path) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }
}
