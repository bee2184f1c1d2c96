//! What can go wrong with a topic: every error, with its kind and what to do next.

use crate::client::ClientError;
use millstream_model::Refusal;
use millstream_pg::{ErrorKind, Explained};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database, or a load.
    #[error(transparent)]
    Engine(#[from] millstream_engine::Error),
    /// Something that was asked for and is not done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The client cannot continue.
    #[error("Kafka: {message}")]
    Client {
        /// What the client says.
        message: String,
    },
    /// Records have come, and cannot be decoded.
    #[error("Kafka: records cannot be decoded: {message}")]
    Undecodable {
        /// What the client says.
        message: String,
    },
    /// Records were removed from the topic before they were loaded.
    #[error(
        "partition {partition} of {topic} begins at offset {first} now, and is loaded up to {next}: up to {} records were \
         removed before they were loaded", first - next
    )]
    Gap {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset of the next record to load.
        next: u64,
        /// The first offset that is left.
        first: u64,
    },
    /// The topic does not hold what was loaded from it.
    #[error(
        "partition {partition} of {topic} is not the one that load {load_id} has read up to offset {next}: {reason}"
    )]
    Replaced {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The load of the partition.
        load_id: i64,
        /// The offset of the next record to load.
        next: u64,
        /// How we know.
        reason: &'static str,
    },
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Undecodable(message) => Self::Undecodable { message },
            error => Self::Client { message: error.to_string() },
        }
    }
}

impl Error {
    /// Something that was asked for and is not done, and what to do instead.
    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(problem).hint(hint))
    }
}

impl Explained for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::Client { .. } => ErrorKind::Unreachable,
            Self::Refused(_) | Self::Undecodable { .. } | Self::Gap { .. } | Self::Replaced { .. } => ErrorKind::Config,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(error) => error.hint(),
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Client { .. } => {
                Some(
                    "check the brokers, whether the addresses that they give out (advertised.listeners) can be reached from \
                     here, the topic's name and --properties; then the same command resumes"
                        .into(),
                )
            }
            Self::Undecodable { .. } => Some(
                "to go on without them, remove them from the topic (kafka-delete-records); --allow-gap then continues behind \
                 them"
                    .into(),
            ),
            Self::Gap { .. } => Some(
                "keep records for longer (retention.ms, retention.bytes); --allow-gap continues at the first that is left"
                    .into(),
            ),
            Self::Replaced { load_id, .. } => Some(format!(
                "if the topic was made again, --source-name NAME loads it beside the old one, and --resume off loads it \
                 again from its start; `millstream loads forget {load_id}` forgets the old load of this partition"
            )),
        }
    }

    fn load_id(&self) -> Option<i64> {
        match self {
            Self::Engine(error) => error.load_id(),
            Self::Replaced { load_id, .. } => Some(*load_id),
            _ => None,
        }
    }
}
