//! The whole way of a change: it is recorded, somebody watches over it, it is applied, and it stays only if all works.

use crate::changes::Changes;
use crate::journal::{Entry, State};
use crate::kind::Answer;
use millstream_model::{Change, Refusal};
use std::time::Duration;

/// A change that a person has agreed to.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The change.
    pub change: Change,
    /// The whole value that it was made from, for a kind with a way back of another program.
    pub from: Option<String>,
    /// Why it is made, for example the key of a finding.
    pub reason: String,
    /// It is undone after this time unless it is confirmed. `None`: it stays until somebody undoes it.
    pub confirm_within: Option<Duration>,
}

/// How far a proposal is, for a person who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Somebody watches over it, and now it is applied.
    Applying,
    /// It does not work, and the old value is back.
    GivenBack,
}

impl Proposal {
    /// Makes the change, and returns what is recorded of it. `works` is asked when the new value is there.
    ///
    /// With a deadline, the order keeps the host reachable: the other program's way back, the record, the process that undoes
    /// the change in time, and only then the new value. `watch` starts that process, for the change of a number. A kill at any
    /// point leaves somebody who gives the old value back, or nothing to give back.
    ///
    /// # Errors
    /// It cannot be recorded, nobody would watch over it, the target does not take the value, or it does not work. The target
    /// has its old value then, unless the refusal says otherwise.
    pub async fn make<E: From<Refusal>>(
        &self,
        changes: &Changes<'_>,
        watch: impl AsyncFnOnce(u32) -> Result<(), E>,
        works: Answer<'_, ()>,
        say: &dyn Fn(Step),
    ) -> Result<Entry, E> {
        let Some(time) = self.confirm_within else {
            let number = changes.plan(&self.change, &self.reason, None).await?.number;
            say(Step::Applying);
            return Ok(applied(changes, number, works, say).await?);
        };
        let (way_back, place) = (changes.kind(&self.change.kind)?.way_back(), changes.place);
        if let Some(way_back) = way_back {
            let values = [self.from.as_deref(), self.change.value.as_deref()];
            way_back.checkpoint(place, values, time).await?;
        }
        let number = match self.watched(changes, watch, time).await {
            Ok(number) => number,
            Err(failure) => {
                if let Some(way_back) = way_back {
                    way_back.release(place).await?;
                }
                return Err(failure);
            }
        };
        say(Step::Applying);
        let works_and_waits = async move {
            works.await?;
            match way_back {
                Some(way_back) => way_back.extend(place, time).await,
                None => Ok(()),
            }
        };
        Ok(applied(changes, number, Box::pin(works_and_waits), say).await?)
    }

    /// Records the change, and lets somebody watch over it. If nobody does, it is closed again.
    async fn watched<E: From<Refusal>>(
        &self,
        changes: &Changes<'_>,
        watch: impl AsyncFnOnce(u32) -> Result<(), E>,
        time: Duration,
    ) -> Result<u32, E> {
        let number = changes.plan(&self.change, &self.reason, Some(time)).await?.number;
        if let Err(failure) = watch(number).await {
            let _ = changes.undo(number).await;
            return Err(failure);
        }
        Ok(number)
    }
}

/// Applies a change, and says if it was taken back.
async fn applied(
    changes: &Changes<'_>,
    number: u32,
    works: Answer<'_, ()>,
    say: &dyn Fn(Step),
) -> Result<Entry, Refusal> {
    let applied = changes.apply_if_works(number, works).await;
    if applied.is_err() && changes.journal.entry(number).is_ok_and(|entry| entry.state == State::Undone) {
        say(Step::GivenBack);
    }
    applied
}
