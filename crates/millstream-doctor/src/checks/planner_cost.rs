//! Check `planner-cost`: costs and switches by which the planner takes bad plans in every session.

use crate::check::{Check, Look, Looked, Task};
use crate::server::Server;
use millstream_model::{Class, Level};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "planner-cost",
    about: "costs far from what reads and rows cost, and ways of planning that are off for all sessions",
    class: Class::Fact,
    thresholds: &[("times", 10.0), ("random_max", 10.0)],
    manual: include_str!("planner_cost.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let rows = server.session.client.query(include_str!("planner_cost.sql"), &[]).await?;
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.get::<_, &str>("name") == name)?;
        row.get::<_, Option<f64>>("number")
    };
    let sequential = value("seq_page_cost").unwrap_or(1.0);
    let found = rows.iter().filter_map(|row| {
        let (name, now): (&str, &str) = (row.get("name"), row.get("now"));
        let sentence = wrong(row, sequential, &task)?;
        let usual: &str = row.get("usual");
        Some(
            task.finding(Level::Warning, name, sentence)
                .with(name, now, "pg_settings")
                .unless("somebody has measured your queries with it")
                .repaired_by(server.setting(name, usual, "take the default", "plans change; measure before and after")),
        )
    });
    Ok(found.collect())
}

/// What is wrong with a setting, if something is.
fn wrong(row: &Row, sequential: f64, task: &Task) -> Option<String> {
    let name: &str = row.get("name");
    let Some((now, usual)) = row.get::<_, Option<f64>>("number").zip(row.get::<_, Option<f64>>("usual_number")) else {
        let is_off = row.get::<_, &str>("now") == "off" && row.get::<_, &str>("usual") == "on";
        return is_off.then(|| "no session's planner may use it".to_owned());
    };
    if name == "random_page_cost" {
        return match now {
            now if now < sequential => Some(
                "a random read costs less than one in sequence: the planner prefers indexes where they are slower"
                    .to_owned(),
            ),
            now if now > task.threshold("random_max") * sequential => {
                Some("random reads cost so much that the planner avoids indexes".to_owned())
            }
            _ => None,
        };
    }
    let times = task.threshold("times");
    let is_far = now * times < usual || now > usual * times;
    is_far.then(|| format!("it is more than {times} times away from its default"))
}
