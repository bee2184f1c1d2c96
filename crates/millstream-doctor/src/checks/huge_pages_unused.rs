//! Check `huge-pages-unused`: much shared memory in small pages.

use super::number::size;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use crate::limits::MANY_PROCESSORS;
use crate::server::Server;
use millstream_model::{Change, Class, Level, Repair};

pub(super) const CHECK: Check = Check {
    id: "huge-pages-unused",
    about: "large shared_buffers in pages of 4 KiB, for which every session keeps its own table",
    class: Class::Hypothesis,
    thresholds: &[("shared_gb", 8.0)],
    manual: include_str!("huge_pages_unused.md"),
    looks: &[Look::Machine(|server, host, task| Box::pin(look(server, host, task)))],
};

async fn look(server: &Server, host: &Host, task: Task) -> Looked {
    let client = &server.session.client;
    let row = client.query_one(include_str!("huge_pages_unused.sql"), &[]).await?;
    let shared: f64 = row.get("shared_bytes");
    let (status, needed): (Option<String>, Option<i64>) = (row.get("status"), row.get("needed"));
    // Before PostgreSQL 17 the server does not say whether it has them: those of the machine that are taken tell.
    let taken = || Some(host.memory("HugePages_Total")? - host.memory("HugePages_Free")? > 0.0);
    let uses = status.as_deref().map_or_else(|| taken().unwrap_or(false), |status| status == "on");
    let Some(needed) = needed.filter(|needed| *needed > 0 && !uses && shared >= task.threshold("shared_gb") * 1e9)
    else {
        return Ok(Seen::default());
    };
    let tables = host.memory("PageTables").unwrap_or(0.0) * 1_024.0;
    let [total, free, reserved] =
        ["Total", "Free", "Rsvd"].map(|name| host.memory(&format!("HugePages_{name}")).unwrap_or(0.0));
    let aside = aside(total, free, reserved, needed as f64);
    let sentence = format!("{} of shared memory are in pages of 4 KiB", size(shared));
    let processors = host.processors();
    let suffers = suffers(host.kernel(), processors);
    let level = if suffers { Level::Warning } else { Level::Info };
    let finding = task
        .finding(level, "huge_pages", sentence)
        .with("huge_pages", row.get::<_, String>("setting"), "pg_settings")
        .with("tables of pages of all processes", size(tables), "/proc/meminfo")
        .with("huge pages that it needs", needed, "shared_memory_size_in_huge_pages")
        .with("huge pages that are free", free - reserved, "/proc/meminfo");
    let (sentence, commands) = match aside {
        Some(aside) => (
            "set huge pages aside, restart the server, and measure before and after",
            vec![
                format!("$ sysctl -w vm.nr_hugepages={aside:.0}"),
                format!("-- and in a file in /etc/sysctl.d: vm.nr_hugepages = {aside:.0}"),
            ],
        ),
        None => ("restart the server, because enough huge pages are free; measure before and after", Vec::new()),
    };
    let repair = Repair::new(
        sentence,
        "memory that is set aside serves nothing else; with huge_pages = on the server does not start without it",
    )
    .run(commands)
    .run(["-- with huge_pages = try the server takes them when it starts"])
    .changes(Change::new("setting", "huge_pages", "on"));
    Ok(finding
        .with_known("kernel", suffers.then(|| host.word(Host::RELEASE).unwrap_or_default()), Host::RELEASE)
        .with_known("processors", suffers.then_some(processors), "/proc/cpuinfo")
        .unless("few sessions work at a time, so that their tables of pages stay small")
        .repaired_at_start(repair)
        .into())
}

/// Whether the kernel makes small pages expensive on so many processors. From version 7.0 on it may interrupt a process
/// that holds a spinlock, and a fault on a small page under such a lock keeps all others waiting.
fn suffers(kernel: Option<(u32, u32)>, processors: u32) -> bool {
    kernel.is_some_and(|(major, _)| major >= 7) && processors >= MANY_PROCESSORS
}

/// How many huge pages the machine should set aside, so that the server gets as many as it needs. What others use or have
/// reserved stays theirs. `None` if enough are free: a smaller number would take some away.
fn aside(total: f64, free: f64, reserved: f64, needed: f64) -> Option<f64> {
    let wanted = total - free + reserved + needed;
    (wanted > total).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_are_expensive_on_a_new_kernel_with_many_processors() {
        assert!(suffers(Some((7, 0)), 96));
        assert!(!suffers(Some((6, 18)), 96) && !suffers(Some((7, 0)), 8) && !suffers(None, 96));
    }

    #[test]
    fn huge_pages_that_are_set_aside_stay() {
        assert_eq!(aside(0.0, 0.0, 0.0, 100.0), Some(100.0));
        assert_eq!(aside(500.0, 500.0, 0.0, 100.0), None);
        assert_eq!(aside(500.0, 500.0, 450.0, 100.0), Some(550.0), "others have reserved them");
        assert_eq!(aside(500.0, 50.0, 0.0, 100.0), Some(550.0), "others use them");
    }
}
