//! What a group decides while a topic is loaded: partitions come, and go.

use super::Loader;
use crate::client::{Client, ClientError, Decision};
use crate::error::Error;
use crate::limits::{PARTITIONS_MAX, RELEASE_SLACK};
use crate::opening::Opened;
use crate::request::Begin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl<C: Client> Loader<'_, C> {
    /// Carries out what the group has decided.
    pub(super) async fn decided(&mut self, decision: Result<Decision, ClientError>) -> Result<(), Error> {
        let Some(group) = &self.request.group else { return Ok(()) };
        let closed = match decision {
            Ok(Decision::Assigned(numbers)) => {
                numbers.into_iter().for_each(|number| self.seats.assigned(number));
                let (wanted, name) = (self.seats.wanted(), &group.name);
                if wanted > PARTITIONS_MAX && !std::mem::replace(&mut self.said.too_many_partitions, true) {
                    self.warn(format!(
                        "group {name} has assigned {wanted} partitions to this process, which loads {PARTITIONS_MAX} at \
                         once: start more of them"
                    ));
                }
                Vec::new()
            }
            Ok(Decision::Revoked(numbers, released)) => {
                let (released, until) = (Arc::new(released), Instant::now() + group.drain + RELEASE_SLACK);
                let open = |number: &i32| self.seats.revoked(*number, until, Arc::clone(&released));
                numbers.into_iter().filter(open).map(|number| (number, group.drain)).collect()
            }
            Ok(Decision::Lost(numbers)) => {
                let open: Vec<i32> = numbers.into_iter().filter(|number| self.seats.lost(*number)).collect();
                if !open.is_empty() {
                    self.warn(format!(
                        "group {} has not heard of this process for too long, and has taken its partitions away: {}",
                        group.name,
                        listed(&open)
                    ));
                }
                open.into_iter().map(|number| (number, Duration::ZERO)).collect()
            }
            Err(ClientError::Passing(message)) => {
                self.warn(format!("group {} does not answer, and is asked again: {message}", group.name));
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        for (number, drain) in closed {
            // The pause stops reading at once; the next list of partitions lacks this one.
            self.client.pause(number, true).await;
            self.close_partition(number, Some(drain), None);
        }
        Ok(())
    }

    /// Opens what the group has assigned.
    pub(super) fn open_wanted(&mut self) {
        let Some(group) = &self.request.group else { return };
        while let Some(wish) = self.seats.next() {
            let (opener, group, number) = (Arc::clone(&self.opener), group.clone(), wish.number);
            // Of one that was added since, nobody has read anything.
            let begin = if self.known.contains(&number) { self.request.from } else { Begin::Start };
            self.opening.spawn(async move { (number, opener.take(&group, wish, begin).await) });
        }
    }

    /// A partition was opened, or not.
    pub(super) fn opened(&mut self, (number, opened): (i32, Result<Option<Opened>, Error>)) -> Result<(), Error> {
        let opened = match opened {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                self.seats.free(number);
                return Ok(());
            }
            // Another member took it over while it was opened.
            Err(Error::Engine(error)) if self.request.group.is_some() && error.is_fenced() => {
                self.warn(format!("partition {number} ends here: {error}"));
                self.seats.ended(number);
                self.seats.free(number);
                return Ok(());
            }
            Err(error) if self.request.group.is_some() && !self.seats.is_wanted(number) => {
                self.warn(format!("partition {number}, which goes to another process, did not open here: {error}"));
                self.seats.free(number);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.insert(opened);
        if self.request.group.is_some() && !self.seats.opened(number) {
            self.close_partition(number, Some(Duration::ZERO), None);
        }
        Ok(())
    }
}

/// Numbers as a text.
fn listed(numbers: &[i32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
