//! Check `checksum-failure`: pages that came back from the disk as something else.

use super::number::{count, number};
use crate::check::{Check, Look, Looked, Task};
use crate::server::Server;
use millstream_model::quantity::age;
use millstream_model::{Class, Danger, Level};

pub(super) const CHECK: Check = Check {
    id: "checksum-failure",
    about: "pages whose checksum was wrong when they were read: the disk or the memory has changed them",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("checksum_failure.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let sql = "select coalesce(datname, 'shared tables') as name, checksum_failures as failures, \
               date_part('epoch', now() - checksum_last_failure)::float8 as ago \
               from pg_stat_database where checksum_failures > 0 order by failures desc, name";
    let rows = server.session.client.query(sql, &[]).await?;
    let found = rows.iter().map(|row| {
        let last = row.get::<_, Option<f64>>("ago").map_or_else(|| "unknown".to_owned(), |ago| format!("{} ago", age(ago)));
        let times = if number(row, "failures") == 1 { "once".to_owned() } else { format!("{} times", count(row, "failures")) };
        task.finding(Level::Critical, row.get::<_, String>("name"), format!("a page had a wrong checksum {times}"))
            .with("failures", count(row, "failures"), "pg_stat_database")
            .with("the last one", last, "pg_stat_database")
            .endangers(Danger::Data)
            .repaired(
                "find the file in the server's log, fail over to a standby or restore a backup, and test disk and memory",
                "do not write to the damaged table: a page that is written again hides the damage",
            )
    });
    Ok(found.collect())
}
