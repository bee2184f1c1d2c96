//! Check `checkpoint-forced`: checkpoints that come because of the amount of WAL, not in time.

use super::number::{count, number, percent};
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::server::Server;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Level};
use millstream_pg::Error;

pub(super) const CHECK: Check = Check {
    id: "checkpoint-forced",
    about: "checkpoints that the amount of WAL forces: after each, whole pages go to the WAL again",
    class: Class::Arithmetic,
    thresholds: &[Threshold { name: "percent", default: 20.0 }, Threshold { name: "count", default: 20.0 }],
    manual: include_str!("checkpoint_forced.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

const MB: f64 = 1_048_576.0;

async fn look(server: &Server, task: Task) -> Result<Seen, Error> {
    let sql = match server.version_num() {
        170_000.. => include_str!("checkpoint_forced_17.sql"),
        _ => include_str!("checkpoint_forced_15.sql"),
    };
    let client = &server.session.client;
    let row = client.query_one(sql, &[]).await?;
    let (timed, requested) = (number(&row, "timed"), number(&row, "requested"));
    let percent = percent(requested, timed + requested);
    if ((timed + requested) as f64) < task.threshold("count") || percent < task.threshold("percent") {
        return Ok(Seen::default());
    }
    let settings = "select pg_size_bytes(current_setting('max_wal_size')), \
                    (select setting::float8 from pg_settings where name = 'checkpoint_timeout')";
    let set = client.query_one(settings, &[]).await?;
    let (size, timeout): (i64, f64) = (set.get(0), set.get(1));
    let per_second: f64 = row.get("wal_per_second");
    let size = u64::try_from(size).unwrap_or(0);
    // The server begins a checkpoint when about half of max_wal_size is written; while it works, WAL goes on.
    let needed = (2.0 * per_second * timeout).max(2.0 * size as f64) / MB;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let written = (per_second * timeout) as u64;
    let sentence = format!("{percent:.0} % of the checkpoints were requested, and not due by time");
    let source = if server.version_num() >= 170_000 { "pg_stat_checkpointer" } else { "pg_stat_bgwriter" };
    let mut finding = task
        .finding(Level::Warning, "", sentence)
        .with("requested", count(&row, "requested"), source)
        .with("timed", count(&row, "timed"), source)
        .with("WAL per checkpoint_timeout, on average", bytes(written), "pg_stat_wal")
        .with("max_wal_size", bytes(size), "pg_settings");
    finding.counted_seconds = row.get("seconds");
    finding.alternative = Some("they came from backups, CHECKPOINT or CREATE DATABASE".to_owned());
    let sentence = "let more WAL lie between two checkpoints: twice the present size, or twice what is written in \
                    checkpoint_timeout, whichever is more";
    let risk = "WAL takes as much of the disk, and recovery after a crash takes longer";
    finding.repair = Some(server.setting("max_wal_size", &format!("{needed:.0}MB"), sentence, risk));
    Ok([finding].into_iter().collect())
}
