//! Errors of the local server, each with a hint what to do.

use crate::limits::{LOCK_SECONDS_MAX, MAJOR_DOWNLOADED, MAJOR_MIN, START_SECONDS_MAX, STOP_SECONDS_MAX};
use millstream_host::NotOurs;
use millstream_pg::Explained;
use std::io;
use std::path::{Path, PathBuf};

/// Why the local server cannot do what was asked. [`Error::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory given for PostgreSQL's programs cannot be used.
    #[error("no usable PostgreSQL programs in {}: {why}", dir.display())]
    Binaries {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// PostgreSQL is not installed, and no source delivered a build.
    #[error("PostgreSQL could not be downloaded ({})", failures.join("; "))]
    Download {
        /// One `source: why` for each source tried.
        failures: Vec<String>,
    },
    /// Another major version made the data directory.
    #[error(
        "the data in {} belongs to PostgreSQL {data_major}, but {found}",
        data.display()
    )]
    OtherVersion {
        /// The data directory.
        data: PathBuf,
        /// The version that made it, as its `PG_VERSION` says.
        data_major: String,
        /// What was found instead.
        found: String,
    },
    /// In the place of the data directory is something else.
    #[error("{} exists but is not a PostgreSQL data directory", data.display())]
    NotData {
        /// The data directory.
        data: PathBuf,
    },
    /// Somebody else than we and root may change the home, so what is in it is not believed.
    #[error(transparent)]
    NotOurs(NotOurs),
    /// The programs of the running server are not known, or not to be run by us.
    #[error("the programs of the running server cannot be used: {why}")]
    Programs {
        /// What is wrong with them.
        why: String,
    },
    /// The operating system does not let us read or write.
    #[error("no right to read or write {}", path.display())]
    NoRights {
        /// What was to be read or written.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The disk is full, or too full to begin.
    #[error("the disk that holds {} has too little room{}", path.display(), free_text(*free_bytes))]
    DiskFull {
        /// A path on that disk.
        path: PathBuf,
        /// Free bytes, where known.
        free_bytes: Option<u64>,
    },
    /// The account that runs the server cannot enter a directory.
    #[error("the account {account} that runs the server cannot reach {}", path.display())]
    Unreachable {
        /// The directory.
        path: PathBuf,
        /// The account.
        account: String,
    },
    /// We are root, and there is no account to run the server.
    #[error("PostgreSQL does not run as root, and no account could be found or created: {why}")]
    Account {
        /// What was tried.
        why: String,
    },
    /// Another process has held the lock on the server's home for too long.
    #[error("another millstream has been starting or stopping the server in {} for {LOCK_SECONDS_MAX} s", home.display())]
    Locked {
        /// The server's home.
        home: PathBuf,
    },
    /// `initdb` failed.
    #[error("a new database cluster could not be made in {}:\n{output}", home.display())]
    Init {
        /// The server's home.
        home: PathBuf,
        /// What the program printed.
        output: String,
    },
    /// The server did not start.
    #[error("the server in {} did not start; the end of its log {}:\n{tail}", data.display(), log.display())]
    Start {
        /// The data directory.
        data: PathBuf,
        /// The server's log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// The server is starting and not ready yet.
    #[error("the server in {} is not ready after {START_SECONDS_MAX} s and still starting; the end of its log {}:\n{tail}", data.display(), log.display())]
    Slow {
        /// The data directory.
        data: PathBuf,
        /// The server's log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// The server did not stop.
    #[error("the server in {} did not stop within {STOP_SECONDS_MAX} s", data.display())]
    Stop {
        /// The data directory.
        data: PathBuf,
    },
    /// Processes of a crashed server are still there.
    #[error("processes of a crashed server still use {}: {pids:?}", data.display())]
    Orphans {
        /// The data directory.
        data: PathBuf,
        /// The processes.
        pids: Vec<u32>,
    },
    /// Nothing is running.
    #[error("the local server in {} is not running", home.display())]
    NotRunning {
        /// The server's home.
        home: PathBuf,
    },
    /// The file with the generated password is gone or unreadable.
    #[error("the server's password cannot be read from {}: {source}", path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no `psql` on this machine.
    #[error("there is no psql on this machine")]
    NoPsql,
    /// Neither `HOME` nor `XDG_DATA_HOME` says where a user's data belongs.
    #[error("no place for the server's data: neither HOME nor XDG_DATA_HOME is set")]
    NoHome,
    /// Anything else the operating system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried, a verb.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

fn free_text(free_bytes: Option<u64>) -> String {
    free_bytes.map_or_else(String::new, |bytes| format!(" ({} MB free)", bytes >> 20))
}

impl Error {
    /// Converts an error of the operating system. Missing rights and full disks get variants of their own.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::NoRights { path, source },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path, free_bytes: None },
            _ => Self::Io { what, path, source },
        }
    }
}

impl From<NotOurs> for Error {
    fn from(why: NotOurs) -> Self {
        match why {
            NotOurs::File { what, path, source } => Self::io(what, &path)(source),
            why => Self::NotOurs(why),
        }
    }
}

impl Explained for Error {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Binaries { .. } => format!(
                "--postgres-bin takes the directory that holds postgres, initdb and pg_ctl of PostgreSQL {MAJOR_MIN} \
                 or later, or the word download"
            ),
            Self::Download { .. } => format!(
                "install PostgreSQL {MAJOR_MIN} or later (Debian, Ubuntu: apt-get install postgresql), or name its \
                 programs with --postgres-bin DIR, or use another server with --db URL; behind a proxy set HTTPS_PROXY"
            ),
            Self::OtherVersion { data_major, .. } => format!(
                "run with --postgres-bin DIR of a PostgreSQL {data_major}, or begin a new server beside it with \
                 MILLSTREAM_HOME=DIR; to move the data use pg_upgrade or pg_dump. Nothing was changed"
            ),
            Self::NotData { .. } => "move it away, or choose another place with MILLSTREAM_HOME=DIR".to_owned(),
            Self::NotOurs(why) => {
                let first = why.hint().map_or_else(String::new, |hint| format!("{hint}; or "));
                format!("{first}set MILLSTREAM_HOME to a directory that only you may change")
            }
            Self::Programs { .. } => {
                "run millstream db stop, and then millstream db start with programs that only you and root may change"
                    .to_owned()
            }
            Self::NoRights { .. } => "choose a place you may write with MILLSTREAM_HOME=DIR".to_owned(),
            Self::DiskFull { .. } => {
                "free some space, or choose a place on another disk with MILLSTREAM_HOME=DIR".to_owned()
            }
            Self::Unreachable { account, .. } => format!(
                "let the account {account} enter every directory on the way, or choose another \
                 place; as root the default is {}",
                crate::limits::ROOT_HOME
            ),
            Self::Account { .. } => {
                "create one with: useradd --system millstream; or run as a normal user; or use another server with \
                 --db URL"
                    .to_owned()
            }
            Self::Locked { .. } => "wait for it, or end that process".to_owned(),
            Self::Init { .. } | Self::Start { .. } => format!(
                "the log says why; another PostgreSQL can be tried in a fresh place with --postgres-bin DIR (or \
                 download, version {MAJOR_DOWNLOADED}) and MILLSTREAM_HOME=DIR"
            ),
            Self::Slow { .. } => {
                "after a crash the server replays its log first; run the command again in a while".to_owned()
            }
            Self::Stop { .. } => "sessions may be finishing a large transaction; run the command again".to_owned(),
            Self::Orphans { pids, .. } => {
                format!("end them with: kill -9 {}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
            }
            Self::NotRunning { .. } => "start it with: millstream db start".to_owned(),
            Self::Password { .. } => "put the file back, or set a new password over the unix \
                                      socket (psql, \\password) and write it there, mode 0600"
                .to_owned(),
            Self::NoPsql => {
                "install it (Debian, Ubuntu: apt-get install postgresql-client), or use any other client with what \
                 millstream db url prints"
                    .to_owned()
            }
            Self::NoHome => "set MILLSTREAM_HOME to a directory for it".to_owned(),
            Self::Io { .. } => return None,
        };
        Some(text)
    }
}
