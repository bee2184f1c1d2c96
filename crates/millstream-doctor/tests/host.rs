//! Planted faults of a machine, in a directory that stands for its `/proc`, `/sys` and `/etc`.

use crate::checks::{keys, request};
use crate::server_more::server;
use millstream_doctor::{Report, Request, RunOptions, examine};
use millstream_model::Level;
use millstream_testkit as testkit;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A tuned machine with two memory nodes and one disk.
const HEALTHY: &[(&str, &str)] = &[
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

/// A fault: files that only look like it, files that have it.
struct Fault {
    check: &'static str,
    settings: &'static str,
    alike: &'static [(&'static str, &'static str)],
    fault: &'static [(&'static str, &'static str)],
    subject: &'static str,
    level: Level,
}

const FAULTS: &[Fault] = &[
    Fault {
        check: "atime",
        settings: "",
        alike: &[("proc/self/mountinfo", "1 1 8:0 / / rw,noatime - ext4 /dev/sda rw\n")],
        fault: &[("proc/self/mountinfo", "1 1 8:0 / / rw - ext4 /dev/sda rw\n")],
        subject: "/",
        level: Level::Info,
    },
    Fault {
        check: "conntrack-full",
        settings: "",
        alike: &[("proc/sys/net/netfilter/nf_conntrack_max", "0\n")],
        fault: &[("proc/sys/net/netfilter/nf_conntrack_count", "260000\n")],
        subject: "net.netfilter.nf_conntrack_max",
        level: Level::Critical,
    },
    Fault {
        check: "dead-sysctl",
        settings: "",
        alike: &[(
            "etc/sysctl.d/50-ours.conf",
            "net.gone = 1\n-vm.gone = 1\n; vm.gone = 1\nvm.dirty_background_ratio=0",
        )],
        fault: &[
            ("etc/sysctl.d/50-ours.conf", "kernel.sched_migration_cost_ns = 5000000\n"),
            ("etc/sysctl.conf", "kernel.sched_migration_cost_ns = 5000000\n"),
        ],
        subject: "kernel.sched_migration_cost_ns",
        level: Level::Info,
    },
    Fault {
        check: "dirty-limits",
        settings: "",
        alike: &[("proc/sys/vm/dirty_background_bytes", "0\n"), ("proc/sys/vm/dirty_background_ratio", "5\n")],
        fault: &[("proc/sys/vm/dirty_background_bytes", "0\n"), ("proc/sys/vm/dirty_background_ratio", "10\n")],
        subject: "vm.dirty_background_bytes",
        level: Level::Info,
    },
    Fault {
        check: "disk-scheduler",
        settings: FAST,
        alike: &[
            ("sys/block/sda/queue/scheduler", "none mq-deadline [bfq]\n"),
            ("sys/block/sda/queue/rotational", "1\n"),
        ],
        fault: &[("sys/block/sda/queue/scheduler", "none mq-deadline [bfq]\n")],
        subject: "sda",
        level: Level::Info,
    },
    Fault {
        check: "disk-full",
        settings: "[threshold.disk-full]\npercent = 0\ncritical_percent = 101",
        alike: &[],
        fault: &[],
        subject: "/",
        level: Level::Warning,
    },
    Fault {
        check: "kernel-known-bad",
        settings: "",
        alike: &[("proc/sys/kernel/osrelease", "3.8.13-118.el7uek.x86_64\n")],
        fault: &[("proc/sys/kernel/osrelease", "3.2.0-70-generic\n")],
        subject: "",
        level: Level::Warning,
    },
    Fault {
        check: "disk-read-ahead",
        settings: "",
        alike: &[("sys/block/sda/queue/read_ahead_kb", "4096\n")],
        fault: &[("sys/block/sda/queue/read_ahead_kb", "16384\n")],
        subject: "sda",
        level: Level::Info,
    },
    Fault {
        check: "rotational-flag",
        // Whatever the disk of the test answers in.
        settings: FAST,
        alike: &[],
        fault: &[("sys/block/sda/queue/rotational", "1\n")],
        subject: "sda",
        level: Level::Info,
    },
    Fault {
        check: "transparent-huge-pages",
        settings: "",
        alike: &[("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")],
        fault: &[("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")],
        subject: "",
        level: Level::Info,
    },
    Fault {
        check: "write-barrier-off",
        settings: "",
        alike: &[("proc/self/mountinfo", "1 1 8:0 / / rw - ext4 /dev/sda rw,barrier=1\n")],
        fault: &[("proc/self/mountinfo", "1 1 8:0 / / rw - ext4 /dev/sda rw,nobarrier\n")],
        subject: "/",
        level: Level::Critical,
    },
    Fault {
        check: "zone-reclaim",
        settings: "",
        alike: &[("proc/sys/vm/zone_reclaim_mode", "1\n"), ("sys/devices/system/node/has_memory", "0\n")],
        fault: &[("proc/sys/vm/zone_reclaim_mode", "1\n")],
        subject: "vm.zone_reclaim_mode",
        level: Level::Warning,
    },
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
    fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
    symlink(root.path().join("sys/block/sda"), root.path().join("sys/dev/block/8:0")).unwrap();
    root
}

pub(crate) async fn found(url: &str, root: &Path, check: &str, settings: &str) -> Vec<(String, Level)> {
    let request = Request { root: Some(root.to_owned()), ..request(url, &[check], settings) };
    let report = examine(&request).await.unwrap();
    keys(&report);
    report.findings.iter().map(|finding| (finding.subject.clone(), finding.level)).collect()
}

#[tokio::test]
async fn planted_faults_of_a_machine_are_found_and_nothing_else() {
    let database = testkit::database().await;
    let url = database.url();
    let all: Vec<&str> = FAULTS.iter().map(|fault| fault.check).collect();
    let healthy = machine(&[]);
    let request = Request { root: Some(healthy.path().to_owned()), ..request(&url, &all, FAST) };
    let report = examine(&request).await.unwrap();
    let unexpected = report.findings.iter().find(|finding| finding.check != "disk-full");
    assert_eq!((unexpected, report.skipped.as_slice()), (None, &[][..]));
    for Fault { check, settings, alike, fault, subject, level } in FAULTS {
        if !alike.is_empty() {
            let place = machine(alike);
            assert_eq!(found(&url, place.path(), check, settings).await.first(), None, "{check}: looks alike");
        }
        let place = machine(fault);
        let expected = [((*subject).to_owned(), *level)];
        assert_eq!(found(&url, place.path(), check, settings).await, expected, "{check}");
    }
}

#[tokio::test]
async fn settings_are_compared_with_the_memory_of_the_machine_or_of_the_control_group() {
    for build in testkit::builds().await {
        let conf = [
            "shared_buffers = 128MB",
            "work_mem = 16MB",
            "max_connections = 100",
            "maintenance_work_mem = 1GB",
            "effective_io_concurrency = 32",
        ];
        let server = server(build, &conf).await;
        let url = server.url("postgres");
        let (large, small) = ("MemTotal: 20000000 kB\n", "MemTotal: 600000 kB\n");
        let memory = |text| ("proc/meminfo", text);
        let spinning = ("sys/block/sda/queue/rotational", "1\n");
        let (own, limit) = (("proc/self/cgroup", "0::/db\n"), ("sys/fs/cgroup/db/memory.max", "209715200\n"));
        let limited = [memory(large), own, limit, spinning, ("proc/self/mountinfo", GROUPS)];
        for (check, settings, files, expected) in [
            ("default-setting", "", &[memory(large), spinning][..], &[("shared_buffers", Level::Info)][..]),
            ("default-setting", "", &[memory(small), spinning], &[]),
            ("default-setting", FAST, &[memory(small)], &[("random_page_cost", Level::Info)]),
            ("default-setting", "", &limited, &[]),
            ("memory-overcommitted", "", &[memory(large)], &[]),
            ("memory-overcommitted", "", &limited, &[("shared_buffers", Level::Warning)]),
            ("memory-promised", "", &[memory(large)], &[]),
            ("memory-promised", "", &[memory(small)], &[("work_mem", Level::Warning)]),
            ("memory-promised", "", &limited, &[("work_mem", Level::Warning)]),
            ("huge-pages-unused", "", &[memory(large)], &[]),
            ("huge-pages-unused", SMALL, &[memory(large)], &[("huge_pages", Level::Info)]),
        ] {
            let place = machine(files);
            let expected: Vec<_> = expected.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect();
            assert_eq!(found(&url, place.path(), check, settings).await, expected, "{check} {files:?}");
        }
        if build.major() < 17 {
            let place = machine(&[memory("MemTotal: 20000000 kB\nHugePages_Total: 100\nHugePages_Free: 20\n")]);
            assert_eq!(found(&url, place.path(), "huge-pages-unused", SMALL).await, [], "they are used");
        }
    }
}

#[tokio::test]
async fn nothing_rests_on_a_flag_that_is_wrong() {
    let server = testkit::Server::start(testkit::default_build().await, testkit::Settings::default()).await;
    let url = server.url("postgres");
    let scheduler = ("sys/block/sda/queue/scheduler", "none mq-deadline [bfq]\n");
    let place = machine(&[("proc/meminfo", "MemTotal: 600000 kB\n"), scheduler]);
    // The kernel says that the disk does not rotate, and every read takes too long for that.
    let slow = "[threshold.rotational-flag]\nfast_ms = 0\nslow_ms = 0\n";
    let silent = format!("{slow}[[silence]]\nkey = 'rotational-flag:sda'\nuntil = '2027-02-01'\nreason = 'it is busy'");
    for (check, subject) in [("default-setting", "random_page_cost"), ("disk-scheduler", "sda")] {
        let report = async |settings: &str| {
            let request = Request { root: Some(place.path().to_owned()), ..request(&url, &[check], settings) };
            examine(&request).await.unwrap()
        };
        let is_found = |report: &Report| report.findings.iter().any(|one| one.check == check && one.subject == subject);
        assert!(is_found(&report(FAST).await), "{check}");
        let wrong = report(slow).await;
        assert!(!is_found(&wrong) && !wrong.passed.contains(&check.to_owned()), "{wrong:?}");
        let why = format!(
            "{subject}: it rests on whether the disk rotates, and that is wrong: first see rotational-flag:sda"
        );
        assert!(wrong.skipped.iter().any(|skip| skip.check == check && skip.why == why), "{wrong:?}");
        // Nobody has asked for the other check.
        assert!(wrong.findings.iter().all(|one| one.check == check), "{wrong:?}");
        assert!(wrong.skipped.iter().all(|one| one.check == check), "{wrong:?}");
        // What is silenced is not called wrong.
        assert!(is_found(&report(&silent).await), "{check}");
    }
}

const SMALL: &str = "[threshold.huge-pages-unused]\nshared_gb = 0.01";

#[tokio::test]
async fn a_report_from_a_container_says_whose_facts_it_has() {
    let database = testkit::database().await;
    let layers = ("proc/self/mountinfo", "1 1 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/a\n");
    let kernel = ("proc/2/comm", "kthreadd\n");
    for (files, container) in [
        (&[("run/.containerenv", "")][..], Some("Podman")),
        (&[("run/secrets/kubernetes.io/serviceaccount/token", ""), layers], Some("Kubernetes")),
        (&[("proc/1/environ", "PATH=/bin\0container=containerd\0"), layers], Some("containerd")),
        (&[layers], Some("its root is made of layers")),
        (&[("proc/1/environ", "PATH=/bin\0container=\0"), ("proc/2/comm", "sh\n")], None),
        // A machine whose image was one of a container.
        (&[("run/.containerenv", ""), (".dockerenv", ""), layers, kernel], None),
        (&[], None),
    ] {
        let place = machine(files);
        let request = Request { root: Some(place.path().to_owned()), ..request(&database.url(), &["atime"], "") };
        let report = examine(&request).await.unwrap();
        assert_eq!(report.container.as_deref(), container, "{files:?}");
        let says = container.map(|name| format!("The doctor runs in a container ({name})"));
        let text = millstream_doctor::text(&report, true, &RunOptions::default());
        assert_eq!(text.contains("The doctor runs in a container"), says.is_some(), "{text}");
        assert!(says.is_none_or(|says| text.contains(&says)), "{text}");
    }
}

#[tokio::test]
async fn this_machine_is_examined_if_the_server_is_here() {
    let database = testkit::database().await;
    let here = examine(&request(&database.url(), &["kernel-known-bad"], "")).await.unwrap();
    assert!(here.skipped.is_empty() && here.passed == ["kernel-known-bad"], "{here:?}");
}

#[tokio::test]
async fn disks_that_a_file_system_does_not_name_are_skipped_and_not_passed() {
    let database = testkit::database().await;
    let place = machine(&[("proc/self/mountinfo", "1 1 0:50 / / rw,noatime - zfs tank/data rw\n")]);
    let checks = ["atime", "device-saturated", "disk-read-ahead", "disk-scheduler", "rotational-flag"];
    let request = Request { root: Some(place.path().to_owned()), ..request(&database.url(), &checks, FAST) };
    let report = examine(&request).await.unwrap();
    assert_eq!(report.passed, ["atime"], "it needs no device");
    let why = "the disk of the data, because its file system (zfs) names no device";
    assert_eq!(report.skipped.len(), 4, "{report:?}");
    assert!(report.skipped.iter().all(|skip| skip.why.contains(why)), "{report:?}");
}

#[tokio::test]
async fn the_file_system_of_a_tablespace_is_examined_too() {
    let server = testkit::Server::start(testkit::default_build().await, testkit::Settings::default()).await;
    let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
    // The working directory of the server is its data directory.
    client.batch_execute("copy (select 1) to program 'cat >/dev/null; mkdir ../elsewhere'").await.unwrap();
    let sql = "select regexp_replace(current_setting('data_directory'), '[^/]*$', 'elsewhere')";
    let dir: String = client.query_one(sql, &[]).await.unwrap().get(0);
    let mounts =
        format!("1 1 8:0 / / rw,relatime - ext4 /dev/sda rw\n2 1 8:0 / {dir} rw - ext4 /dev/sda rw,nobarrier\n");
    let place = machine(&[("proc/self/mountinfo", &mounts)]);
    assert_eq!(found(&url, place.path(), "atime", "").await, []);
    client.batch_execute(&format!("create tablespace elsewhere location '{dir}'")).await.unwrap();
    for (check, level) in [("atime", Level::Info), ("write-barrier-off", Level::Critical)] {
        assert_eq!(found(&url, place.path(), check, "").await, [(dir.clone(), level)]);
    }
    // WAL is not there.
    let settings = "[threshold.disk-full]\npercent = 101\ncritical_percent = 101\nwal_times = 1e12";
    assert_eq!(found(&url, place.path(), "disk-full", settings).await, [("/".to_owned(), Level::Warning)]);
}
