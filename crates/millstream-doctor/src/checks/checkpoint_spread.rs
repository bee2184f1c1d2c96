//! Check `checkpoint-spread`: checkpoints that write in a burst.

use super::checkpoints::Checkpoints;
use super::number::number;
use crate::check::{Check, Look, Looked, Task};
use crate::server::Server;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Finding, Level};
use millstream_pg::sizing::{CHECKPOINT_FLUSH, CHECKPOINT_SPREAD};

pub(super) const CHECK: Check = Check {
    id: "checkpoint-spread",
    about: "checkpoints that write in a burst, or end in a wait for the disk, and stall commits",
    class: Class::Arithmetic,
    thresholds: &[("target", 0.9), ("sync_seconds", 1.0), ("count", 20.0)],
    manual: include_str!("checkpoint_spread.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let sql = "select current_setting('checkpoint_completion_target')::float8, \
               pg_size_bytes(current_setting('checkpoint_flush_after'))";
    let set = server.session.client.query_one(sql, &[]).await?;
    let (target, flush): (f64, i64) = (set.get(0), set.get(1));
    let Checkpoints { view, row } = Checkpoints::of(server).await?;
    task.counted(row.get::<_, Option<f64>>("seconds").unwrap_or(0.0));
    let early = (target < task.threshold("target")).then(|| burst(server, &task, target));
    // The time of restartpoints is in the sum.
    let checkpoints = ["timed", "requested", "restartpoints"].map(|column| number(&row, column)).iter().sum::<u64>();
    let mean = number(&row, "sync_ms") as f64 / 1e3 / (checkpoints.max(1) as f64);
    let waits = checkpoints as f64 >= task.threshold("count") && mean >= task.threshold("sync_seconds");
    let late = waits.then(|| {
        let finding = stall(server, &task, mean, flush).with("checkpoints", checkpoints, view);
        finding.counted(row.get::<_, Option<f64>>("seconds"))
    });
    Ok(early.into_iter().chain(late).collect())
}

fn burst(server: &Server, task: &Task, target: f64) -> Finding {
    let name = CHECKPOINT_SPREAD.name;
    let sentence = format!("a checkpoint writes its pages in {:.0} % of the time until the next one", target * 100.0);
    let risk = "recovery after a crash takes a little longer";
    task.finding(Level::Info, name, sentence)
        .with(name, target, "pg_settings")
        .unless("somebody has set it so on purpose, for a quick shutdown")
        .repaired_by(server.setting(name, CHECKPOINT_SPREAD.value, "spread the writing", risk))
}

/// Up to so many bytes the server lets the system collect before it asks for a flush: 256 kB, as `CHECKPOINT_FLUSH` has it.
const FLUSH_EARLY_BYTES: i64 = 256 << 10;

/// Whether the server has the system flush early what a checkpoint writes. 0 switches that off.
fn flushes_early(bytes: i64) -> bool {
    (1..=FLUSH_EARLY_BYTES).contains(&bytes)
}

fn stall(server: &Server, task: &Task, mean: f64, flush: i64) -> Finding {
    let sentence = format!("a checkpoint ends with {mean:.1} s of waiting for the disk, on average");
    let flushed = bytes(u64::try_from(flush).unwrap_or(0));
    let finding = task
        .finding(Level::Warning, "", sentence)
        .with(CHECKPOINT_FLUSH.name, flushed, "pg_settings")
        .unless("a few large checkpoints, for instance after a load, make the mean");
    if flushes_early(flush) {
        return finding
            .repaired(
                "let the kernel collect less before it writes; the server flushes early already",
                "none: it only prints the manual page",
            )
            .run(["$ millstream doctor explain dirty-limits"]);
    }
    let sentence = "let the server flush what it writes early; see also dirty-limits";
    let risk = "pages that are written again soon go to the disk twice";
    finding.repaired_by(server.setting(CHECKPOINT_FLUSH.name, CHECKPOINT_FLUSH.value, sentence, risk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_flush_that_is_off_or_late_can_be_made_earlier() {
        assert_eq!([0, 8 << 10, 256 << 10, 257 << 10].map(flushes_early), [false, true, true, false]);
    }
}
