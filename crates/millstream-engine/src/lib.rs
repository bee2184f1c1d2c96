//! Documents in, committed rows and a receipt out.
//!
//! [`load`] is for files, [`Stream`] for documents that a program sends, [`Service`] for several streams that are resumed.
//! `millstream-document` turns bytes into rows with keys. The folders here are the stages that follow: `batch` splits by
//! slot, folds and sorts, `merge` says what a new document does to a stored one, `write` commits. `flow` is the way
//! through them. Our own tables are in `millstream-store`.

mod batch;
mod budget;
mod collection;
mod compaction;
mod control;
mod diagnosis;
mod distributed;
mod drain;
mod durability;
mod engine;
mod error;
mod feed;
mod feeding;
mod flow;
mod layout;
mod lifecycle;
pub mod limits;
mod merge;
mod missing;
mod observe;
mod outcome;
mod pass;
mod placed;
mod plan;
mod rehearsal;
mod reject_limits;
mod request;
mod rerun;
mod run;
mod service;
mod skip;
mod stop;
mod stream;
mod turns;
mod unfit;
mod verify;
mod watched;
mod wire;
mod write;

pub use collection::{COLD_FILLFACTOR, COMPRESSION, FILLFACTOR, definition};
pub use compaction::{Compacted, compact, refresh_session};
pub use durability::{DURABILITIES, Durability};
pub use error::{EmptiedBy, Error};
pub use layout::{LAYOUTS, Layout};
pub use merge::{Effect, Folded, MODES, Member, Mode, ModeError, Tombstone};
pub use millstream_store::Holder;
pub use observe::{Event, Observer, Silent, Tally};
pub use outcome::{Outcome, Surroundings};
pub use placed::Placed;
pub use rehearsal::{DryReject, DryRun, dry_run};
pub use request::{AskedColumns, DeleteMissing, LoadRequest, SkipUnchanged};
pub use rerun::load;
pub use run::Watermark;
pub use service::Service;
pub use skip::{file_name, skip_loaded};
pub use stop::{Stop, StopReason};
pub use stream::{Commit, Committed, Producer, Stream};
pub use verify::{Difference, Finding, Verification, VerifyRequest, verify};
pub use write::writers;
