//! Faults of a machine that show only in its counters, mostly between two looks.

use super::machine::{BOND, QUIET, machine};
use super::{Fault, are_found, fault, looked, nothing};
use millstream_model::{Finding, Level};

/// A bond with one card down, in a group of its own as it has no link.
const LOST: &str = "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\nActive Aggregator Info:\n\
                    \tAggregator ID: 1\n\tPartner Mac Address: 5e:1b:00:00:00:07\n\nSlave Interface: eth0\n\
                    MII Status: up\nLink Failure Count: 0\nAggregator ID: 1\n\nSlave Interface: eth1\n\
                    MII Status: down\nLink Failure Count: 4\nAggregator ID: 2\n";

/// A switch that does not speak LACP.
const ALONE: &str = "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\nActive Aggregator Info:\n\
                     \tAggregator ID: 1\n\tPartner Mac Address: 00:00:00:00:00:00\n\nSlave Interface: eth0\n\
                     MII Status: up\nAggregator ID: 1\n\nSlave Interface: eth1\nMII Status: up\nAggregator ID: 1\n";

fn faults() -> Vec<Fault> {
    vec![
        fault("bond-leg-down", "bond0")
            .alike(&[("proc/net/bonding/bond0", ALONE)])
            .has(&[("proc/net/bonding/bond0", LOST)])
            .repaired(&[("proc/net/bonding/bond0", BOND)]),
        fault("bond-partner", "bond0")
            .alike(&[("proc/net/bonding/bond0", LOST)])
            .has(&[("proc/net/bonding/bond0", ALONE)])
            .repaired(&[("proc/net/bonding/bond0", BOND)]),
        fault("bridge-port-blocked", "vlan5")
            .alike(&[("sys/class/net/vlan5/brport/state", "2\n")])
            .has(&[("sys/class/net/vlan5/brport/state", "4\n")])
            .repaired(&[("sys/class/net/vlan5/brport/state", "3\n")]),
        fault("link-carrier", "eth2")
            // A spare card without a cable.
            .alike(&[
                ("sys/class/net/eth2/type", "1\n"),
                ("sys/class/net/eth2/flags", "0x1003\n"),
                ("sys/class/net/eth2/carrier", "0\n"),
            ])
            .has(&[
                ("sys/class/net/eth2/type", "1\n"),
                ("sys/class/net/eth2/flags", "0x1003\n"),
                ("sys/class/net/eth2/carrier", "0\n"),
                ("proc/net/route", "Iface Destination Gateway\neth2 000200C0 00000000\n"),
            ])
            .repaired(&[("sys/class/net/eth2/carrier", "1\n")]),
        fault("link-mtu", "vlan5")
            .alike(&[("sys/class/net/vlan5/mtu", "1400\n")])
            .has(&[("sys/class/net/vlan5/mtu", "9000\n")])
            .repaired(&[("sys/class/net/bond0/mtu", "9000\n"), ("sys/class/net/eth0/mtu", "9000\n")]),
        fault("accept-queue-full", "net.core.somaxconn")
            .alike(&[("later/proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 99 500\n")])
            .has(&[("later/proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 1 520\n")])
            .repaired(&[("proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 1 520\n")]),
        fault("accept-queue-full", "net.core.somaxconn")
            .at(Level::Info)
            // The server's queue is cut, but none was ever full.
            .alike(&[
                ("proc/sys/net/core/somaxconn", "1\n"),
                ("proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 1 0\n"),
            ])
            .has(&[("proc/sys/net/core/somaxconn", "1\n")])
            .repaired(&[("proc/sys/net/core/somaxconn", "4096\n")]),
        fault("clock-source", "")
            .at(Level::Info)
            .alike(&[
                ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock acpi_pm\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n"),
            ])
            .has(&[
                ("sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet acpi_pm\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ])
            .repaired(&[("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")]),
        fault("clock-source", "")
            .at(Level::Info)
            .alike(&[
                ("sys/devices/system/clocksource/clocksource0/available_clocksource", "timebase\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "timebase\n"),
            ])
            .has(&[
                ("sys/devices/system/clocksource/clocksource0/available_clocksource", "xen tsc hpet acpi_pm\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "xen\n"),
            ])
            .repaired(&[("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")]),
        fault("conntrack-full", "net.netfilter.nf_conntrack_max")
            .at(Level::Info)
            // Packets were dropped long ago, and an entry could not be made now.
            .alike(&[
                ("proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000000\n"),
                ("later/proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000001\n"),
            ])
            .has(&[("later/proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000000\n")])
            .repaired(&[("proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000000\n")]),
        fault("cpu-governor", "")
            .alike(&[
                ("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "intel_pstate\n"),
                ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "balance_performance\n"),
            ])
            .has(&[
                ("sys/devices/system/cpu/cpufreq/policy1/scaling_driver", "acpi-cpufreq\n"),
                ("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave\n"),
            ])
            .repaired(&[("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "schedutil\n")]),
        fault("cpu-taken", "steal")
            .alike(&[("later/proc/stat", "cpu  300 0 150 1500 20 0 0 30 0 0\n")])
            .has(&[("later/proc/stat", "cpu  150 0 60 830 20 0 0 60 0 0\n")])
            .repaired(&[("later/proc/stat", "cpu  150 0 60 860 20 0 0 30 0 0\n")]),
        fault("cpu-taken", "quota")
            .alike(&[("later/sys/fs/cgroup/db/cpu.stat", "nr_periods 1020\nnr_throttled 900\nthrottled_usec 1000\n")])
            .has(&[("later/sys/fs/cgroup/db/cpu.stat", "nr_periods 1020\nnr_throttled 910\nthrottled_usec 9000\n")])
            .repaired(&[("sys/fs/cgroup/db/cpu.stat", "nr_periods 1000\nnr_throttled 910\nthrottled_usec 9000\n")]),
        fault("device-saturated", "sda")
            // Processes wait for a disk, but not for this one.
            .alike(&[
                ("proc/pressure/io", "some avg10=40.00 avg60=40.00 avg300=9.00 total=9000000\n"),
                (
                    "later/proc/diskstats",
                    "8 0 sda 1100 0 8000 90100 1100 0 8000 90200 0 2900 180300 0 0 0 0 100 9000\n",
                ),
            ])
            .has(&[
                ("proc/pressure/io", "some avg10=40.00 avg60=40.00 avg300=9.00 total=9000000\n"),
                (
                    "later/proc/diskstats",
                    "8 0 sda 1100 0 8000 95000 1100 0 8000 90200 0 2900 185200 0 0 0 0 100 9000\n",
                ),
            ])
            .repaired(&[("proc/pressure/io", "some avg10=0.00 avg60=4.00 avg300=9.00 total=9000000\n")]),
        fault("device-saturated", "sda")
            // A disk that rotates takes as long, and one request says little.
            .alike(&[
                ("sys/block/sda/queue/rotational", "1\n"),
                ("proc/pressure/io", "some avg10=40.00 avg60=40.00 avg300=9.00 total=9000000\n"),
                (
                    "later/proc/diskstats",
                    "8 0 sda 1100 0 8000 94000 1001 0 8000 91000 0 2900 185000 0 0 0 0 100 9000\n",
                ),
            ])
            .has(&[
                ("sys/block/sda/queue/rotational", "1\n"),
                ("proc/pressure/io", "some avg10=40.00 avg60=40.00 avg300=9.00 total=9000000\n"),
                (
                    "later/proc/diskstats",
                    "8 0 sda 1000 0 8000 90000 1000 0 8000 90000 0 2900 190000 0 0 0 0 200 19000\n",
                ),
            ])
            .repaired(&[(
                "later/proc/diskstats",
                "8 0 sda 1000 0 8000 90000 1000 0 8000 90000 0 2900 190000 0 0 0 0 200 9900\n",
            )]),
        fault("memory-pressure", "")
            // The kernel writes pages to swap that nobody misses.
            .alike(&[("later/proc/vmstat", "pswpin 900000\npswpout 990000\noom_kill 5\n")])
            .has(&[("proc/pressure/memory", "some avg10=20.00 avg60=12.00 avg300=9.00 total=9000000\n")])
            .repaired(&[("proc/pressure/memory", "some avg10=0.00 avg60=2.00 avg300=9.00 total=9000000\n")]),
        fault("memory-pressure", "")
            .alike(&[("sys/fs/cgroup/db/memory.pressure", "some avg10=9.00 avg60=1.00 avg300=0.00 total=9\n")])
            .has(&[("sys/fs/cgroup/db/memory.pressure", "some avg10=9.00 avg60=30.00 avg300=0.00 total=9\n")])
            .repaired(&[("sys/fs/cgroup/db/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=9.00 total=9\n")]),
        fault("open-files-near-limit", "fs.file-max")
            .alike(&[("proc/sys/fs/file-nr", "900000 0 9223372036854775807\n")])
            .has(&[("proc/sys/fs/file-nr", "900 0 1000\n")])
            .repaired(&[("proc/sys/fs/file-nr", "900 0 2000\n")]),
        fault("open-files-near-limit", "postmaster")
            .at(Level::Critical)
            .alike(&[("proc/42/limits", "Max open files            unlimited   unlimited   files\n")])
            .has(&[("proc/42/limits", "Max open files            2   4096   files\n")])
            .repaired(&[("proc/42/limits", "Max open files            4096   4096   files\n")]),
        fault("out-of-memory-kill", "")
            // The kernel has promised more than it has, as it may in this mode.
            .alike(&[("proc/meminfo", "MemTotal: 20000 kB\nCommitLimit: 10000 kB\nCommitted_AS: 90000 kB\n")])
            .has(&[("sys/fs/cgroup/db/memory.events", "max 9\noom 2\noom_kill 2\n")])
            .repaired(&[("sys/fs/cgroup/db/memory.events", "max 0\noom 0\noom_kill 0\n")]),
        fault("out-of-memory-kill", "")
            .at(Level::Info)
            .alike(&[("proc/self/cgroup", "0::/\n"), ("proc/vmstat", "oom_kill 0\n")])
            .has(&[("proc/self/cgroup", "0::/\n")])
            .repaired(&[("proc/vmstat", "oom_kill 0\n")]),
        fault("out-of-memory-kill", "")
            // A container sees its own group as the root.
            .alike(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.events", "oom 0\noom_kill 0\n")])
            .has(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.events", "oom 2\noom_kill 2\n")])
            .repaired(&[("sys/fs/cgroup/memory.events", "oom 0\noom_kill 0\n")]),
        fault("out-of-memory-kill", "vm.overcommit_ratio")
            .alike(&[
                ("proc/sys/vm/overcommit_memory", "2\n"),
                ("proc/meminfo", "MemTotal: 20000 kB\nCommitLimit: 10000 kB\nCommitted_AS: 5000 kB\n"),
            ])
            .has(&[
                ("proc/sys/vm/overcommit_memory", "2\n"),
                ("proc/sys/vm/overcommit_ratio", "50\n"),
                ("proc/meminfo", "MemTotal: 20000 kB\nCommitLimit: 10000 kB\nCommitted_AS: 9500 kB\n"),
            ])
            .repaired(&[("proc/meminfo", "MemTotal: 20000 kB\nCommitLimit: 16000 kB\nCommitted_AS: 9500 kB\n")]),
    ]
}

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

fn subjects(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.subject.as_str()).collect()
}

#[tokio::test]
async fn what_a_machine_counts_is_found_while_it_grows_and_not_for_ever() {
    let (findings, skipped, passed) = looked(machine(QUIET).path(), BLIND, "").await;
    assert_eq!((findings.first(), skipped.first()), (None, None));
    assert_eq!(passed, BLIND);
    are_found(QUIET, "", faults()).await;
}

#[tokio::test]
async fn a_check_that_cannot_read_its_files_is_listed_with_the_reason() {
    let (findings, mut skipped, passed) = looked(nothing().path(), BLIND, "").await;
    assert_eq!((findings.first(), passed.as_slice()), (None, &[][..]));
    skipped.sort_by(|one, other| one.check.cmp(&other.check));
    assert!(skipped.iter().map(|skip| skip.check.as_str()).eq(BLIND.iter().copied()), "{skipped:?}");
    let says = |check: &str, part: &str| skipped.iter().any(|skip| skip.check == check && skip.why.contains(part));
    assert!(says("conntrack-full", "/proc/sys/net/netfilter/nf_conntrack_count cannot be read"), "{skipped:?}");
    assert!(says("kernel-known-bad", "/proc/sys/kernel/osrelease"), "{skipped:?}");
}

#[tokio::test]
async fn pages_that_come_back_from_swap_count_if_the_kernel_does_not_measure_waiting() {
    let (machine_file, group_file) = (("proc/pressure/memory", ""), ("sys/fs/cgroup/db/memory.pressure", ""));
    let examined = async |later: &'static str| {
        let others = [machine_file, group_file, ("later/proc/vmstat", later)];
        let place = machine(&[QUIET, &others[..]].concat());
        looked(place.path(), &["memory-pressure"], "").await
    };
    let (findings, skipped, _) = examined("pswpin 900000\npswpout 990000\n").await;
    assert_eq!(subjects(&findings), [""; 0]);
    assert!(skipped[0].why.contains("how long processes wait for memory"), "{skipped:?}");
    let (findings, skipped, _) = examined("pswpin 999999\npswpout 990000\n").await;
    assert_eq!((findings.len(), findings[0].level, skipped.len()), (1, Level::Warning, 1));
    assert!(findings[0].sentence.contains("back from swap"), "{findings:?}");
}

#[tokio::test]
async fn a_table_of_connections_is_made_larger_only_if_it_is_almost_full() {
    let dropped = ("later/proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 0000000f 00000000\n");
    let used = |entries| [dropped, ("proc/sys/net/netfilter/nf_conntrack_count", entries)];
    for (entries, value) in [("10\n", None), ("260000\n", Some("524288"))] {
        let place = machine(&[QUIET, &used(entries)[..]].concat());
        let (findings, ..) = looked(place.path(), &["conntrack-full"], "").await;
        assert_eq!(subjects(&findings), ["net.netfilter.nf_conntrack_max"]);
        let repair = findings[0].repair.as_ref().unwrap();
        let proposed = repair.change.as_ref().and_then(|change| change.value.as_deref());
        assert_eq!((proposed, repair.commands.len()), (value, usize::from(value.is_some())), "{findings:?}");
    }
}
