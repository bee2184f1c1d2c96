//! Planted faults of a machine that show only in its counters, mostly between two looks.

use crate::checks::{request, subjects};
use crate::host::{GROUPS, found, machine};
use millstream_doctor::{Request, examine};
use millstream_model::{Finding, Level};
use millstream_testkit as testkit;

/// Files and what is in them. Those below `later` are what the second look finds.
type Files = &'static [(&'static str, &'static str)];

/// A bond of two cards, of which one has failed earlier.
const BOND: &str = "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\nActive Aggregator Info:\n\
                    \tAggregator ID: 1\n\tPartner Mac Address: 5e:1b:00:00:00:07\n\nSlave Interface: eth0\n\
                    MII Status: up\nLink Failure Count: 0\nAggregator ID: 1\n\nSlave Interface: eth1\n\
                    MII Status: up\nLink Failure Count: 3\nAggregator ID: 1\n";

/// The same, with one card down, in a group of its own as it has no link.
const LOST: &str = "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\nActive Aggregator Info:\n\
                    \tAggregator ID: 1\n\tPartner Mac Address: 5e:1b:00:00:00:07\n\nSlave Interface: eth0\n\
                    MII Status: up\nLink Failure Count: 0\nAggregator ID: 1\n\nSlave Interface: eth1\n\
                    MII Status: down\nLink Failure Count: 4\nAggregator ID: 2\n";

/// A switch that does not speak LACP.
const ALONE: &str = "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\nActive Aggregator Info:\n\
                     \tAggregator ID: 1\n\tPartner Mac Address: 00:00:00:00:00:00\n\nSlave Interface: eth0\n\
                     MII Status: up\nAggregator ID: 1\n\nSlave Interface: eth1\nMII Status: up\nAggregator ID: 1\n";

