//! Check `huge-pages-unused`: much shared memory in small pages.

use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::host::Host;
use crate::server::Server;
use millstream_model::quantity::bytes;
use millstream_model::{Change, Class, Level, Repair, Restart};
use millstream_pg::Error;

pub(super) const CHECK: Check = Check {
    id: "huge-pages-unused",
    about: "large shared_buffers in pages of 4 KiB, for which every session keeps its own table",
    class: Class::Hypothesis,
    thresholds: &[Threshold { name: "shared_gb", default: 8.0 }],
    manual: include_str!("huge_pages_unused.md"),
    looks: &[Look::Machine(|server, host, task| Box::pin(look(server, host, task)))],
};

async fn look(server: &Server, host: &Host, task: Task) -> Result<Seen, Error> {
    let client = &server.session.client;
    let row = client.query_one(include_str!("huge_pages_unused.sql"), &[]).await?;
    let shared: f64 = row.get("shared_bytes");
    let (status, needed): (Option<String>, Option<i64>) = (row.get("status"), row.get("needed"));
    // Before PostgreSQL 17 the server does not say whether it has them: those of the machine that are taken tell.
    let taken = || Some(host.memory("HugePages_Total")? - host.memory("HugePages_Free")? > 0.0);
    let uses = status.as_deref().map_or_else(|| taken().unwrap_or(false), |status| status == "on");
    let used = host.memory("HugePages_Total").zip(host.memory("HugePages_Free")).map_or(0.0, |(all, free)| all - free);
    let Some(needed) = needed.filter(|needed| *needed > 0 && !uses && shared >= task.threshold("shared_gb") * 1e9)
    else {
        return Ok(Seen::default());
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let (size, tables) = (shared as u64, (host.memory("PageTables").unwrap_or(0.0) * 1_024.0) as u64);
    let aside = used + needed as f64;
    let sentence = format!("{} of shared memory are in pages of 4 KiB", bytes(size));
    let mut finding = task
        .finding(Level::Info, "huge_pages", sentence)
        .with("huge_pages", row.get::<_, String>("setting"), "pg_settings")
        .with("tables of pages of all processes", bytes(tables), "/proc/meminfo")
        .with("huge pages that it needs", needed, "shared_memory_size_in_huge_pages");
    finding.alternative = Some("few sessions work at a time, so that their tables of pages stay small".to_owned());
    finding.repair = Some(Repair {
        sentence: "set huge pages aside, start the server again, and measure before and after".to_owned(),
        commands: vec![
            // Those that others use stay theirs.
            format!("$ sysctl -w vm.nr_hugepages={aside:.0}"),
            format!("-- and in a file in /etc/sysctl.d: vm.nr_hugepages = {aside:.0}"),
            "-- with huge_pages = try the server takes them when it starts".to_owned(),
        ],
        risk: "memory that is set aside serves nothing else; with huge_pages = on the server does not start without it"
            .to_owned(),
        restart: Restart::Server,
        change: None,
    });
    let (kind, target) = ("setting".to_owned(), "huge_pages".to_owned());
    finding.experiment = Some(Change { kind, target, value: Some("on".to_owned()) });
    Ok([finding].into_iter().collect())
}
