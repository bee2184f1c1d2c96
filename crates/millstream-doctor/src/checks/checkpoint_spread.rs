//! Check `checkpoint-spread`: checkpoints that write in a burst.

use super::checkpoints::Checkpoints;
use super::number::number;
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::server::Server;
use millstream_model::{Class, Finding, Level};
use millstream_pg::Error;
use millstream_pg::sizing::{CHECKPOINT_FLUSH, CHECKPOINT_SPREAD};

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
    let sql = "select current_setting('checkpoint_completion_target')::float8";
    let target: f64 = server.session.client.query_one(sql, &[]).await?.get(0);
    let Checkpoints { view, row } = Checkpoints::of(server).await?;
    let early = (target < task.threshold("target")).then(|| burst(server, &task, target));
    let checkpoints = number(&row, "timed") + number(&row, "requested");
    let mean = number(&row, "sync_ms") as f64 / 1e3 / (checkpoints.max(1) as f64);
    let waits = checkpoints as f64 >= task.threshold("count") && mean >= task.threshold("sync_seconds");
    let late = waits.then(|| {
        let mut finding = stall(server, &task, mean).with("checkpoints", checkpoints, view);
        finding.counted_seconds = row.get("seconds");
        finding
    });
    Ok(early.into_iter().chain(late).collect())
}

fn burst(server: &Server, task: &Task, target: f64) -> Finding {
    let name = CHECKPOINT_SPREAD.name;
    let sentence = format!("a checkpoint writes its pages in {:.0} % of the time until the next one", target * 100.0);
    let mut finding = task.finding(Level::Info, name, sentence).with(name, target, "pg_settings");
    finding.alternative = Some("somebody has set it so on purpose, for a quick shutdown".to_owned());
    let risk = "recovery after a crash takes a little longer";
    finding.repair = Some(server.setting(name, CHECKPOINT_SPREAD.value, "spread the writing", risk));
    finding
}

fn stall(server: &Server, task: &Task, mean: f64) -> Finding {
    let sentence = format!("a checkpoint ends with {mean:.1} s of waiting for the disk, on average");
    let mut finding = task.finding(Level::Warning, "", sentence);
    finding.alternative = Some("a few large checkpoints, for instance after a load, make the mean".to_owned());
    let sentence = "let the server flush what it writes early; see also dirty-limits";
    let risk = "pages that are written again soon go to the disk twice";
    finding.repair = Some(server.setting(CHECKPOINT_FLUSH.name, CHECKPOINT_FLUSH.value, sentence, risk));
    finding
}
