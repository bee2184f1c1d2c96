//! Check `trigger-disabled`: triggers that do not run, among them those that enforce foreign keys.

use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Danger, Level};

pub(super) const CHECK: Check = Check {
    id: "trigger-disabled",
    about: "triggers that are switched off; without its triggers a foreign key is not enforced",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("trigger_disabled.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let rows = database.worst(include_str!("trigger_disabled.sql"), &[]).await?;
    let found = rows.iter().map(|row| {
        let (table, name): (String, String) = (row.get("table_name"), row.get("name"));
        let states = row.get::<_, String>("states");
        if row.get("is_key") {
            let sentence = "this foreign key is not enforced, because its triggers are disabled";
            return task
                .finding(Level::Critical, format!("{table}.{name}"), sentence)
                .with("its triggers", states, "pg_trigger.tgenabled")
                .endangers(Danger::Data)
                .repaired(
                    "enable the triggers; then drop the foreign key and add it again, so that all rows are looked at",
                    "rows that came meanwhile may break the key, and adding it again fails until you have mended them",
                )
                .run([enable(&table, &row.get::<_, Vec<String>>("triggers"))]);
        }
        task.finding(Level::Warning, format!("{table}.{name}"), "this trigger is disabled: it runs in no session")
            .with("its state", states, "pg_trigger.tgenabled")
            .unless("it is left out on purpose, as while data is copied")
            .repaired("enable it, or drop it if nobody needs it", "what it should have done meanwhile stays undone")
            .run([enable(&table, &[name])])
    });
    Ok(found.collect())
}

/// Enables these triggers. With `all`, others that are left out on purpose would run too.
fn enable(table: &str, triggers: &[String]) -> String {
    let each: Vec<String> = triggers.iter().map(|name| format!("enable trigger {name}")).collect();
    format!("alter table {table} {}", each.join(", "))
}
