//! What can go wrong with our tables in a database: every error, with its kind and what to do next.

use millstream_model::{CollectionName, Refusal, shell_word};
use millstream_pg::{ErrorKind, Explained};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server, or the connection to it.
    #[error(transparent)]
    Postgres(#[from] millstream_pg::Error),
    /// A request that contradicts itself, a limit or what is recorded.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The table does not fit this load.
    #[error("{collection} cannot be loaded into: {problem}")]
    Collection {
        /// The collection.
        collection: CollectionName,
        /// What does not fit.
        problem: String,
        /// What to do next.
        hint: String,
    },
    /// A read model that does not exist, or cannot be used as asked.
    #[error("{model} {problem}")]
    Model {
        /// Its name.
        model: CollectionName,
        /// What is wrong with it, as the end of a sentence.
        problem: String,
        /// What to do next.
        hint: String,
    },
    /// A collection is frozen while a load into it begins.
    #[error("{collection} is being frozen, or was just frozen")]
    Frozen {
        /// The collection.
        collection: String,
    },
    /// A collection's newest documents wait in segments.
    #[error("documents of {collection} wait in {segments} segments to be merged into its table")]
    Appended {
        /// The collection.
        collection: String,
        /// How many.
        segments: usize,
    },
    /// Segments of a collection are being merged elsewhere.
    #[error("{collection} is being compacted by another process")]
    CompactionBusy {
        /// The collection.
        collection: CollectionName,
    },
    /// Our tables have a version that this program does not know.
    #[error("schema \"{schema}\" holds version {found} of our tables; this program knows {known}")]
    SchemaVersion {
        /// The schema.
        schema: String,
        /// The version found.
        found: i32,
        /// The version known.
        known: i32,
    },
    /// Our tables came with a restore or a copy of the database.
    #[error(
        "the tables of schema \"{schema}\" were restored or copied, and are not bound to the tables of this database"
    )]
    Unbound {
        /// The schema.
        schema: String,
    },
    /// Somebody could use our schema to run code with the rights of this session.
    #[error("schema \"{schema}\" is not safe to use: {problem}")]
    Untrusted {
        /// The schema.
        schema: String,
        /// What belongs to whom, or what is not as we make it.
        problem: String,
        /// The role to which it belongs, if that is the problem.
        owner: Option<String>,
        /// This session's role.
        role: String,
    },
    /// Somebody whom this session does not trust may write our tables.
    #[error("role {} may write in the schema \"{schema}\", and so decide what {role} does there", writers.join(", "))]
    Writers {
        /// The schema.
        schema: String,
        /// The roles.
        writers: Vec<String>,
        /// This session's role.
        role: String,
    },
    /// The same load runs elsewhere.
    #[error("load {load_id} is running in another process{}", backend.map_or_else(String::new, server_process))]
    LoadRunning {
        /// The load's number.
        load_id: i64,
        /// The server process that works for it, if known.
        backend: Option<i32>,
    },
    /// An earlier load has already added up some of these sources, in another way.
    #[error("load {load_id} has already added {problem}")]
    AddedUp {
        /// The earlier load's number.
        load_id: i64,
        /// What it has added up, and how that differs.
        problem: String,
    },
    /// This run no longer owns its load. Another run took it over, its record was deleted, or it was closed because
    /// something that takes effect after it was written.
    #[error(
        "this run no longer owns load {load_id}: another run took it over, its record was deleted, or it lost its \
         connection for so long that later work went ahead"
    )]
    Fenced {
        /// The load's number.
        load_id: i64,
    },
    /// Our own tables hold a value that they never should.
    #[error("the load's record in the database is damaged: {0}")]
    Ledger(&'static str),
    /// A failpoint that a test has armed.
    #[error(transparent)]
    Failpoint(#[from] millstream_failpoint::Failed),
}

impl Error {
    /// A request that is not done: why, and what to do instead.
    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(problem).hint(hint))
    }
}

