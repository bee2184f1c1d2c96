//! Check `transparent-huge-pages`: huge pages that the kernel makes behind the server's back.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_host::kernel::file::choice;
use millstream_model::{Class, Level, Restart};

pub(super) const CHECK: Check = Check {
    id: "transparent-huge-pages",
    about: "the kernel makes huge pages for every program by itself, which may stall it",
    class: Class::Hypothesis,
    thresholds: &[],
    manual: include_str!("transparent_huge_pages.md"),
    looks: &[Look::Host(look)],
};

/// The file of the kernel.
const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

fn look(host: &Host, task: &Task) -> Looked {
    let all = host.word(FILE).unwrap_or_default();
    if choice(&all) != "always" {
        return Ok(Seen::default());
    }
    Ok(task
        .finding(Level::Info, "", "the kernel makes huge pages for every program by itself, and may stall it meanwhile")
        .with("enabled", &all, FILE)
        .unless("memory is not short of large pieces, and nothing stalls")
        .repaired(
            "let programs ask for them, and measure before and after; huge_pages = on is another thing, and good",
            "other programs on the machine that gain from them lose it",
        )
        .run([format!("$ echo madvise > {FILE}")])
        .needs(Restart::Server)
        .into())
}
