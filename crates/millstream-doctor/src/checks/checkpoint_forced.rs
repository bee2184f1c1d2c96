//! Check `checkpoint-forced`: checkpoints that come because of the amount of WAL, not in time.

use super::checkpoints::Checkpoints;
use super::number::{count, number, percent};
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::host::Host;
use crate::server::Server;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Level, Repair, Restart};
use millstream_pg::Error;
use millstream_pg::sizing::{size, wal_room};

pub(super) const CHECK: Check = Check {
    id: "checkpoint-forced",
    about: "checkpoints that the amount of WAL forces: after each, whole pages go to the WAL again",
    class: Class::Arithmetic,
    thresholds: &[Threshold { name: "percent", default: 20.0 }, Threshold { name: "count", default: 20.0 }],
    manual: include_str!("checkpoint_forced.md"),
    looks: &[Look::Anywhere(|server, host, task| Box::pin(look(server, host, task)))],
};

async fn look(server: &Server, host: Option<&Host>, task: Task) -> Result<Seen, Error> {
    let Checkpoints { view, row } = Checkpoints::of(server).await?;
    let (timed, requested) = (number(&row, "timed"), number(&row, "requested"));
    let percent = percent(requested, timed + requested);
    if ((timed + requested) as f64) < task.threshold("count") || percent < task.threshold("percent") {
        return Ok(Seen::default());
    }
    let settings = "select pg_size_bytes(current_setting('max_wal_size')), \
                    (select setting::float8 from pg_settings where name = 'checkpoint_timeout')";
    let set = server.session.client.query_one(settings, &[]).await?;
    let (present, timeout): (i64, f64) = (set.get(0), set.get(1));
    let per_second: f64 = row.get("wal_per_second");
    let present = u64::try_from(present).unwrap_or(0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let written = (per_second * timeout) as u64;
    let sentence = format!("{percent:.0} % of the checkpoints were requested, and not due by time");
    let mut finding = task
        .finding(Level::Warning, "", sentence)
        .with("requested", count(&row, "requested"), view)
        .with("timed", count(&row, "timed"), view)
        .with("WAL per checkpoint_timeout, on average", bytes(written), "pg_stat_wal")
        .with("max_wal_size", bytes(present), "pg_settings");
    let free = host.and_then(Host::wal_disk).map(|space| space.free);
    if let Some(free) = free {
        finding = finding.with("free on the disk of the WAL", bytes(free), "statvfs");
    }
    finding.counted_seconds = row.get("seconds");
    finding.alternative = Some("they came from backups, CHECKPOINT or CREATE DATABASE".to_owned());
    finding.repair = Some(repair(server, present, written, free));
    Ok([finding].into_iter().collect())
}

/// A larger `max_wal_size`, as far as the disk has room for it.
fn repair(server: &Server, present: u64, written: u64, free: Option<u64>) -> Repair {
    let Some(larger) = larger(present, written, free) else {
        return Repair {
            sentence: "make room on the disk of the WAL, and then raise max_wal_size: a tenth of the free space is \
                       no more than it has now"
                .to_owned(),
            commands: Vec::new(),
            risk: "if WAL fills the disk, the server stops".to_owned(),
            restart: Restart::Nothing,
            change: None,
        };
    };
    let sentence = "let more WAL lie between two checkpoints: twice the present size, or twice what is written in \
                    checkpoint_timeout, whichever is more; but at most a tenth of the free disk";
    let risk = "WAL takes as much of the disk, and recovery after a crash takes longer";
    let mut repair = server.setting("max_wal_size", &size(larger), sentence, risk);
    if free.is_none() {
        // The doctor cannot see whether the disk has room for it.
        repair.change = None;
        let first = format!("-- first see that the disk of the WAL has {} free", bytes(larger.saturating_mul(10)));
        repair.commands.insert(0, first);
    }
    repair
}

/// The size to try, in bytes. `None` if the disk has no room for more.
fn larger(present: u64, written: u64, free: Option<u64>) -> Option<u64> {
    // The server begins a checkpoint when about half of max_wal_size is written; while it works, WAL goes on.
    let wanted = present.max(written).saturating_mul(2);
    let size = free.map_or(wanted, |free| wanted.min(wal_room(free)));
    (size > present).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_size_fits_what_is_written_and_what_the_disk_has() {
        const GB: u64 = 1 << 30;
        assert_eq!(larger(GB, 0, None), Some(2 * GB));
        assert_eq!(larger(GB, 72 * GB, None), Some(144 * GB));
        assert_eq!(larger(GB, 72 * GB, Some(100 * GB)), Some(10 * GB));
        assert_eq!(larger(GB, GB, Some(1_000 * GB)), Some(2 * GB));
        assert_eq!(larger(GB, 72 * GB, Some(10 * GB)), None);
    }
}
