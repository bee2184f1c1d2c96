//! Check `checkpoint-timeout`: checkpoints that come by time more often than is good.

use super::checkpoints::Checkpoints;
use super::number::number;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::quantity::{age, count};
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "checkpoint-timeout",
    about: "checkpoints that come so often that most changed pages are logged whole",
    class: Class::Arithmetic,
    thresholds: &[("seconds", 300.0)],
    manual: include_str!("checkpoint_timeout.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

/// What Millstream sets on its own servers.
const FITTING: &str = "15min";

async fn look(server: &Server, task: Task) -> Looked {
    let sql = "select s.reset_val::float8 as seconds, w.wal_fpi, w.wal_records \
               from pg_settings as s, pg_stat_wal as w where s.name = 'checkpoint_timeout'";
    let set = server.session.client.query_one(sql, &[]).await?;
    let seconds: f64 = set.get("seconds");
    if seconds >= task.threshold("seconds") {
        return Ok(Seen::default());
    }
    let Checkpoints { view, row } = Checkpoints::of(server).await?;
    let sentence =
        format!("a checkpoint comes every {}, and after each the next change of a page logs it whole", age(seconds));
    Ok(task
        .finding(Level::Warning, "checkpoint_timeout", sentence)
        .with("checkpoint_timeout", age(seconds), "pg_settings")
        .with("checkpoints by time", count(number(&row, "timed")), view)
        .with("whole pages in the WAL", count(number(&set, "wal_fpi")), "pg_stat_wal")
        .with("all records in the WAL", count(number(&set, "wal_records")), "pg_stat_wal")
        .counted(row.get::<_, Option<f64>>("seconds").unwrap_or(0.0))
        .unless("recovery after a crash must end within seconds, and that was measured")
        .repaired_by(server.setting(
            "checkpoint_timeout",
            FITTING,
            "let checkpoints come less often",
            "recovery after a crash takes longer: it replays the WAL since the last checkpoint",
        ))
        .into())
}
