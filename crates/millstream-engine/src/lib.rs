//! Documents in, committed rows and a receipt out.
//!
//! [`load`] is the way in for files, [`Stream`] for documents that a program hands over. The stages are
//! the folders: [`source`] reads and frames, [`decode`] judges and finds the key, `batch` splits by slot,
//! folds and sorts, `merge` says what a new document does to a stored one, `write` commits. [`store`]
//! holds our own tables.

mod batch;
pub mod chunk;
mod collection;
mod compaction;
pub mod decode;
mod diagnosis;
mod distinct;
mod durability;
mod engine;
mod error;
mod failpoint;
mod feed;
mod flow;
mod layout;
pub mod limits;
mod merge;
mod observe;
mod publish;
mod rehearsal;
mod request;
mod run;
pub mod source;
mod stop;
pub mod store;
mod stream;
mod verify;
mod write;

pub use collection::{Check, Collection, FILLFACTOR, Plan, definition};
pub use compaction::{Compacted, compact};
pub use distinct::{DistinctRequest, distinct};
pub use durability::{DURABILITIES, Durability};
pub use error::Error;
#[cfg(feature = "failpoints")]
pub use failpoint::{COMPACTION_FAILPOINTS, FAILPOINTS, REFRESH_FAILPOINTS, SEGMENT_FAILPOINTS};
pub use flow::{Outcome, Surroundings, load};
pub use layout::{LAYOUTS, Layout};
pub use merge::{Effect, Folded, MODES, Member, Mode, ModeError, Tombstone, VersionType, adds_up};
pub use observe::{Event, Observer, Silent, Tally};
pub use publish::{
    Column, Definition, Estimate, ExplainedIndexes, Figures, PublishRequest, Published, RefreshRequest, Refreshed,
    THE_KEY, Uncast, abandon, become_runner, estimate, explain_index, figures, publish, refresh, unpublish,
};
pub use rehearsal::{DryReject, DryRun, dry_run};
pub use request::{LoadRequest, SkipUnchanged};
pub use stop::{Stop, StopReason};
pub use stream::{Commit, Committed, Producer, Stream};
pub use verify::{Difference, Finding, Verification, VerifyRequest, verify};
pub use write::writers;
