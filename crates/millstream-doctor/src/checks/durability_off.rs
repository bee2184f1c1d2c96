//! Check `durability-off`: settings with which a crash destroys data or loses commits.

use super::command;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::{Class, Danger, Level};
use tokio_postgres::Row;

/// A setting that should not be off.
struct Setting {
    name: &'static str,
    level: Level,
    /// What happens when it is off.
    danger: &'static str,
    /// Why it may be right.
    unless: &'static str,
    /// A managed service decides it, and knows what its storage needs.
    is_of_storage: bool,
}

const SETTINGS: &[Setting] = &[
    Setting {
        name: "fsync",
        level: Level::Critical,
        danger: "a crash of the machine may destroy the whole cluster",
        unless: "the data can be made again, and somebody decided that",
        is_of_storage: true,
    },
    Setting {
        name: "full_page_writes",
        level: Level::Critical,
        danger: "a crash of the machine may destroy pages that were being written",
        unless: "the file system never writes half a page, such as ZFS",
        is_of_storage: true,
    },
    Setting {
        name: "synchronous_commit",
        level: Level::Info,
        danger: "a crash of the server loses the commits of the last moments, and nothing older",
        unless: "commits may be lost in a crash, and somebody decided that",
        is_of_storage: false,
    },
];

pub(super) const CHECK: Check = Check {
    id: "durability-off",
    about: "settings with which a crash destroys data or loses commits",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("durability_off.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let ours = |setting: &&Setting| server.provider().is_none() || !setting.is_of_storage;
    let names: Vec<&str> = SETTINGS.iter().filter(ours).map(|setting| setting.name).collect();
    // What is valid for this session, this role or this database alone does not count.
    let sql = "select name, source, source in ('database', 'user', 'database user', 'client') as is_own from pg_settings \
               where name = any($1) and reset_val = 'off'";
    let (own, rows): (Vec<Row>, Vec<Row>) =
        server.session.client.query(sql, &[&names]).await?.into_iter().partition(|row| row.get("is_own"));
    let unseen = own.first().map(|row| {
        let name: &str = row.get(0);
        format!("what other sessions have for {name}, because this role or database has a value of its own")
    });
    let found = SETTINGS.iter().filter_map(|Setting { name, level, danger, unless, .. }| {
        let row = rows.iter().find(|row| row.get::<_, &str>(0) == *name)?;
        let (sentence, risk) = (format!("switch {name} on"), "commits wait for the disk again");
        let mut repair = server.setting(name, "on", &sentence, risk);
        if *name == "fsync" {
            // Nobody has asked the system yet to write what it has collected until now. PostgreSQL's manual, fsync.
            repair.sentence +=
                "; then let the system write what it has not written yet, or a crash may still destroy it";
            repair.commands.push("$ sync".to_owned());
        }
        if *name == "full_page_writes" {
            // Pages that were changed since the last checkpoint are logged whole only after the next one.
            repair.sentence += "; then make a checkpoint, or a crash before the next one may still destroy pages";
            let place = command::connection(&server.db, &server.session.server.database);
            repair.commands.push(format!("$ psql{place} -c checkpoint"));
        }
        Some(
            task.finding(*level, *name, format!("it is off: {danger}"))
                .endangers(Danger::Data)
                .with("value", "off", "pg_settings")
                .with("set by", row.get::<_, String>(1), "pg_settings.source")
                .unless(*unless)
                .repaired_by(repair),
        )
    });
    let seen: Seen = found.collect();
    Ok(seen.but(unseen))
}
