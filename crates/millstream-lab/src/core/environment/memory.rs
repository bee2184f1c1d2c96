//! Section `memory`: size, huge pages, transparent huge pages, and the settings `vm.*`.

use super::{Facts, Section, facts, files};
use millstream_host::kernel::file::{choice, numbers, text, word};

pub(super) const SECTION: Section = Section {
    name: "memory",
    read: |_| {
        let mut found = sizes(&text("/proc/meminfo").unwrap_or_default());
        let huge = |file: &str| {
            let modes = word(format!("/sys/kernel/mm/transparent_hugepage/{file}"))?;
            Some(choice(&modes).to_owned())
        };
        found.extend(facts([
            ("transparent_hugepages", huge("enabled")),
            ("transparent_hugepages_defrag", huge("defrag")),
            ("transparent_hugepages_shmem", huge("shmem_enabled")),
        ]));
        let settings = files("/proc/sys/vm", |name| SETTINGS.iter().any(|one| name.starts_with(one)));
        found.extend(settings.into_iter().map(|(name, value)| (format!("vm.{name}"), value)));
        found
    },
};

/// How the names of settings begin that change the speed of a database.
const SETTINGS: &[&str] = &[
    "dirty_",
    "dirtytime_",
    "swappiness",
    "overcommit_",
    "zone_reclaim_mode",
    "nr_hugepages",
    "nr_overcommit_hugepages",
    "min_free_kbytes",
    "vfs_cache_pressure",
    "watermark_scale_factor",
    "page-cluster",
    "compaction_proactiveness",
    "max_map_count",
    "numa_zonelist_order",
];

/// Lines of `meminfo` that stay the same.
const SIZES: &[(&str, &str)] = &[
    ("MemTotal", "total_kb"),
    ("SwapTotal", "swap_kb"),
    ("HugePages_Total", "huge_pages"),
    ("Hugepagesize", "huge_page_kb"),
];

fn sizes(meminfo: &str) -> Facts {
    let of = |found: &str| SIZES.iter().find(|(line, _)| *line == found).map(|(_, name)| (*name).to_owned());
    numbers(meminfo).filter_map(|(line, number)| Some((of(line)?, number.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers() {
        let found = sizes("MemTotal:  16384 kB\nMemFree: 5 kB\nHugePages_Total:  7\n");
        assert_eq!(found, facts([("total_kb", Some("16384".to_owned())), ("huge_pages", Some("7".to_owned()))]));
    }
}
