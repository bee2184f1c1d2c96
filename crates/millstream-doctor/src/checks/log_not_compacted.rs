//! Check `log-not-compacted`: collections of Millstream whose documents wait to be merged into their table.

use super::ours::{schemas, seconds_since, unread};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use millstream_model::quantity::{age, bytes, count};
use millstream_model::{Class, Level, shell_word};
use millstream_store::collections;

pub(super) const CHECK: Check = Check {
    id: "log-not-compacted",
    about: "collections of Millstream whose documents wait to be merged into their table",
    class: Class::Fact,
    thresholds: &[("hours", 24.0)],
    manual: include_str!("log_not_compacted.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    for schema in schemas(database).await? {
        for collection in collections::list(&database.session.client, &schema).await.map_err(unread)? {
            let Some(since) = &collection.waiting_since else { continue };
            let waits = seconds_since(database, since).await?;
            if waits < task.threshold("hours") * 3_600.0 {
                continue;
            }
            let name = collection.name.to_string();
            let sentence = format!("documents wait to be merged into the table, the oldest for {}", age(waits));
            let source = "millstream collections";
            let finding = task
                .finding(Level::Info, name.clone(), sentence)
                .with("segments", count(collection.segments), source)
                .with("their documents", bytes(collection.segment_bytes), source)
                .unless("nobody reads the table with SQL, and nothing is published from it")
                .repaired(
                    "merge them; do it again and again, for instance every hour",
                    "it takes processor and disk, beside other work",
                )
                .run([format!("$ millstream compact {}", shell_word(&name))]);
            task.keep(finding);
        }
    }
    Ok(Seen::default())
}
