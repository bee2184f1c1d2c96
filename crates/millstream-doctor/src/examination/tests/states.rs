//! Faults of a machine that its files show at once.

use super::machine::{FAST, machine};
use super::{Fault, are_found, fault, found, looked};
use crate::host::Host;
use millstream_model::Level;

fn faults() -> Vec<Fault> {
    vec![
        fault("atime", "/")
            .at(Level::Info)
            .alike(&[("proc/self/mountinfo", "1 1 8:0 / / rw,noatime - ext4 /dev/sda rw\n")])
            .has(&[("proc/self/mountinfo", "1 1 8:0 / / rw - ext4 /dev/sda rw\n")]),
        fault("conntrack-full", "net.netfilter.nf_conntrack_max")
            .at(Level::Critical)
            .alike(&[("proc/sys/net/netfilter/nf_conntrack_max", "0\n")])
            .has(&[("proc/sys/net/netfilter/nf_conntrack_count", "260000\n")]),
        fault("dead-sysctl", "kernel.sched_migration_cost_ns")
            .at(Level::Info)
            .alike(&[(
                "etc/sysctl.d/50-ours.conf",
                "net.gone = 1\n-vm.gone = 1\n; vm.gone = 1\nvm.dirty_background_ratio=0",
            )])
            .has(&[
                ("etc/sysctl.d/50-ours.conf", "kernel.sched_migration_cost_ns = 5000000\n"),
                ("etc/sysctl.conf", "kernel.sched_migration_cost_ns = 5000000\n"),
            ]),
        fault("dirty-limits", "vm.dirty_background_bytes")
            .at(Level::Info)
            .alike(&[("proc/sys/vm/dirty_background_bytes", "0\n"), ("proc/sys/vm/dirty_background_ratio", "5\n")])
            .has(&[("proc/sys/vm/dirty_background_bytes", "0\n"), ("proc/sys/vm/dirty_background_ratio", "10\n")]),
        fault("disk-scheduler", "sda")
            .at(Level::Info)
            .alike(&[
                ("sys/block/sda/queue/scheduler", "none mq-deadline [bfq]\n"),
                ("sys/block/sda/queue/rotational", "1\n"),
            ])
            .has(&[("sys/block/sda/queue/scheduler", "none mq-deadline [bfq]\n")]),
        fault("disk-full", "/"),
        fault("kernel-known-bad", "")
            .alike(&[("proc/sys/kernel/osrelease", "3.8.13-118.el7uek.x86_64\n")])
            .has(&[("proc/sys/kernel/osrelease", "3.2.0-70-generic\n")]),
        fault("disk-read-ahead", "sda")
            .at(Level::Info)
            .alike(&[("sys/block/sda/queue/read_ahead_kb", "4096\n")])
            .has(&[("sys/block/sda/queue/read_ahead_kb", "16384\n")]),
        fault("rotational-flag", "sda").at(Level::Info).has(&[("sys/block/sda/queue/rotational", "1\n")]),
        fault("transparent-huge-pages", "")
            .at(Level::Info)
            .alike(&[("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")])
            .has(&[("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")]),
        fault("write-barrier-off", "/")
            .at(Level::Critical)
            .alike(&[("proc/self/mountinfo", "1 1 8:0 / / rw - ext4 /dev/sda rw,barrier=1\n")])
            .has(&[("proc/self/mountinfo", "1 1 8:0 / / rw - ext4 /dev/sda rw,nobarrier\n")]),
        fault("zone-reclaim", "vm.zone_reclaim_mode")
            .alike(&[("proc/sys/vm/zone_reclaim_mode", "1\n"), ("sys/devices/system/node/has_memory", "0\n")])
            .has(&[("proc/sys/vm/zone_reclaim_mode", "1\n")]),
    ]
}

#[tokio::test]
async fn planted_faults_of_a_machine_are_found_and_nothing_else() {
    let all: Vec<&str> = faults().iter().map(|fault| fault.check).collect();
    // Whatever the disk of the test has room for, and however fast it is.
    let settings = format!("{FAST}\n[threshold.disk-full]\npercent = 101\nwal_times = 0");
    let (findings, skipped, _) = looked(machine(&[]).path(), &all, &settings).await;
    assert_eq!((findings.first(), skipped.first()), (None, None));
    are_found(&[], &format!("{FAST}\n[threshold.disk-full]\npercent = 0\ncritical_percent = 101"), faults()).await;
}

#[tokio::test]
async fn disks_that_a_file_system_does_not_name_are_skipped_and_not_passed() {
    let place = machine(&[("proc/self/mountinfo", "1 1 0:50 / / rw,noatime - zfs tank/data rw\n")]);
    let checks = ["atime", "device-saturated", "disk-read-ahead", "disk-scheduler", "rotational-flag"];
    let (_, skipped, passed) = looked(place.path(), &checks, FAST).await;
    assert_eq!(passed, ["atime"], "it needs no device");
    let why = "the disk of the data, because its file system (zfs) names no device";
    assert_eq!(skipped.len(), 4, "{skipped:?}");
    assert!(skipped.iter().all(|skip| skip.why.contains(why)), "{skipped:?}");
}

#[tokio::test]
async fn little_room_for_wal_is_found_on_a_disk_that_is_not_full() {
    let place = machine(&[]);
    let of = async |times: &str| {
        let settings = format!("[threshold.disk-full]\npercent = 101\ncritical_percent = 101\nwal_times = {times}");
        found(place.path(), "disk-full", &settings).await
    };
    assert_eq!(of("0").await, []);
    assert_eq!(of("1e12").await, [("/".to_owned(), Level::Warning)]);
}

#[test]
fn a_container_is_known_by_its_files() {
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
        assert_eq!(Host::in_folder(place.path()).container().as_deref(), container, "{files:?}");
    }
}
