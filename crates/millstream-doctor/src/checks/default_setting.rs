//! Check `default-setting`: settings that a new server has, on a machine that is larger than those it is made for.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use crate::server::Server;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Finding, Level};
use millstream_pg::sizing::{BuildFacts, Setting, settings};

pub(super) const CHECK: Check = Check {
    id: "default-setting",
    about: "sizes and costs that are still those of a new server, on a machine that has much more",
    class: Class::Hypothesis,
    thresholds: &[("times", 8.0)],
    manual: include_str!("default_setting.md"),
    looks: &[Look::Machine(|server, host, task| Box::pin(look(server, host, task)))],
};

/// Settings that a new server sets for a small machine, and the last version that does.
const NAMES: &[(&str, u32)] = &[
    ("shared_buffers", u32::MAX),
    ("effective_cache_size", u32::MAX),
    ("maintenance_work_mem", u32::MAX),
    // From 18 on the default is 16.
    ("effective_io_concurrency", 17),
    ("random_page_cost", u32::MAX),
];

const MB: f64 = 1_048_576.0;

async fn look(server: &Server, host: &Host, task: Task) -> Looked {
    let facts = host.facts()?;
    let major = u32::try_from(server.version_num() / 10_000).unwrap_or(0);
    let fitting = settings(&facts, BuildFacts { major, lz4: false });
    let mut seen = Seen::default();
    for one in fitting.iter().filter(|one| NAMES.iter().any(|(name, last)| *name == one.name && major <= *last)) {
        let row = server.session.client.query_one(include_str!("setting.sql"), &[&one.name]).await?;
        let (is_default, number): (bool, f64) = (row.get("is_default"), row.get("number"));
        if is_default && !row.get::<_, bool>("is_own") && differs(number, one, task.threshold("times")) {
            let source = "/proc/meminfo, memory limit of the control group";
            let finding = finding(&task, row.get("shown"), one).with(
                "memory that the server can use",
                bytes(facts.usable_bytes()),
                source,
            );
            let risk = "plans or the use of memory change; the old value is one command away";
            let repair = server.setting(one.name, &one.value, "try it, and measure before and after", risk);
            seen.findings.push(match row.get("needs_restart") {
                true => finding.repaired_at_start(repair),
                false => finding.repaired_by(repair),
            });
        }
    }
    Ok(seen)
}

/// Whether the machine could have so many times more. A cost is a choice between two kinds of disk.
fn differs(number: f64, fitting: &Setting, times: f64) -> bool {
    match (fitting.name, fitting.value.strip_suffix("MB").and_then(|size| size.parse::<f64>().ok())) {
        ("random_page_cost", _) => fitting.value.parse::<f64>().is_ok_and(|cost| cost < number),
        (_, Some(size)) => size * MB >= number * times,
        (_, None) => fitting.value.parse::<f64>().is_ok_and(|value| value >= number * times),
    }
}

fn finding(task: &Task, shown: &str, fitting: &Setting) -> Finding {
    let sentence =
        format!("it is {shown}, as on a new server; for this machine one would begin with {}", fitting.value);
    task.finding(Level::Info, fitting.name, sentence)
        .with(fitting.name, shown, "pg_settings")
        .with("why another value", &fitting.reason, "the table by which Millstream sets up servers")
        .unless("the machine has other work to do, or somebody has measured it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_compared_by_factor_and_costs_by_direction() {
        let fitting = |name, value: &str| Setting { name, value: value.to_owned(), reason: String::new() };
        assert!(differs(128.0 * MB, &fitting("shared_buffers", "1024MB"), 8.0));
        assert!(!differs(128.0 * MB, &fitting("shared_buffers", "1023MB"), 8.0));
        assert!(differs(4.0, &fitting("random_page_cost", "1.1"), 8.0));
        assert!(!differs(4.0, &fitting("random_page_cost", "4"), 8.0));
        assert!(differs(1.0, &fitting("effective_io_concurrency", "200"), 8.0));
    }
}
