//! Check `archiver-failing`: WAL that does not reach the archive.

use super::number::{count, number};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::quantity::{age, bytes};
use millstream_model::{Class, Danger, Level};

pub(super) const CHECK: Check = Check {
    id: "archiver-failing",
    about: "WAL that does not reach the archive: no backup goes past it, and it fills the disk",
    class: Class::Fact,
    thresholds: &[("files", 20.0), ("critical_minutes", 10.0)],
    manual: include_str!("archiver_failing.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let client = &server.session.client;
    let row = client.query_one(include_str!("archiver_failing.sql"), &[]).await?;
    if !row.get::<_, bool>("archives") {
        return Ok(Seen::default());
    }
    let (waiting, oldest, unseen) = if server.may_monitor {
        let row = client.query_one(include_str!("archiver_failing_ready.sql"), &[]).await?;
        (number(&row, "waiting"), row.get::<_, Option<f64>>("seconds"), None)
    } else {
        (0, None, Some("how many WAL files wait for the archive; grant pg_monitor to this role to see it".to_owned()))
    };
    let (is_failing, has_command): (bool, bool) = (row.get("is_failing"), row.get("has_command"));
    let archived_ago: Option<f64> = row.get("archived_ago");
    let last = archived_ago.map_or_else(|| "never".to_owned(), |seconds| format!("{} ago", age(seconds)));
    // An idle server archives seldom: what counts is how long a file has waited.
    let is_long = oldest.or(archived_ago).is_none_or(|seconds| seconds >= 60.0 * task.threshold("critical_minutes"));
    let many = waiting as f64 >= task.threshold("files");
    let sentence = match (has_command, is_failing) {
        (false, _) if waiting > 0 => "archive_mode is on, but there is no archive_command".to_owned(),
        (true, true) if archived_ago.is_none() => {
            "the archive command fails, and has never archived a file of WAL".to_owned()
        }
        (true, true) => format!("the archive command fails; it last archived a file of WAL {last}"),
        (true, false) if many => {
            format!("{} files of WAL wait for the archive", millstream_model::quantity::count(waiting))
        }
        _ => return Ok(Seen::default().but(unseen)),
    };
    let level = if is_failing && has_command && is_long { Level::Critical } else { Level::Warning };
    let failed = row.get::<_, Option<String>>("last_failed").unwrap_or_else(|| "none".to_owned());
    let finding = task
        .finding(level, "", sentence)
        .with("last file that was archived", last, "pg_stat_archiver")
        .with("last file that failed", failed, "pg_stat_archiver")
        .with("failures", count(&row, "failed"), "pg_stat_archiver")
        .with("files that wait", waiting, "pg_ls_archive_statusdir")
        .with("their size", bytes(waiting * number(&row, "segment_bytes")), "wal_segment_size")
        .wastes(waiting * number(&row, "segment_bytes"))
        .endangers(Danger::Data)
        .unless("you have just changed the command, and it has not archived a file since")
        .repaired(
            "read in the server's log what the command printed, and mend it or the place to which it writes",
            "until then the server keeps all WAL, and the disk of pg_wal fills up",
        );
    Ok(Seen::from(finding).but(unseen))
}
