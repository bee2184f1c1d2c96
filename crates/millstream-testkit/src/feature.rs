//! Features that some builds of PostgreSQL lack.

use millstream_host::Account;
use millstream_local::Installation;

/// Something that a test may need and a build may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Encrypted connections.
    Tls,
    /// lz4 for TOAST and WAL.
    Lz4,
    /// The `pgbench` program.
    Pgbench,
    /// The `psql` program.
    Psql,
    /// The `pg_dump` and `pg_restore` programs.
    Dump,
    /// The `pg_basebackup` program.
    BaseBackup,
}

impl Feature {
    /// Whether a build has it.
    pub(crate) fn is_in(self, installation: &Installation, account: &Account) -> bool {
        match self {
            Self::Tls => installation.accepts(account, "ssl", "on"),
            Self::Lz4 => installation.accepts(account, "default_toast_compression", "lz4"),
            Self::Pgbench => installation.program("pgbench").is_file(),
            Self::Psql => installation.program("psql").is_file(),
            Self::Dump => ["pg_dump", "pg_restore"].iter().all(|name| installation.program(name).is_file()),
            Self::BaseBackup => installation.program("pg_basebackup").is_file(),
        }
    }
}
