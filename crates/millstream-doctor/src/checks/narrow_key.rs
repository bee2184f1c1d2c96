//! Check `narrow-key`: keys that run out of numbers, and get them from no sequence.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use millstream_model::quantity::count;
use millstream_model::{Class, Danger, Level};

pub(super) const CHECK: Check = Check {
    id: "narrow-key",
    about: "keys near the largest number of their type, in columns that get no number from a sequence",
    class: Class::Arithmetic,
    thresholds: &[("percent", 70.0), ("critical_percent", 90.0)],
    manual: include_str!("narrow_key.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let share = task.threshold("percent") / 100.0;
    let rows = database.worst(include_str!("narrow_key.sql"), &[&share]).await?;
    let found = rows.iter().map(|row| {
        let (table, column): (String, String) = (row.get("table_name"), row.get("column_name"));
        let (largest, end): (i64, i64) = (row.get("largest"), row.get("end_value"));
        let percent = 100.0 * largest as f64 / end as f64;
        // So few numbers are often ports or codes.
        let is_small = end < i64::from(i32::MAX);
        let level =
            if !is_small && percent >= task.threshold("critical_percent") { Level::Critical } else { Level::Warning };
        let number = |value: i64| count(u64::try_from(value).unwrap_or(0));
        task.finding(
            level,
            format!("{table}.{column}"),
            format!("{percent:.0} % of the numbers of its type are used up"),
        )
        .with("largest value at the last analyze", number(largest), "pg_stats")
        .with("largest value of the type", number(end), row.get::<_, &str>("type"))
        .endangers(Danger::Service)
        .unless("the numbers are no counter, such as hashes or codes")
        .repaired(
            "make the column bigint, and with it all that refer to it; on a large table add a new column instead, \
                 fill it in steps and swap them",
            "it rewrites the table and its indexes under an exclusive lock",
        )
        .run([format!("alter table {table} alter column {column} type bigint")])
    });
    let found: Seen = found.collect();
    let hidden = "select count(*) from pg_class where relkind in ('r', 'p') and relpersistence <> 't' and reltuples > 0 \
                  and relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) \
                  and not has_table_privilege(oid, 'select')";
    let hidden: i64 = database.session.client.query_one(hidden, &[]).await?.get(0);
    let unseen = (hidden > 0).then(|| {
        format!("keys of tables that this role may not read: {hidden}; grant pg_read_all_data to it, or select on them")
    });
    Ok(found.but(unseen))
}
