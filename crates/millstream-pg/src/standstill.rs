//! What stands still says why: what the sessions of a command wait for, when nothing has moved for a while.

use crate::attempt::connect;
use crate::conninfo::ConnInfo;
use crate::error::Error;
use crate::limits::{STANDSTILL_GROWTH, STANDSTILL_LOOKS, STANDSTILL_TIMEOUT_S};
use crate::session::SessionSettings;
use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Row;

/// Why nothing moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standstill {
    /// A session waits for a lock.
    Lock {
        /// The name of our session.
        name: String,
        /// How long it has waited, in seconds.
        seconds: u64,
        /// What it waits for, as a phrase.
        lock: String,
        /// Who holds it, if that is known.
        holder: Option<Holder>,
    },
    /// The server works on a statement, or waits within it for something other than a lock.
    Work {
        /// The name of our session.
        name: String,
        /// How long the statement has run, in seconds.
        seconds: u64,
        /// Rows of the batch; zero if unknown.
        rows: u64,
        /// What it was waiting for when we looked.
        waits: Option<String>,
    },
    /// The command asks again and again whether others have ended.
    Others {
        /// How long, in seconds.
        seconds: u64,
        /// Whom it waits for, as a phrase.
        what: &'static str,
    },
    /// The server does not answer when asked.
    Silent {
        /// The error.
        error: String,
    },
}

/// A session that holds what another one waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id; zero for a prepared transaction.
    pub pid: i32,
    /// Its application name, or the kind of its backend.
    pub name: Option<String>,
    /// Whether it belongs to the same command.
    pub own: bool,
    /// What it does; unknown if the role may not see it.
    pub state: Option<String>,
    /// Age of its transaction in seconds.
    pub seconds: Option<u64>,
    /// The session that it waits for itself.
    pub behind: Option<i32>,
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock { name, seconds, lock, holder } => {
                write!(f, "{name} has waited {seconds} s for {lock}")?;
                holder.as_ref().map_or(Ok(()), |holder| write!(f, "; {holder}"))
            }
            Self::Work { name, seconds, rows, waits } => {
                write!(f, "the server has worked for {seconds} s on a ")?;
                match rows {
                    0 => write!(f, "statement of {name}")?,
                    rows => write!(f, "batch of {rows} rows of {name}")?,
                }
                waits.as_ref().map_or(Ok(()), |waits| write!(f, ", and now waits for {waits}"))
            }
            Self::Others { seconds, what } => write!(f, "has waited {seconds} s for {what}"),
            Self::Silent { error } => write!(f, "the server does not answer: {error}"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            return f.write_str("a prepared transaction holds it");
        }
        write!(f, "session {} holds it", self.pid)?;
        let name = self.name.as_ref().map(|name| format!("application {name}"));
        let own = self.own.then(|| "of this command".to_owned());
        let open = self.seconds.map(|seconds| format!("its transaction began {seconds} s ago"));
        let behind = self.behind.map(|pid| format!("waits for session {pid} itself"));
        let known: Vec<String> = [name, own, self.state.clone(), open, behind].into_iter().flatten().collect();
        if known.is_empty() { Ok(()) } else { write!(f, " ({})", known.join(", ")) }
    }
}

/// When to say why.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long nothing has moved when we first say why. Each further line comes after three times as long.
    pub after: Duration,
    /// Age of a statement from which it counts as standing still. Zero if progress is counted: then every statement
    /// counts while there is none.
    pub statement: Duration,
}

/// Does `work`, and says meanwhile what its sessions wait for whenever it stands still: `progress` has the same value
/// as before, and a session of `db` is at work on the server. A command that waits for its input says nothing. `say`
/// also receives for how many seconds nothing has moved.
pub async fn attend<T>(
    db: &ConnInfo,
    patience: Patience,
    progress: impl Fn() -> u64,
    say: impl Fn(u64, Standstill),
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = watch(db, patience, progress, say) => match never {},
    }
}

async fn watch(
    db: &ConnInfo,
    patience: Patience,
    progress: impl Fn() -> u64,
    say: impl Fn(u64, Standstill),
) -> Infallible {
    let (mut before, mut since, mut due) = (progress(), Instant::now(), patience.after);
    loop {
        tokio::time::sleep(patience.after / STANDSTILL_LOOKS).await;
        let now = progress();
        if now == before && since.elapsed() < due {
            continue;
        }
        let standstill = if now == before { look(db, patience.statement).await } else { None };
        // What went on while we looked needs no reason.
        match standstill.filter(|_| progress() == now) {
            Some(standstill) => {
                say(since.elapsed().as_secs(), standstill);
                due *= STANDSTILL_GROWTH;
            }
            None => (before, since, due) = (progress(), Instant::now(), patience.after),
        }
    }
}

