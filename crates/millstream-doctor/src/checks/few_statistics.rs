//! Check `few-statistics`: columns about which the planner knows less than by default.

use super::number::with_analyzed;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::{Database, Server};
use millstream_model::{Class, Level};
use millstream_pg::sizing::STATISTICS;

pub(super) const CHECK: Check = Check {
    id: "few-statistics",
    about: "columns about which the planner knows less than by default, so that it guesses",
    class: Class::Fact,
    thresholds: &[("target", 100.0), ("rows", 10_000.0)],
    manual: include_str!("few_statistics.md"),
    looks: &[
        Look::Server(|server, task| Box::pin(look_at_server(server, task))),
        Look::Database(|_, database, task| Box::pin(look(database, task))),
    ],
};

async fn look_at_server(server: &Server, task: Task) -> Looked {
    let name = STATISTICS.name;
    let row = server.session.client.query_one(include_str!("setting.sql"), &[&name]).await?;
    let (number, shown, is_own): (f64, String, bool) = (row.get("number"), row.get("shown"), row.get("is_own"));
    if is_own || number >= task.threshold("target") {
        return Ok(Seen::default());
    }
    let sentence = format!("analyze looks at {} rows of a table, and keeps {shown} of its values", number * 300.0);
    let risk = "analyze and planning take a little longer";
    let repair = server.setting(name, STATISTICS.value, "set it to the default, and analyze the tables", risk);
    Ok(task
        .finding(Level::Info, name, sentence)
        .with(name, &shown, "pg_settings")
        .unless("queries are simple look-ups by key, and planning must be quick")
        .repaired_by(repair)
        .into())
}

async fn look(database: &Database, task: Task) -> Looked {
    let (target, rows) = (task.threshold("target"), task.threshold("rows"));
    let found = database.worst(include_str!("few_statistics.sql"), &[&target, &rows]).await?;
    let findings = found.iter().map(|row| {
        let (table, column, kept): (String, String, i32) =
            (row.get("table_name"), row.get("column"), row.get("target"));
        let sentence = match kept {
            0 => "analyze leaves this column out".to_owned(),
            _ => format!("analyze keeps {kept} values of this column"),
        };
        let (name, source) = ("statistics of the column", "pg_attribute.attstattarget");
        let finding = task.finding(Level::Info, format!("{table}.{column}"), sentence).with(name, kept, source);
        with_analyzed(finding, row.get("analyze_age"))
            .unless("no query compares this column, and its values are long")
            .repaired("let the server's setting count, and analyze the table", "plans change")
            .run([format!("alter table {table} alter column {column} set statistics -1"), format!("analyze {table}")])
    });
    Ok(findings.collect())
}
