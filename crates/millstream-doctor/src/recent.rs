//! Where the time of statements goes now: two looks at their counters, and at what is running.

use crate::limits::RECENT_MILLISECONDS_MIN;
use crate::snapshot::Snapshot;
use millstream_pg::Error;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Client;

/// The earlier look.
#[derive(Debug, Clone)]
pub(crate) struct Earlier {
    snapshot: Arc<Snapshot>,
    /// When the later look may follow.
    ready: Instant,
}

/// Shares of the time of all statements of a database between two looks.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// By the statement's number, in percent.
    percent: BTreeMap<i64, f64>,
    /// Time between the looks.
    pub(crate) seconds: f64,
}

impl Earlier {
    /// A look after which the later one may follow in this time.
    pub(crate) fn new(snapshot: &Snapshot, apart: Duration) -> Self {
        Self { snapshot: Arc::new(snapshot.clone()), ready: Instant::now() + apart }
    }

    /// Waits until the later look may follow, and returns the seconds since the earlier one, by the server's clock.
    async fn seconds_later(&self, client: &Client) -> Result<f64, Error> {
        tokio::time::sleep_until(self.ready).await;
        let row = client.query_one("select date_part('epoch', clock_timestamp())::float8", &[]).await?;
        Ok(row.get::<_, f64>(0) - self.snapshot.at)
    }

    /// Takes the later look, and says how many sessions were opened a second in a database since the earlier one.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn sessions_per_second(&self, client: &Client, database: &str) -> Result<Option<f64>, Error> {
        let seconds = self.seconds_later(client).await?;
        let now = Snapshot::sessions(client).await?.get(database).copied();
        let opened = now.zip(self.snapshot.sessions.get(database)).and_then(|(now, before)| now.checked_sub(*before));
        Ok(opened.map(|opened| opened as f64 / seconds.max(0.001)))
    }

    /// Takes the later look in the database of the session. `None` if hardly anything ran in between, or if the counters
    /// began anew.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn until_now(&self, client: &Client, database: &str) -> Result<Option<Recent>, Error> {
        if self.snapshot.statements.is_empty() {
            return Ok(None);
        }
        let seconds = self.seconds_later(client).await?;
        let mut spent: BTreeMap<i64, f64> = BTreeMap::new();
        for one in Snapshot::statements(client, Some(database)).await? {
            let before = self.snapshot.milliseconds_of(database, one.id).min(one.milliseconds);
            if self.snapshot.statement(database, one.id).is_some_and(|before| one.milliseconds < before.milliseconds) {
                return Ok(None);
            }
            spent.insert(one.id, one.milliseconds - before);
        }
        // What still runs is counted only when it ends.
        for row in client.query(include_str!("recent.sql"), &[&seconds]).await? {
            *spent.entry(row.get("query_id")).or_default() += row.get::<_, f64>("milliseconds");
        }
        Ok(Recent::of(&spent, seconds))
    }
}

impl Recent {
    fn of(spent: &BTreeMap<i64, f64>, seconds: f64) -> Option<Self> {
        let all: f64 = spent.values().sum();
        let percent = spent.iter().map(|(id, one)| (*id, 100.0 * one / all)).collect();
        (all >= RECENT_MILLISECONDS_MIN).then_some(Self { percent, seconds })
    }

    /// The share of a statement, in percent.
    pub(crate) fn percent_of(&self, id: i64) -> f64 {
        self.percent.get(&id).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_between_two_looks_if_it_is_enough() {
        let recent = Recent::of(&BTreeMap::from([(1, 150.0), (2, 50.0)]), 1.0).unwrap();
        assert!((recent.percent_of(1) - 75.0).abs() < 1e-9 && recent.percent_of(3) == 0.0);
        assert!(Recent::of(&BTreeMap::from([(1, RECENT_MILLISECONDS_MIN / 2.0)]), 1.0).is_none());
        assert!(Recent::of(&BTreeMap::new(), 1.0).is_none());
    }
}
