//! Check `checkpoint-spread`: checkpoints that write in a burst.

use super::number::number;
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::server::Server;
use millstream_model::{Class, Finding, Level};
use millstream_pg::Error;

pub(super) const CHECK: Check = Check {
    id: "checkpoint-spread",
    about: "checkpoints that write in a burst, or end in a wait for the disk, and stall commits",
    class: Class::Arithmetic,
    thresholds: &[
        Threshold { name: "target", default: 0.9 },
        Threshold { name: "sync_seconds", default: 1.0 },
        Threshold { name: "count", default: 20.0 },
    ],
    manual: include_str!("checkpoint_spread.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Result<Seen, Error> {
    let (view, timed, requested, sync) = match server.version_num() {
        170_000.. => ("pg_stat_checkpointer", "num_timed", "num_requested", "sync_time"),
        _ => ("pg_stat_bgwriter", "checkpoints_timed", "checkpoints_req", "checkpoint_sync_time"),
    };
    let sql = format!(
        "select {timed} + {requested} as checkpoints, {sync}::bigint as milliseconds, \
         current_setting('checkpoint_completion_target')::float8 as target, \
         extract(epoch from now() - stats_reset)::float8 as seconds from {view}"
    );
    let row = server.session.client.query_one(&sql, &[]).await?;
    let target: f64 = row.get("target");
    let early = (target < task.threshold("target")).then(|| burst(server, &task, target));
    let checkpoints = number(&row, "checkpoints");
    let mean = number(&row, "milliseconds") as f64 / 1e3 / (checkpoints.max(1) as f64);
    let waits = checkpoints as f64 >= task.threshold("count") && mean >= task.threshold("sync_seconds");
    let late = waits.then(|| {
        let mut finding = stall(server, &task, mean).with("checkpoints", checkpoints, view);
        finding.counted_seconds = row.get("seconds");
        finding
    });
    Ok(early.into_iter().chain(late).collect())
}

fn burst(server: &Server, task: &Task, target: f64) -> Finding {
    let name = "checkpoint_completion_target";
    let sentence = format!("a checkpoint writes its pages in {:.0} % of the time until the next one", target * 100.0);
    let mut finding = task.finding(Level::Info, name, sentence).with(name, target, "pg_settings");
    finding.alternative = Some("somebody has set it so on purpose, for a quick shutdown".to_owned());
    finding.repair =
        Some(server.setting(name, "0.9", "spread the writing", "recovery after a crash takes a little longer"));
    finding
}

fn stall(server: &Server, task: &Task, mean: f64) -> Finding {
    let sentence = format!("a checkpoint ends with {mean:.1} s of waiting for the disk, on average");
    let mut finding = task.finding(Level::Warning, "", sentence);
    finding.alternative = Some("a few large checkpoints, for instance after a load, make the mean".to_owned());
    let sentence = "let the server flush what it writes early; see also dirty-limits";
    let risk = "pages that are written again soon go to the disk twice";
    finding.repair = Some(server.setting("checkpoint_flush_after", "256kB", sentence, risk));
    finding
}
