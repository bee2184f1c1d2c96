//! What a failure means for the program.

/// What a failure means for the program that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Nobody answers: refused, no route, unknown host, timeout while connecting.
    Unreachable,
    /// The connection was lost, or the server is starting or stopping.
    Transient,
    /// Chosen as the victim of a deadlock.
    Deadlock,
    /// Could not be serialized against a concurrent transaction.
    Serialization,
    /// A lock or object was in use for too long.
    Busy,
    /// No connection slot is free.
    TooManyConnections,
    /// The server had no memory for it.
    OutOfMemory,
    /// The server takes no writes: a standby, or a failover under way.
    ReadOnly,
    /// Cancelled: statement timeout, or somebody's request.
    Cancelled,
    /// The data was refused: a value, a constraint, a trigger.
    DataRefused,
    /// A right is missing.
    Rights,
    /// A database, schema, table or column does not exist.
    NotFound,
    /// An object of that name already exists.
    Exists,
    /// The server's disk, or its temporary file limit, is full.
    DiskFull,
    /// Another run owns the load.
    Fenced,
    /// User, password or `pg_hba.conf`.
    Auth,
    /// No TLS, or a certificate that fails its check.
    Tls,
    /// A setting, the database's encoding, the server's version, or a pooler in between.
    Config,
    /// The server reports damage or an input/output error of its own.
    ServerFault,
    /// A bug of ours.
    Bug,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::ErrorKind;

    /// Every kind, in the order above.
    pub(crate) const ERROR_KINDS: &[ErrorKind] = &[
        ErrorKind::Unreachable,
        ErrorKind::Transient,
        ErrorKind::Deadlock,
        ErrorKind::Serialization,
        ErrorKind::Busy,
        ErrorKind::TooManyConnections,
        ErrorKind::OutOfMemory,
        ErrorKind::ReadOnly,
        ErrorKind::Cancelled,
        ErrorKind::DataRefused,
        ErrorKind::Rights,
        ErrorKind::NotFound,
        ErrorKind::Exists,
        ErrorKind::DiskFull,
        ErrorKind::Fenced,
        ErrorKind::Auth,
        ErrorKind::Tls,
        ErrorKind::Config,
        ErrorKind::ServerFault,
        ErrorKind::Bug,
    ];
}
