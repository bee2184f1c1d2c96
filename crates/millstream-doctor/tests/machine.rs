//! A folder that stands for a machine: its `/proc`, `/sys`, `/etc` and `/dev`.

use std::fs;
use std::os::unix::fs::symlink;

/// Files and what is in them. Those below `later` are what the second look finds.
pub(crate) type Files = &'static [(&'static str, &'static str)];

/// A tuned machine with two memory nodes and one disk.
const HEALTHY: Files = &[
    ("proc/self/mountinfo", "1 1 8:0 / / rw,relatime - ext4 /dev/sda rw\n"),
    ("proc/meminfo", "MemTotal:       20000000 kB\nMemAvailable:   16000000 kB\n"),
    ("proc/sys/vm/zone_reclaim_mode", "0\n"),
    ("proc/sys/vm/dirty_background_bytes", "268435456\n"),
    ("proc/sys/vm/dirty_background_ratio", "0\n"),
    ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
    ("proc/sys/net/netfilter/nf_conntrack_count", "10\n"),
    ("proc/sys/net/netfilter/nf_conntrack_max", "262144\n"),
    ("proc/net/stat/nf_conntrack", "entries drop insert_failed\n0000000a 00000000 00000000\n"),
    // Each server process is a session of its own, so this is no fault.
    ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
    ("sys/devices/system/node/has_memory", "0-1\n"),
    ("sys/block/sda/queue/rotational", "0\n"),
    ("sys/block/sda/queue/scheduler", "[none] mq-deadline bfq\n"),
    ("sys/block/sda/queue/read_ahead_kb", "128\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("etc/sysctl.d/50-ours.conf", "# kernel.gone = 1\nvm.zone_reclaim_mode = 0\n"),
];

/// Mounts with the control groups.
pub(crate) const GROUPS: &str = "1 1 8:0 / / rw,relatime - ext4 /dev/sda rw\n\
    2 1 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

/// A bond of two cards, of which one has failed earlier.
pub(crate) const BOND: &str = "\
    Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\nActive Aggregator Info:\n\
    \tAggregator ID: 1\n\tPartner Mac Address: 5e:1b:00:00:00:07\n\nSlave Interface: eth0\n\
    MII Status: up\nLink Failure Count: 0\nAggregator ID: 1\n\nSlave Interface: eth1\n\
    MII Status: up\nLink Failure Count: 3\nAggregator ID: 1\n";

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

/// With these thresholds any disk is too fast to rotate, and none too slow for one that does not.
pub(crate) const FAST: &str = "[threshold.rotational-flag]\nfast_ms = 1e9\nslow_ms = 1e9";

/// Makes the files of a healthy machine, and then others instead.
pub(crate) fn machine(others: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    HEALTHY.iter().chain(others).for_each(|(path, text)| put(path, text));
    put("dev/sda", &"x".repeat(1 << 20));
    fs::create_dir_all(root.path().join("data/pg_wal")).unwrap();
    fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
    symlink(root.path().join("sys/block/sda"), root.path().join("sys/dev/block/8:0")).unwrap();
    root
}