/// What a healthy machine counts. Its counters are large, because it once was in trouble.
pub(crate) const QUIET: Files = &[
    ("proc/self/mountinfo", GROUPS),
    ("proc/self/cgroup", "0::/db\n"),
    ("proc/self/stat", "77 (postgres: a) b) S 42 77 77 0 -1\n"),
    ("proc/42/limits", "Max processes 9 9 processes\nMax open files            1024   4096   files\n"),
    ("proc/42/fd/0", ""),
    ("proc/42/fd/1", ""),
    ("proc/diskstats", "   8       0 sda 1000 0 8000 90000 1000 0 8000 90000 0 900 180000 0 0 0 0 100 9000\n"),
    ("proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 1 500\n"),
    ("proc/pressure/io", "some avg10=0.00 avg60=0.10 avg300=0.90 total=9000000\n"),
    ("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=9000000\n"),
    ("proc/stat", "cpu  100 0 50 800 20 0 0 30 0 0\n"),
    ("proc/sys/fs/file-nr", "1000 0 1000000\n"),
    ("proc/sys/net/core/somaxconn", "4096\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/uptime", "100000.00 1.00\n"),
    ("proc/vmstat", "pswpin 900000\npswpout 900000\noom_kill 5\n"),
    ("proc/net/bonding/bond0", BOND),
    ("sys/class/net/bond0/flags", "0x1403\n"),
    ("sys/class/net/bond0/mtu", "1500\n"),
    ("sys/class/net/eth0/flags", "0x1903\n"),
    ("sys/class/net/eth0/mtu", "1500\n"),
    ("sys/class/net/eth1/flags", "0x1903\n"),
    ("sys/class/net/eth1/mtu", "9000\n"),
    ("sys/class/net/vlan5/brport/state", "3\n"),
    ("sys/class/net/vlan5/flags", "0x1003\n"),
    ("sys/class/net/vlan5/lower_bond0/mtu", "1500\n"),
    ("sys/class/net/vlan5/mtu", "1500\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "acpi-cpufreq\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n"),
    ("sys/fs/cgroup/db/cpu.stat", "nr_periods 1000\nnr_throttled 900\nthrottled_usec 1000\n"),
    ("sys/fs/cgroup/db/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"),
    ("sys/fs/cgroup/db/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"),
];

/// A fault: files that only look like it, files that have it, and files of a machine on which it was repaired. The last
/// ones are those of the fault with some others instead.
struct Fault {
    check: &'static str,
    alike: Files,
    fault: Files,
    repaired: Files,
    subject: &'static str,
    level: Level,
}

const FAULTS: &[Fault] = &[
    Fault {
        check: "bond-leg-down",
        alike: &[("proc/net/bonding/bond0", ALONE)],
        fault: &[("proc/net/bonding/bond0", LOST)],
        repaired: &[("proc/net/bonding/bond0", BOND)],
        subject: "bond0",
        level: Level::Warning,
    },
    Fault {
        check: "bond-partner",
        alike: &[("proc/net/bonding/bond0", LOST)],
        fault: &[("proc/net/bonding/bond0", ALONE)],
        repaired: &[("proc/net/bonding/bond0", BOND)],
        subject: "bond0",
        level: Level::Warning,
    },
    Fault {
        check: "bridge-port-blocked",
        alike: &[("sys/class/net/vlan5/brport/state", "2\n")],
        fault: &[("sys/class/net/vlan5/brport/state", "4\n")],
        repaired: &[("sys/class/net/vlan5/brport/state", "3\n")],
        subject: "vlan5",
        level: Level::Warning,
    },
    Fault {
        check: "link-carrier",
        // A spare card without a cable.
        alike: &[
            ("sys/class/net/eth2/type", "1\n"),
            ("sys/class/net/eth2/flags", "0x1003\n"),
            ("sys/class/net/eth2/carrier", "0\n"),
        ],
        fault: &[
            ("sys/class/net/eth2/type", "1\n"),
            ("sys/class/net/eth2/flags", "0x1003\n"),
            ("sys/class/net/eth2/carrier", "0\n"),
            ("proc/net/route", "Iface Destination Gateway\neth2 000200C0 00000000\n"),
        ],
        repaired: &[("sys/class/net/eth2/carrier", "1\n")],
        subject: "eth2",
        level: Level::Warning,
    },
    Fault {
        check: "link-mtu",
        alike: &[("sys/class/net/vlan5/mtu", "1400\n")],
        fault: &[("sys/class/net/vlan5/mtu", "9000\n")],
        repaired: &[("sys/class/net/bond0/mtu", "9000\n"), ("sys/class/net/eth0/mtu", "9000\n")],
        subject: "vlan5",
        level: Level::Warning,
    },
    Fault {
        check: "accept-queue-full",
        alike: &[("later/proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 99 500\n")],
        fault: &[("later/proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 1 520\n")],
        repaired: &[("proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 1 520\n")],
        subject: "net.core.somaxconn",
        level: Level::Warning,
    },
    Fault {
        check: "accept-queue-full",
        // The server's queue is cut, but none was ever full.
        alike: &[
            ("proc/sys/net/core/somaxconn", "1\n"),
            ("proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 1 0\n"),
        ],
        fault: &[("proc/sys/net/core/somaxconn", "1\n")],
        repaired: &[("proc/sys/net/core/somaxconn", "4096\n")],
        subject: "net.core.somaxconn",
        level: Level::Info,
    },
    Fault {
        check: "clock-source",
        alike: &[
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock acpi_pm\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n"),
        ],
        fault: &[
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet acpi_pm\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ],
        repaired: &[("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")],
        subject: "",
        level: Level::Info,
    },
    Fault {
        check: "clock-source",
        alike: &[
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "timebase\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "timebase\n"),
        ],
        fault: &[
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "xen tsc hpet acpi_pm\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "xen\n"),
        ],
        repaired: &[("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")],
        subject: "",
        level: Level::Info,
    },
    Fault {
        check: "conntrack-full",
        // Packets were dropped long ago, and an entry could not be made now.
        alike: &[
            ("proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000000\n"),
            ("later/proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000001\n"),
        ],
        fault: &[("later/proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000000\n")],
        repaired: &[("proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000000\n")],
        subject: "net.netfilter.nf_conntrack_max",
        level: Level::Info,
    },
    Fault {
        check: "cpu-governor",
        alike: &[
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "intel_pstate\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "balance_performance\n"),
        ],
        fault: &[
            ("sys/devices/system/cpu/cpufreq/policy1/scaling_driver", "acpi-cpufreq\n"),
            ("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave\n"),
        ],
        repaired: &[("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "schedutil\n")],
        subject: "",
        level: Level::Warning,
    },
    Fault {
        check: "cpu-taken",
        alike: &[("later/proc/stat", "cpu  300 0 150 1500 20 0 0 30 0 0\n")],
        fault: &[("later/proc/stat", "cpu  150 0 60 830 20 0 0 60 0 0\n")],
        repaired: &[("later/proc/stat", "cpu  150 0 60 860 20 0 0 30 0 0\n")],
        subject: "steal",
        level: Level::Warning,
    },
    Fault {
        check: "cpu-taken",
        alike: &[("later/sys/fs/cgroup/db/cpu.stat", "nr_periods 1020\nnr_throttled 900\nthrottled_usec 1000\n")],
        fault: &[("later/sys/fs/cgroup/db/cpu.stat", "nr_periods 1020\nnr_throttled 910\nthrottled_usec 9000\n")],
        repaired: &[("sys/fs/cgroup/db/cpu.stat", "nr_periods 1000\nnr_throttled 910\nthrottled_usec 9000\n")],
        subject: "quota",
        level: Level::Warning,
    },
    Fault {
        check: "device-saturated",
        // Processes wait for a disk, but not for this one.
        alike: &[
            ("proc/pressure/io", "some avg10=40.00 avg60=40.00 avg300=9.00 total=9000000\n"),
            ("later/proc/diskstats", "8 0 sda 1100 0 8000 90100 1100 0 8000 90200 0 2900 180300 0 0 0 0 100 9000\n"),
        ],
        fault: &[
            ("proc/pressure/io", "some avg10=40.00 avg60=40.00 avg300=9.00 total=9000000\n"),
            ("later/proc/diskstats", "8 0 sda 1100 0 8000 95000 1100 0 8000 90200 0 2900 185200 0 0 0 0 100 9000\n"),
        ],
        repaired: &[("proc/pressure/io", "some avg10=0.00 avg60=4.00 avg300=9.00 total=9000000\n")],
        subject: "sda",
        level: Level::Warning,
    },
    Fault {
        check: "device-saturated",
        // A disk that rotates takes as long, and one request says little.
        alike: &[
            ("sys/block/sda/queue/rotational", "1\n"),
            ("proc/pressure/io", "some avg10=40.00 avg60=40.00 avg300=9.00 total=9000000\n"),
            ("later/proc/diskstats", "8 0 sda 1100 0 8000 94000 1001 0 8000 91000 0 2900 185000 0 0 0 0 100 9000\n"),
        ],
        fault: &[
            ("sys/block/sda/queue/rotational", "1\n"),
            ("proc/pressure/io", "some avg10=40.00 avg60=40.00 avg300=9.00 total=9000000\n"),
            ("later/proc/diskstats", "8 0 sda 1000 0 8000 90000 1000 0 8000 90000 0 2900 190000 0 0 0 0 200 19000\n"),
        ],
        repaired: &[(
            "later/proc/diskstats",
            "8 0 sda 1000 0 8000 90000 1000 0 8000 90000 0 2900 190000 0 0 0 0 200 9900\n",
        )],
        subject: "sda",
        level: Level::Warning,
    },
    Fault {
        check: "memory-pressure",
        // The kernel writes pages to swap that nobody misses.
        alike: &[("later/proc/vmstat", "pswpin 900000\npswpout 990000\noom_kill 5\n")],
        fault: &[("proc/pressure/memory", "some avg10=20.00 avg60=12.00 avg300=9.00 total=9000000\n")],
        repaired: &[("proc/pressure/memory", "some avg10=0.00 avg60=2.00 avg300=9.00 total=9000000\n")],
        subject: "",
        level: Level::Warning,
    },
    Fault {
        check: "memory-pressure",
        alike: &[("sys/fs/cgroup/db/memory.pressure", "some avg10=9.00 avg60=1.00 avg300=0.00 total=9\n")],
        fault: &[("sys/fs/cgroup/db/memory.pressure", "some avg10=9.00 avg60=30.00 avg300=0.00 total=9\n")],
        repaired: &[("sys/fs/cgroup/db/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=9.00 total=9\n")],
        subject: "",
        level: Level::Warning,
    },
    Fault {
        check: "open-files-near-limit",
        alike: &[("proc/sys/fs/file-nr", "900000 0 9223372036854775807\n")],
        fault: &[("proc/sys/fs/file-nr", "900 0 1000\n")],
        repaired: &[("proc/sys/fs/file-nr", "900 0 2000\n")],
        subject: "fs.file-max",
        level: Level::Warning,
    },
    Fault {
        check: "open-files-near-limit",
        alike: &[("proc/42/limits", "Max open files            unlimited   unlimited   files\n")],
        fault: &[("proc/42/limits", "Max open files            2   4096   files\n")],
        repaired: &[("proc/42/limits", "Max open files            4096   4096   files\n")],
        subject: "postmaster",
        level: Level::Critical,
    },
    Fault {
        check: "out-of-memory-kill",
        // The kernel has promised more than it has, as it may in this mode.
        alike: &[("proc/meminfo", "MemTotal: 20000 kB\nCommitLimit: 10000 kB\nCommitted_AS: 90000 kB\n")],
        fault: &[("sys/fs/cgroup/db/memory.events", "max 9\noom 2\noom_kill 2\n")],
        repaired: &[("sys/fs/cgroup/db/memory.events", "max 0\noom 0\noom_kill 0\n")],
        subject: "",
        level: Level::Warning,
    },
    Fault {
        check: "out-of-memory-kill",
        alike: &[("proc/self/cgroup", "0::/\n"), ("proc/vmstat", "oom_kill 0\n")],
        fault: &[("proc/self/cgroup", "0::/\n")],
        repaired: &[("proc/vmstat", "oom_kill 0\n")],
        subject: "",
        level: Level::Info,
    },
    Fault {
        check: "out-of-memory-kill",
        // A container sees its own group as the root.
        alike: &[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.events", "oom 0\noom_kill 0\n")],
        fault: &[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.events", "oom 2\noom_kill 2\n")],
        repaired: &[("sys/fs/cgroup/memory.events", "oom 0\noom_kill 0\n")],
        subject: "",
        level: Level::Warning,
    },
    Fault {
        check: "out-of-memory-kill",
        alike: &[
            ("proc/sys/vm/overcommit_memory", "2\n"),
            ("proc/meminfo", "MemTotal: 20000 kB\nCommitLimit: 10000 kB\nCommitted_AS: 5000 kB\n"),
        ],
        fault: &[
            ("proc/sys/vm/overcommit_memory", "2\n"),
            ("proc/sys/vm/overcommit_ratio", "50\n"),
            ("proc/meminfo", "MemTotal: 20000 kB\nCommitLimit: 10000 kB\nCommitted_AS: 9500 kB\n"),
        ],
        repaired: &[("proc/meminfo", "MemTotal: 20000 kB\nCommitLimit: 16000 kB\nCommitted_AS: 9500 kB\n")],
        subject: "vm.overcommit_ratio",
        level: Level::Warning,
    },
];

/// Checks that say nothing if they cannot read the files of the kernel.
const BLIND: &[&str] = &[
    "accept-queue-full",
    "bond-leg-down",
    "bond-partner",
    "bridge-port-blocked",
    "clock-source",
    "conntrack-full",
    "cpu-governor",
    "cpu-taken",
    "device-saturated",
    "dirty-limits",
    "kernel-known-bad",
    "link-carrier",
    "link-mtu",
    "memory-pressure",
    "open-files-near-limit",
    "out-of-memory-kill",
];

#[tokio::test]
async fn what_a_machine_counts_is_found_while_it_grows_and_not_for_ever() {
    let database = testkit::database().await;
    let url = database.url();
    let healthy = machine(QUIET);
    let request = Request { root: Some(healthy.path().to_owned()), ..request(&url, BLIND, "") };
    let report = examine(&request).await.unwrap();
    assert_eq!((report.findings.first(), report.skipped.first()), (None, None));
    assert_eq!(report.passed, BLIND);
    for Fault { check, alike, fault, repaired, subject, level } in FAULTS {
        let place = machine(&[QUIET, *alike].concat());
        assert_eq!(found(&url, place.path(), check, "").await, [], "{check} looks alike: {alike:?}");
        let place = machine(&[QUIET, *fault].concat());
        let expected = [((*subject).to_owned(), *level)];
        assert_eq!(found(&url, place.path(), check, "").await, expected, "{check}: {fault:?}");
        let place = machine(&[QUIET, *fault, *repaired].concat());
        assert_eq!(found(&url, place.path(), check, "").await, [], "{check} is repaired: {repaired:?}");
    }
}

#[tokio::test]
async fn a_check_that_cannot_read_its_files_is_listed_with_the_reason() {
    let database = testkit::database().await;
    let nothing = tempfile::tempdir().unwrap();
    let request = Request { root: Some(nothing.path().to_owned()), ..request(&database.url(), BLIND, "") };
    let report = examine(&request).await.unwrap();
    assert_eq!((report.findings.first(), report.passed.as_slice()), (None, &[][..]));
    let mut skipped: Vec<&str> = report.skipped.iter().map(|skip| skip.check.as_str()).collect();
    skipped.sort_unstable();
    assert_eq!(skipped, BLIND);
    let says =
        |check: &str, part: &str| report.skipped.iter().any(|skip| skip.check == check && skip.why.contains(part));
    assert!(says("conntrack-full", "/proc/sys/net/netfilter/nf_conntrack_count cannot be read"), "{report:?}");
    assert!(says("kernel-known-bad", "/proc/sys/kernel/osrelease"), "{report:?}");
}

#[tokio::test]
async fn pages_that_come_back_from_swap_count_if_the_kernel_does_not_measure_waiting() {
    let database = testkit::database().await;
    let (machine_file, group_file) = (("proc/pressure/memory", ""), ("sys/fs/cgroup/db/memory.pressure", ""));
    let examined = async |later: &'static str| {
        let others = [machine_file, group_file, ("later/proc/vmstat", later)];
        let place = machine(&[QUIET, &others[..]].concat());
        let root = Some(place.path().to_owned());
        examine(&Request { root, ..request(&database.url(), &["memory-pressure"], "") }).await.unwrap()
    };
    let calm = examined("pswpin 900000\npswpout 990000\n").await;
    assert_eq!(subjects(&calm), [""; 0]);
    assert!(calm.skipped[0].why.contains("how long processes wait for memory"), "{calm:?}");
    let found = examined("pswpin 999999\npswpout 990000\n").await;
    assert_eq!((subjects(&found).len(), found.findings[0].level, found.skipped.len()), (1, Level::Warning, 1));
    assert!(found.findings[0].sentence.contains("back from swap"), "{found:?}");
}

#[tokio::test]
async fn a_table_of_connections_is_made_larger_only_if_it_is_almost_full() {
    let database = testkit::database().await;
    let dropped = ("later/proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000000\n");
    let used = |entries| [dropped, ("proc/sys/net/netfilter/nf_conntrack_count", entries)];
    for (entries, value) in [("10\n", None), ("260000\n", Some("524288"))] {
        let place = machine(&[QUIET, &used(entries)[..]].concat());
        let root = Some(place.path().to_owned());
        let report = examine(&Request { root, ..request(&database.url(), &["conntrack-full"], "") }).await.unwrap();
        assert_eq!(subjects(&report), ["net.netfilter.nf_conntrack_max"]);
        let repair = report.findings[0].repair.as_ref().unwrap();
        let proposed = repair.change.as_ref().and_then(|change| change.value.as_deref());
        assert_eq!((proposed, repair.commands.len()), (value, usize::from(value.is_some())), "{report:?}");
    }
}

#[tokio::test]
async fn little_room_for_wal_is_found_on_a_disk_that_is_not_full() {
    let database = testkit::database().await;
    let place = machine(QUIET);
    let settings =
        |times: &str| format!("[threshold.disk-full]\npercent = 101\ncritical_percent = 101\nwal_times = {times}");
    let of = async |times: &str| found(&database.url(), place.path(), "disk-full", &settings(times)).await;
    assert_eq!(of("0").await, []);
    assert_eq!(of("1e12").await, [("/".to_owned(), Level::Warning)]);
}

#[tokio::test]
async fn the_release_of_a_server_is_compared_with_the_table() {
    testkit::every_build(async |database| {
        // As if every version ended soon, and the table were old.
        let settings = "[threshold.minor-version-behind]\nend_days = 1e6\ntable_days = -1e6";
        let report = examine(&request(&database.url(), &["minor-version-behind"], settings)).await.unwrap();
        let by_table = |finding: &Finding| finding.evidence.iter().any(|one| one.source.contains("our table of 20"));
        let by_table: Vec<&str> =
            report.findings.iter().filter(|one| by_table(one)).map(|one| one.subject.as_str()).collect();
        let skipped: Vec<bool> = report.skipped.iter().map(|skip| skip.why.contains("which our table lacks")).collect();
        // A server that is not behind an old table may be behind all the same.
        match (by_table.as_slice(), skipped.as_slice()) {
            (["release", "version"], []) | (["version"], [true]) => {}
            _ => panic!("{report:?}"),
        }
    })
    .await;
}
