//! Section `storage`: mounts and queue settings of the devices of data and WAL.

use super::{Facts, Ground, Section};
use millstream_host::kernel::BlockDevice;
use millstream_host::kernel::file::{choice, word};
use millstream_host::kernel::{Mount, mount};
use std::path::{Path, PathBuf};

pub(super) const SECTION: Section = Section { name: "storage", read };

/// Settings of a queue.
const QUEUE: &[&str] = &[
    "scheduler",
    "rotational",
    "read_ahead_kb",
    "nr_requests",
    "wbt_lat_usec",
    "write_cache",
    "fua",
    "max_sectors_kb",
    "logical_block_size",
    "physical_block_size",
    "rq_affinity",
    "nomerges",
    "io_poll",
];

/// Options whose values are addresses.
const ADDRESSES: &[&str] = &["addr", "clientaddr", "mountaddr"];

fn read(ground: &Ground) -> Facts {
    let mut found = Facts::new();
    let of = |dir: PathBuf| mount::of(&ground.mounts, &dir);
    let (data, wal) = (ground.data.clone().and_then(of), ground.data.as_ref().and_then(|data| of(data.join("pg_wal"))));
    if let Some(data) = data {
        add(&mut found, "data", data, Path::new("/sys"));
    }
    match wal {
        Some(wal) if Some(wal) != data => add(&mut found, "wal", wal, Path::new("/sys")),
        Some(_) => drop(found.insert("wal.file_system".to_owned(), "that of the data".to_owned())),
        None => {}
    }
    found
}

fn add(found: &mut Facts, role: &str, mount: &Mount, sys: &Path) {
    let mut put = |name: &str, value: String| drop(found.insert(format!("{role}.{name}"), value));
    put("file_system", mount.file_system.clone());
    put("mount_options", options(&format!("{},{}", mount.options, mount.super_options)));
    let Some(device) = BlockDevice::of(mount, sys) else { return };
    put("device", kind(&device.name).to_owned());
    if device.disks != [device.name.clone()] {
        put("disks", device.disks.len().to_string());
    }
    // The disks below a composed device do the work, and are usually alike.
    let below = device.disks.first().map(|disk| sys.join("block").join(disk)).filter(|dir| dir.is_dir());
    for (prefix, dir) in [("queue", Some(device.dir)), ("disk.queue", below)] {
        let Some(dir) = dir.filter(|_| prefix == "queue" || device.disks != [device.name.clone()]) else { continue };
        for name in QUEUE {
            if let Some(value) = word(dir.join("queue").join(name)) {
                put(&format!("{prefix}.{name}"), choice(&value).to_owned());
            }
        }
    }
}

/// Options without paths and addresses, each once.
fn options(all: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for option in all.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let is_private = value.contains(['/', '.']) || ADDRESSES.contains(&name);
        if !is_private && !kept.contains(&option) {
            kept.push(option);
        }
    }
    kept.join(",")
}

/// The kind of device without its number or letter: `sdb` is `sd`, `nvme0n1` is `nvme`, `dm-0` is `dm`.
fn kind(device: &str) -> &str {
    let kind = device.split(|c: char| c.is_ascii_digit() || c == '-').next().unwrap_or(device);
    match kind {
        "nvme" | "md" | "dm" | "loop" | "zram" | "mmcblk" | "ram" | "nbd" | "rbd" => kind,
        lettered => ["xvd", "vd", "sd", "hd"].into_iter().find(|kind| lettered.starts_with(kind)).unwrap_or(lettered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn options_hold_no_path_and_no_address() {
        let all = "rw,noatime,rw,lowerdir=/a:/b,commit=30,addr=10.0.0.1,subvol=/x,compress=zstd:3,clientaddr=fe80";
        assert_eq!(options(all), "rw,noatime,commit=30,compress=zstd:3");
    }

    #[test]
    fn devices_are_named_by_kind() {
        let kinds = ["sdb", "vda", "xvdf", "nvme0n1", "dm-0", "md127", "mmcblk0"].map(kind);
        assert_eq!(kinds, ["sd", "vd", "xvd", "nvme", "dm", "md", "mmcblk"]);
    }

    #[test]
    fn a_queue_shows_its_choices() {
        let sys = tempfile::tempdir().unwrap();
        let queue = sys.path().join("class/block/sdb/queue");
        fs::create_dir_all(&queue).unwrap();
        fs::write(queue.join("scheduler"), "none [mq-deadline] kyber\n").unwrap();
        fs::write(queue.join("read_ahead_kb"), "128\n").unwrap();
        let mount = &mount::parsed("1 1 0:99 / /data rw - btrfs /dev/sdb rw,ssd")[0];
        let mut found = Facts::new();
        add(&mut found, "data", mount, sys.path());
        let expected = [
            ("data.device", "sd"),
            ("data.file_system", "btrfs"),
            ("data.mount_options", "rw,ssd"),
            ("data.queue.read_ahead_kb", "128"),
            ("data.queue.scheduler", "mq-deadline"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
}
