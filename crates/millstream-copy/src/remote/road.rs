//! The way between two machines: processes of rsync.

use super::folders::Unmade;
use super::job::RemoteJob;
use super::there::There;
use super::{bucket, folders, verification};
use crate::counts::Counts;
use crate::error::Error;
use crate::receipt::Verification;
use crate::road::{Carried, Road};
use crate::task::Task;
use crate::tree::Tree;
use crate::walk::Listed;
use crate::workers::Gate;
use millstream_failpoint::hit_on_thread;
use std::sync::Arc;

/// Processes of rsync that copy to another machine or from there.
pub(crate) struct ByRsync<'a> {
    job: RemoteJob<'a>,
    /// Folders that could not be made.
    unmade: Unmade,
}

impl<'a> ByRsync<'a> {
    pub(crate) fn new(task: &'a Task<'a>, listed: &'a Listed, there: &'a There, here: Arc<Tree>) -> Self {
        Self { job: RemoteJob { task, there, here, listed }, unmade: Unmade::default() }
    }
}

impl Road for ByRsync<'_> {
    fn carry(&mut self, gate: &Gate, root_was_missing: bool) -> Result<Carried, Error> {
        let job = &self.job;
        if job.arrives_here() {
            folders::check_list(job)?;
        }
        let root_was_missing = folders::make_temporary(job)? || root_was_missing;
        let (made, unmade, root_was_missing) = folders::make(job, root_was_missing)?;
        hit_on_thread("folders-made");
        let (counts, found) = bucket::run(job, &unmade, gate)?;
        hit_on_thread("buckets-copied");
        folders::remove_temporary(job)?;
        self.unmade = unmade;
        Ok(Carried { counts: counts.plus(made), found, root_was_missing })
    }

    fn dress(&mut self, mut counts: Counts) -> Result<Counts, Error> {
        if !self.job.task.tally.is_stopped() {
            counts.fail(folders::dress(&self.job, &self.unmade)?);
        }
        Ok(counts)
    }

    /// What is there is compared with what is here: nobody knows otherwise what has arrived.
    fn compare(&self, gate: &Gate) -> Result<Option<Verification>, Error> {
        verification::compare(&self.job, gate).map(Some)
    }
}
