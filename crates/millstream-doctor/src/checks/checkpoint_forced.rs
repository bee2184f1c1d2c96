//! Check `checkpoint-forced`: checkpoints that come because of the amount of WAL, not in time.

use super::checkpoints::Checkpoints;
use super::number::{count, needs, number, percent};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use crate::refusal::Stop;
use crate::server::Server;
use millstream_model::quantity::{self, bytes, whole};
use millstream_model::{Class, Level, Repair};
use millstream_pg::sizing::{size, wal_room};

pub(super) const CHECK: Check = Check {
    id: "checkpoint-forced",
    about: "checkpoints that the amount of WAL forces: after each, whole pages go to the WAL again",
    class: Class::Arithmetic,
    thresholds: &[("percent", 20.0), ("count", 20.0)],
    manual: include_str!("checkpoint_forced.md"),
    looks: &[Look::Anywhere(|server, host, task| Box::pin(look(server, host, task)))],
};

async fn look(server: &Server, host: Option<&Host>, task: Task) -> Looked {
    let Checkpoints { view, row } = Checkpoints::of(server).await?;
    let (timed, requested) = (number(&row, "timed"), number(&row, "requested"));
    let (checkpoints, least) = (timed + requested, task.threshold("percent"));
    let seconds: f64 = row.get::<_, Option<f64>>("seconds").unwrap_or(0.0).max(1.0);
    task.counted(seconds);
    if (checkpoints as f64) < task.threshold("count") || percent(requested, checkpoints) < least {
        return Ok(Seen::default());
    }
    if server.session.server.in_recovery {
        let why = "whether WAL forces checkpoints, because a standby does not count the WAL that it replays";
        return Err(Stop::Unseen(why.to_owned()));
    }
    let wal_seconds: f64 = row.get::<_, Option<f64>>("wal_seconds").unwrap_or(0.0).max(1.0);
    if wal_seconds + 1.0 < seconds {
        needs("whether WAL forces checkpoints", "of counted WAL", seconds, wal_seconds)?;
    }
    let set = server.session.client.query_one(include_str!("checkpoint_forced.sql"), &[]).await?;
    let (due, timeout): (f64, f64) = (set.get("due"), set.get("timeout"));
    let per_second = row.get::<_, f64>("wal_bytes") / wal_seconds;
    let forced = forced(requested, per_second * seconds, due);
    let percent = percent(forced, checkpoints);
    if (forced as f64) < 1.0 || percent < least {
        return Ok(Seen::default());
    }
    let present = number(&set, "present");
    let (written, due) = (whole(per_second * timeout), whole(due));
    let free = host.and_then(Host::wal_disk).map(|space| space.free);
    let sentence =
        format!("up to {percent:.0} % of the checkpoints came because of the amount of WAL, and not by time");
    Ok(task
        .finding(Level::Warning, "", sentence)
        .with("requested", count(&row, "requested"), view)
        .with("timed", count(&row, "timed"), view)
        .with("as many as the WAL can have forced", quantity::count(forced), "pg_stat_wal")
        .with("WAL that forces a checkpoint", bytes(due), "max_wal_size, checkpoint_completion_target")
        .with("WAL per checkpoint_timeout, on average", bytes(written), "pg_stat_wal")
        .with("max_wal_size", bytes(present), "pg_settings")
        .with_known("free on the disk of the WAL", free.map(bytes), "statvfs")
        .drawn("WAL per checkpoint_timeout", written, bytes(written))
        .drawn("WAL that forces a checkpoint", due, bytes(due))
        .drawn("max_wal_size", present, bytes(present))
        .unless("they came from backups, CHECKPOINT or CREATE DATABASE")
        .repaired_by(repair(server, present, written, free))
        .into())
}

/// How many of the requested checkpoints so many bytes of WAL can have forced: each needs `due` of them.
fn forced(requested: u64, wal_bytes: f64, due: f64) -> u64 {
    requested.min(whole(wal_bytes / due.max(1.0)))
}

/// A larger `max_wal_size`, as far as the disk has room for it.
fn repair(server: &Server, present: u64, written: u64, free: Option<u64>) -> Repair {
    let Some(larger) = larger(present, written, free) else {
        return Repair::new(
            "make room on the disk of the WAL, and then raise max_wal_size: a tenth of the free space is \
                       no more than it has now",
            "if WAL fills the disk, the server stops",
        );
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
    fn the_wal_forces_no_more_checkpoints_than_it_has_bytes_for() {
        const MB: f64 = 1_048_576.0;
        // 22 times CHECKPOINT, and 36 MB of WAL in each of three timeouts.
        assert_eq!(forced(22, 108.0 * MB, 2_144.0 * MB), 0);
        assert_eq!(forced(22, 10_000.0 * MB, 1_000.0 * MB), 10);
        assert_eq!(forced(22, 1e6 * MB, 1_000.0 * MB), 22);
    }

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