impl Explained for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Postgres(error) => error.kind(),
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::LoadRunning { .. } | Self::CompactionBusy { .. } => ErrorKind::Busy,
            Self::Ledger(_) => ErrorKind::Bug,
            Self::Failpoint(_) => ErrorKind::Transient,
            _ => ErrorKind::Config,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Postgres(error) => error.hint(),
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Collection { hint, .. } | Self::Model { hint, .. } => Some(hint.clone()),
            Self::Appended { collection, .. } => {
                let compact = format!("millstream compact {}", shell_word(collection));
                Some(format!("merge them: {compact}; or append to them: --layout log"))
            }
            Self::CompactionBusy { .. } => Some("wait for it, and run the same command again".into()),
            Self::Frozen { .. } => {
                Some("load again when that is done; if it was made logged: without --durability unlogged".to_owned())
            }
            Self::SchemaVersion { found, known, .. } if found > known => {
                Some("use a newer millstream, or another schema with --schema".to_owned())
            }
            Self::SchemaVersion { .. } => Some("the next `millstream load` brings them up to date".to_owned()),
            Self::Unbound { .. } => {
                Some("bind them by name, as a role that may write them: millstream collections".to_owned())
            }
            Self::Untrusted { owner: Some(owner), problem, .. } if problem.starts_with("its segments ") => {
                Some(format!(
                    "connect as {owner}; or, if you trust {owner} with your rights: --trust-owner {}",
                    shell_word(owner)
                ))
            }
            Self::Untrusted { owner: Some(owner), problem, .. } if !problem.starts_with("it ") => Some(format!(
                "a superuser can drop it; or, if you trust {owner} with your rights: --trust-owner {}",
                shell_word(owner)
            )),
            Self::Untrusted { owner: Some(owner), role, .. } => Some(format!(
                "{owner} could run code with the rights of {role}; connect as {owner}, or, if you trust {owner} with \
                 these rights: --trust-owner {}",
                shell_word(owner)
            )),
            Self::Untrusted { owner: None, .. } => {
                Some("a superuser can drop that; or use another schema with --schema".to_owned())
            }
            Self::Writers { writers, .. } => {
                let trusted = writers.iter().map(|role| format!("--trust-owner {}", shell_word(role)));
                Some(format!(
                    "connect as the role that loads or publishes; or, if you trust them with your rights: {}",
                    trusted.collect::<Vec<_>>().join(" ")
                ))
            }
            Self::LoadRunning { load_id, .. } => {
                Some(format!("wait for it, or see `millstream loads` for load {load_id}"))
            }
            Self::AddedUp { .. } => Some(
                "load only the new documents, from a source with another name; --resume off adds all of these sources, \
                 also what was added before"
                    .to_owned(),
            ),
            Self::Fenced { .. } => Some(
                "only one run of a load can commit; if no other run is active, run the same command again: it resumes \
                 where this one stopped"
                    .into(),
            ),
            Self::Ledger(_) | Self::Failpoint(_) => None,
        }
    }

    fn load_id(&self) -> Option<i64> {
        match self {
            Self::LoadRunning { load_id, .. } | Self::AddedUp { load_id, .. } | Self::Fenced { load_id } => {
                Some(*load_id)
            }
            _ => None,
        }
    }
}

fn server_process(pid: i32) -> String {
    format!(" (process {pid} of the server works for it)")
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_a_hint_has_the_name_of_a_collection_as_one_word() {
        let hint =
            |collection: &str| Error::Appended { collection: collection.to_owned(), segments: 1 }.hint().unwrap();
        assert!(hint("shop.events").starts_with("merge them: millstream compact shop.events; or "));
        assert!(hint("x;touch pwned").starts_with("merge them: millstream compact 'x;touch pwned'; or "));
        for problem in ["its segments 1 belong to", "the table load belongs to", "it belongs to"] {
            let (schema, problem, owner) = ("s".to_owned(), problem.to_owned(), Some("x;touch pwned".to_owned()));
            let hint = Error::Untrusted { schema, problem, owner, role: "r".to_owned() }.hint().unwrap();
            assert!(hint.ends_with(": --trust-owner 'x;touch pwned'"), "{hint}");
        }
    }
}
