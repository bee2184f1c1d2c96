//! Check `commit-delay`: commits that wait for others.

use crate::check::{Check, Look, Seen, Task};
use crate::server::Server;
use millstream_model::{Class, Level};
use millstream_pg::Error;

pub(super) const CHECK: Check = Check {
    id: "commit-delay",
    about: "commits wait for others that may come, which costs latency on a fast disk",
    class: Class::Hypothesis,
    thresholds: &[],
    manual: include_str!("commit_delay.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Result<Seen, Error> {
    let sql = "select setting from pg_settings where name = 'commit_delay' and setting <> '0'";
    let Some(row) = server.session.client.query_opt(sql, &[]).await? else { return Ok(Seen::default()) };
    let microseconds: String = row.get(0);
    let sentence =
        format!("each durable commit may wait {microseconds} us for others, so that one flush serves several");
    let mut finding = task.finding(Level::Info, "commit_delay", sentence).with(
        "commit_delay",
        format!("{microseconds} us"),
        "pg_settings",
    );
    finding.alternative = Some("flushes are slow here, and many sessions commit at the same time".to_owned());
    let risk = "on a slow disk with many sessions, fewer commits share a flush";
    finding.repair = Some(server.setting("commit_delay", "0", "switch it off, and measure before and after", risk));
    Ok([finding].into_iter().collect())
}