/// What the sessions of `db` do or wait for; nothing if they wait for us. Of several, the one that says most: a session
/// that waits for a lock, then the longest statement. Statements younger than `statement_min` do not count.
pub async fn look(db: &ConnInfo, statement_min: Duration) -> Option<Standstill> {
    let sessions = db.roster.sessions();
    if sessions.is_empty() {
        return None;
    }
    let asked = async {
        let connection = connect(db, &SessionSettings::named("millstream watch")).await?;
        let pids: Vec<i32> = sessions.iter().map(|(pid, _)| *pid).collect();
        let rows = connection.client.query(include_str!("standstill.sql"), &[&pids]).await?;
        connection.close().await;
        Ok::<_, Error>(rows)
    };
    let rows = match tokio::time::timeout(Duration::from_secs(STANDSTILL_TIMEOUT_S), asked).await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => return Some(Standstill::Silent { error: error.to_string() }),
        Err(_) => {
            let error =
                format!("no answer in {STANDSTILL_TIMEOUT_S} s; a pool may have no connection left for this question");
            return Some(Standstill::Silent { error });
        }
    };
    let seconds = |row: &Row| row.get::<_, Option<f64>>("seconds").unwrap_or(0.0);
    let long = rows.iter().filter(|row| seconds(row) >= statement_min.as_secs_f64());
    let weight = |row: &&Row| (row.get::<_, Option<i32>>("holder").is_some(), seconds(row));
    let Some(row) = long.max_by(|a, b| weight(a).partial_cmp(&weight(b)).unwrap_or(Ordering::Equal)) else {
        let wait = db.roster.wait().filter(|(_, waited)| *waited >= statement_min);
        return wait.map(|(what, waited)| Standstill::Others { seconds: waited.as_secs(), what });
    };
    let pid: i32 = row.get("pid");
    let rows = sessions.iter().find(|(known, _)| *known == pid).map_or(0, |(_, rows)| *rows);
    Some(reason(row, rows))
}

fn reason(row: &Row, rows: u64) -> Standstill {
    let name = row.get::<_, Option<String>>("name").unwrap_or_default();
    let seconds = whole(row.get("seconds")).unwrap_or(0);
    let kind: Option<&str> = row.get("kind");
    if kind == Some("Lock") {
        let lock = lock(row.get("lock"), row.get("relation"));
        let holder = row.get::<_, Option<i32>>("holder").map(|pid| Holder {
            pid,
            name: row.get("holder_name"),
            own: row.get("holder_is_own"),
            state: row.get("holder_state"),
            seconds: whole(row.get("holder_seconds")),
            behind: row.get("behind"),
        });
        return Standstill::Lock { name, seconds: whole(row.get("lock_seconds")).unwrap_or(seconds), lock, holder };
    }
    let waits = kind.zip(row.get::<_, Option<&str>>("event")).map(|(kind, event)| match (kind, event) {
        (_, "SyncRep") => "a synchronous standby (SyncRep)".to_owned(),
        ("IO", event) => format!("the disk ({event})"),
        (kind, event) => format!("{kind} {event}"),
    });
    Standstill::Work { name, seconds, rows, waits }
}

/// A lock in words. Source: the lock types of `pg_locks`.
fn lock(kind: Option<&str>, relation: Option<&str>) -> String {
    match (kind, relation) {
        (Some("relation"), Some(relation)) => format!("a lock on {relation}"),
        (Some("tuple"), Some(relation)) => format!("a row of {relation}"),
        (Some("transactionid" | "spectoken"), _) => "a row that another transaction has written".to_owned(),
        (Some("advisory"), _) => "an advisory lock".to_owned(),
        (Some(kind), Some(relation)) => format!("a lock ({kind} of {relation})"),
        (Some(kind), None) => format!("a lock ({kind})"),
        (None, _) => "a lock".to_owned(),
    }
}

/// Whole seconds; clocks may differ by a little.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and far below 2^64")]
fn whole(seconds: Option<f64>) -> Option<u64> {
    seconds.map(|seconds| seconds.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_say_what_is_known() {
        let holder = Holder { pid: 9, name: None, own: false, state: None, seconds: None, behind: None };
        let lock = |holder| Standstill::Lock {
            name: "millstream lane 0".into(),
            seconds: 12,
            lock: lock(Some("relation"), Some("t")),
            holder: Some(holder),
        };
        let waits = "millstream lane 0 has waited 12 s for a lock on t; session 9 holds it";
        assert_eq!(lock(holder.clone()).to_string(), waits);
        let known = Holder {
            name: Some("psql".into()),
            state: Some("idle in transaction".into()),
            seconds: Some(80),
            behind: Some(7),
            ..holder.clone()
        };
        let all = "application psql, idle in transaction, its transaction began 80 s ago, waits for session 7 itself";
        assert_eq!(lock(known).to_string(), format!("{waits} ({all})"));
        let prepared = lock(Holder { pid: 0, ..holder }).to_string();
        assert!(prepared.ends_with("; a prepared transaction holds it"), "{prepared}");
        let work =
            Standstill::Work { name: "l".into(), seconds: 45, rows: 100, waits: Some("the disk (WALSync)".into()) };
        let text = "the server has worked for 45 s on a batch of 100 rows of l, and now waits for the disk (WALSync)";
        assert_eq!(work.to_string(), text);
    }
}
