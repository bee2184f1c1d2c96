//! Check `top-statement`: statements that take most of the server's time.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::{Database, Server};
use millstream_model::quantity::age;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "top-statement",
    about: "statements that take most of the time of a database: where work on it pays most",
    class: Class::Arithmetic,
    thresholds: &[("percent", 25.0), ("seconds", 600.0)],
    manual: include_str!("top_statement.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    let statements = task.statements(database).await?;
    let (percent, seconds) = (task.threshold("percent"), task.threshold("seconds"));
    let top = statements.list.iter().filter(|one| one.percent >= percent && one.milliseconds >= seconds * 1e3);
    let found = top.map(|one| {
        let sentence = format!(
            "a statement took {:.0} % of the time of all statements: {}",
            one.percent,
            age(one.milliseconds / 1e3)
        );
        one.add_to(task.finding(Level::Info, format!("{:016x}", one.id), sentence))
            .unless("it is the work that the server is there for")
            .repaired(
                match server.planner {
                    Some(_) => "see where its time goes; missing-index names an index, if one would help",
                    None => "see where its time goes; --prove says whether it misses an index",
                },
                "with analyze the statement is executed",
            )
            .run(one.is_planned.then(|| format!("-- explain (analyze, buffers) {}", one.shown())))
    });
    Ok(found.collect::<Seen>().but(statements.unseen.clone()))
}
