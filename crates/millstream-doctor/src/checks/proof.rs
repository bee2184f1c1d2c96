//! Proofs: things that a role without rights over others plans or reads, one after the other, for a limited time.

use crate::check::{Looked, Seen, Task};
use crate::limits::PROOF_TIME_MAX;
use crate::refusal::Stop;
use crate::server::Database;
use crate::statement::Counted;
use millstream_model::Finding;
use millstream_pg::{ConnInfo, Error};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;
use tokio_postgres::Client;

/// How one thing is examined, until an instant at the latest.
pub(super) type Examine<T> = for<'a> fn(&'a mut Client, &'a T, &'a Task, Instant) -> Examining<'a>;

/// An examination at work.
pub(super) type Examining<'a> = Pin<Box<dyn Future<Output = Result<Vec<Finding>, Error>> + Send + 'a>>;

/// Plans the queries that took the most time and were called often enough.
pub(super) async fn planned(planner: &ConnInfo, database: &Database, task: &Task, examine: Examine<Counted>) -> Looked {
    let statements = task.statements(database).await?;
    let least = task.threshold("calls");
    let often: Vec<&Counted> = statements.queries().into_iter().filter(|one| one.calls as f64 >= least).collect();
    let seen = proven(planner, database, task, &often, ("statements", "that cannot be planned"), examine).await?;
    Ok(seen.but(statements.unseen.clone()))
}

/// Examines things in their order, and keeps what is found; of findings with the same key only the first. The words say what
/// the things are, and which of them are refused.
pub(super) async fn proven<T: Sync>(
    planner: &ConnInfo,
    database: &Database,
    task: &Task,
    things: &[&T],
    (name, refused): (&str, &str),
    examine: Examine<T>,
) -> Looked {
    // The caller has more to say of what it did not see.
    let mut session = match database.session_to_plan(planner).await {
        Err(Stop::Unseen(why)) => return Ok(Seen::default().but(Some(why))),
        session => session?,
    };
    let end = Instant::now() + PROOF_TIME_MAX;
    let mut keys = BTreeSet::new();
    let (mut refusals, mut late) = (Vec::new(), 0);
    for thing in things {
        if Instant::now() >= end {
            late += 1;
            continue;
        }
        match examine(&mut session.client, thing, task, end).await {
            Ok(found) => {
                let new = found.into_iter().filter(|finding| keys.insert(finding.key.clone()));
                new.for_each(|finding| task.keep(finding));
            }
            Err(error) if session.client.is_closed() => return Err(error.into()),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    Ok(without((name, refused), &refusals, late))
}

/// Names what was not examined: things that were refused, and things for which there was no time.
pub(super) fn without((name, refused): (&str, &str), refusals: &[String], late: usize) -> Seen {
    let first = refusals.first();
    let refusals = first.map(|first| format!("{name} {refused}: {}; the first: {first}", refusals.len()));
    let late = (late > 0).then(|| format!("{name}, because others took {PROOF_TIME_MAX:?}: {late}"));
    Seen::default().but(refusals).but(late)
}
