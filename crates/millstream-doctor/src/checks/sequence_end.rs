//! Check `sequence-end`: sequences that run out of numbers.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use millstream_model::{Class, Danger, Finding, Level};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "sequence-end",
    about: "sequences near the end of their numbers, or of those that fit their column, after which inserts fail",
    class: Class::Arithmetic,
    thresholds: &[("percent", 70.0), ("critical_percent", 90.0)],
    manual: include_str!("sequence_end.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let share = task.threshold("percent") / 100.0;
    let rows = database.worst(include_str!("sequence_end.sql"), &[&share]).await?;
    // The last value of a sequence that the role may not read is null.
    let hidden = "select count(*) from pg_sequence join pg_class as c on c.oid = seqrelid and c.relpersistence <> 't' \
                  where not pg_has_role('pg_read_all_data', 'usage') \
                  and not has_sequence_privilege(seqrelid, 'select, usage')";
    let hidden: i64 = database.session.client.query_one(hidden, &[]).await?.get(0);
    let unseen = (hidden > 0).then(|| {
        format!("sequences that this role may not read: {hidden}; grant pg_read_all_data to it, or select on them")
    });
    Ok(rows.iter().map(|row| finding(row, &task)).collect::<Seen>().but(unseen))
}

fn finding(row: &Row, task: &Task) -> Finding {
    let name: String = row.get("name");
    let percent = 100.0 * row.get::<_, f64>("share");
    let level = if percent >= task.threshold("critical_percent") { Level::Critical } else { Level::Warning };
    let column: Option<(String, String)> =
        row.get::<_, Option<_>>("table_name").zip(row.get::<_, Option<_>>("column_name"));
    let of = column.as_ref().map(|(table, column)| format!(" of {table}.{column}")).unwrap_or_default();
    let found = format!("{percent:.0} % of its numbers{of} are used up");
    let mut commands = Vec::new();
    if row.get("ends_with_type") {
        commands.push(format!("alter sequence {name} as bigint"));
    }
    let widenings: Vec<String> = row.get("widenings");
    let narrow = !widenings.is_empty();
    commands.extend(widenings);
    let (sentence, risk) = match (commands.is_empty(), narrow) {
        (true, _) => {
            ("begin again at a number that is free, or let it have a larger end", "numbers that exist come again")
        }
        (false, false) => ("give the sequence the type bigint", "none"),
        (false, true) => (
            "make sequence and column bigint; on a large table add a new column instead, fill it in steps and swap them",
            "it rewrites the table and its indexes under an exclusive lock",
        ),
    };
    task.finding(level, name, found)
        .endangers(Danger::Service)
        .with("last value", row.get::<_, i64>("last_value"), "pg_sequences")
        .with("last one that fits", row.get::<_, i64>("end_value"), "pg_sequences, pg_attribute")
        .repaired(sentence, risk)
        .run(commands)
}
