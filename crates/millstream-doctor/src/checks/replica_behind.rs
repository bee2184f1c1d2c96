//! Check `replica-behind`: a standby that does not keep up, seen from its primary and from itself.

use super::number::{bytes, number};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::quantity::{self, age};
use millstream_model::{Class, Finding, Level};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "replica-behind",
    about: "standbys that are far behind: they show old data, and a failover to them loses or waits for the rest",
    class: Class::Fact,
    thresholds: &[("mb", 256.0), ("seconds", 60.0)],
    manual: include_str!("replica_behind.md"),
    looks: &[
        Look::Server(|server, task| Box::pin(replicas(server, task))),
        Look::Server(|server, task| Box::pin(standby(server, task))),
    ],
};

/// What the server sees that sends the WAL.
async fn replicas(server: &Server, task: Task) -> Looked {
    let (least, seconds) = (task.threshold("mb") * 1e6, task.threshold("seconds"));
    let rows = server.worst(include_str!("replica_behind.sql"), &[&least, &seconds]).await?;
    let hidden = (!server.may_monitor).then(|| "replicas; grant pg_monitor to this role to see them".to_owned());
    Ok(rows.iter().map(|row| replica(row, &task)).collect::<Seen>().but(hidden))
}

fn replica(row: &Row, task: &Task) -> Finding {
    let (name, sync): (String, String) = (row.get("name"), row.get("sync_state"));
    let time = row.get::<_, Option<f64>>("seconds").map(|seconds| format!(", {}", age(seconds)));
    let sentence = format!("this replica is {}{} behind", bytes(row, "bytes"), time.unwrap_or_default());
    // Where most of it is decides what to look at.
    let parts = [
        ("unsent", "to be sent", "look at the network, and at what the replica's machine does"),
        ("unflushed", "to be written there", "look at the disk of the replica's WAL"),
        (
            "unreplayed",
            "to be replayed there",
            "look there for queries that the replay waits for, for a paused replay, and at its disk",
        ),
    ];
    let [unsent, unflushed, unreplayed] = parts.map(|(column, ..)| number(row, column));
    let most = unsent.max(unflushed).max(unreplayed);
    let advice = parts.iter().find(|(column, ..)| number(row, column) == most).map_or("", |(.., advice)| *advice);
    let mut finding = task.finding(Level::Warning, name, sentence);
    for (column, what, _) in parts {
        finding = finding.with(&format!("WAL {what}"), bytes(row, column), "pg_stat_replication");
    }
    let risk = match sync.as_str() {
        "sync" | "quorum" => "until it has caught up, commits wait for it",
        _ => "until it has caught up, the server keeps WAL for it if it has a slot",
    };
    finding
        .with("state", row.get::<_, String>("state"), "pg_stat_replication")
        .with("synchronous", sync, "pg_stat_replication")
        .unless("it was just made or restarted, or recovery_min_apply_delay holds it back on purpose")
        .repaired(advice, risk)
}

/// What a standby sees of itself.
async fn standby(server: &Server, task: Task) -> Looked {
    if !server.session.server.in_recovery {
        return Ok(Seen::default());
    }
    let row = server.session.client.query_one(include_str!("replica_behind_standby.sql"), &[]).await?;
    let behind = number(&row, "bytes");
    let since = row.get::<_, Option<f64>>("seconds").map_or_else(|| "unknown".to_owned(), age);
    let is_far = behind as f64 >= task.threshold("mb") * 1e6 && !row.get::<_, bool>("is_delayed");
    let (subject, sentence, advice, commands) = if row.get("is_paused") {
        let resume = vec!["select pg_wal_replay_resume()"];
        ("replay", "the replay of this standby is paused".to_owned(), "resume it", resume)
    } else if row.get("is_cut_off") {
        let sentence = "this standby receives nothing from its primary".to_owned();
        let advice =
            "read the server's log for the reason: the address, the password, or WAL that the primary has removed";
        ("receiver", sentence, advice, Vec::new())
    } else if is_far {
        let sentence = format!("this standby has {} to replay", quantity::bytes(behind));
        ("replay", sentence, "look for queries that the replay waits for, and at the disk", Vec::new())
    } else {
        return Ok(Seen::default());
    };
    Ok(task
        .finding(Level::Warning, subject, sentence)
        .with("received but not replayed", quantity::bytes(behind), "pg_last_wal_receive_lsn")
        .with("age of the last transaction replayed", since, "pg_last_xact_replay_timestamp")
        .repaired(advice, "none")
        .run(commands)
        .into())
}
