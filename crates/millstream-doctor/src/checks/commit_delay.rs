//! Check `commit-delay`: commits that wait for others longer than a flush takes.

use super::number::number;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::limits::{COMMIT_LOOK, COMMIT_LOOKS_MAX, FLUSHES_MIN};
use crate::refusal::Stop;
use crate::server::Server;
use millstream_model::quantity::count;
use millstream_model::{Class, Level};
use millstream_pg::Error;

pub(super) const CHECK: Check = Check {
    id: "commit-delay",
    about: "commits wait for others that may come, although a flush takes less time",
    class: Class::Hypothesis,
    thresholds: &[("flush_us", 500.0), ("times", 2.0)],
    manual: include_str!("commit_delay.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let row = server.session.client.query_one(include_str!("commit_delay.sql"), &[]).await?;
    let (delay, siblings): (f64, i64) = (row.get("delay"), row.get("siblings"));
    if delay == 0.0 {
        return Ok(Seen::default());
    }
    let flush = Flush::of(server, row.get("is_timed")).await?;
    if let Some(seconds) = flush.seconds {
        task.counted(seconds);
    }
    let is_fast = flush.microseconds < task.threshold("flush_us");
    // The manual begins with half the time of a flush.
    let is_long = delay > task.threshold("times") * flush.microseconds / 2.0;
    if !is_fast && !is_long {
        return Ok(Seen::default());
    }
    let (name, source) = ("commit_delay", "pg_settings");
    let flushed = format!("{:.0} us", flush.microseconds);
    let sentence = format!("each durable commit may wait {delay:.0} us for others, and a flush takes {flushed}");
    let blind = server.blind_to_sessions();
    let writers = if blind.is_none() { Some(writers(server).await?) } else { None };
    let looks = format!("most transactions that wrote at once, in {COMMIT_LOOKS_MAX} looks");
    let other = "flushes are slower when many sessions commit, or track_wal_io_timing was off for some of the time";
    let risk = "on a slow disk with many sessions, fewer commits share a flush";
    let finding = task
        .finding(Level::Info, name, sentence)
        .with(name, format!("{delay:.0} us"), source)
        .with("mean time of a flush", flushed, flush.source)
        .with("flushes", count(flush.count), flush.source)
        .with("other transactions without which nobody waits (commit_siblings)", siblings, source)
        .with_known(&looks, writers, "pg_stat_activity")
        .counted(flush.seconds)
        .unless(other)
        .repaired_by(server.setting(name, "0", "switch it off, and measure before and after", risk));
    Ok(Seen::from(finding).but(blind))
}

/// The time of a flush, as the server has measured it.
struct Flush {
    microseconds: f64,
    count: u64,
    source: &'static str,
    seconds: Option<f64>,
}

impl Flush {
    async fn of(server: &Server, is_timed: bool) -> Result<Self, Stop> {
        let what = "whether commit_delay fits the disk, because";
        if !is_timed {
            return Err(format!("{what} flushes are not timed; switch track_wal_io_timing on").into());
        }
        let (source, sql) = match server.version_num() {
            180_000.. => ("pg_stat_io, of the WAL", include_str!("commit_delay_flush.sql")),
            _ => (
                "pg_stat_wal",
                "select wal_sync as flushes, wal_sync_time::float8 as milliseconds, \
                 date_part('epoch', now() - stats_reset)::float8 as seconds from pg_stat_wal",
            ),
        };
        let row = server.session.client.query_one(sql, &[]).await?;
        let (count, milliseconds): (u64, f64) = (number(&row, "flushes"), row.get("milliseconds"));
        if count < FLUSHES_MIN || milliseconds <= 0.0 {
            return Err(format!("{what} the server has timed too few flushes; look again later").into());
        }
        let microseconds = milliseconds * 1e3 / count as f64;
        Ok(Self { microseconds, count, source, seconds: row.get("seconds") })
    }
}

/// The most transactions that wrote at the same time, in a few looks. For so many the server counts `commit_siblings`.
async fn writers(server: &Server) -> Result<i64, Error> {
    let sql = "select count(*) from pg_stat_activity where backend_xid is not null and state = 'active' \
               and wait_event_type is distinct from 'Lock' and pid <> pg_backend_pid()";
    let mut most: i64 = 0;
    for look in 0..COMMIT_LOOKS_MAX {
        if look > 0 {
            tokio::time::sleep(COMMIT_LOOK).await;
        }
        most = most.max(server.session.client.query_one(sql, &[]).await?.get(0));
    }
    Ok(most)
}
