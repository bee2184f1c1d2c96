//! Stores on a disk that is full, and on one that is read-only.

use crate::stored::{built, exported, is_whole, known, leftovers, one, range};
use millstream_host::{Command, Ended, TargetFile};
use millstream_pg::Explained;
use millstream_ranges::export::{ExportOptions, export};
use millstream_ranges::{Family, Generation, Range};
use millstream_testkit::{Place, SmallDisk};

/// More ranges than fit on a small disk.
fn many() -> impl Iterator<Item = (Range, String)> {
    (0..400_000_u128).map(|n| (range(Family::V4, n << 8, (n << 8) + 127), format!("\"n\":{n}")))
}

#[test]
fn a_full_disk_ends_a_build_and_the_old_generation_serves() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    let (store, place) = (disk.dir.join("geo"), Place::make());
    one(&store, 1);
    for memory_bytes in [512 << 20, 1 << 20] {
        let failed = built(&store, many(), |request| request.memory_bytes = memory_bytes).unwrap_err();
        assert!(failed.to_string().contains("No space left on device"), "{failed:?}");
        assert_eq!(failed.hint().as_deref(), Some("free some space; the store is as it was"));
        assert_eq!(known(&store, "0.0.0.15").as_deref(), Some("\"build\":1"));
        assert!(leftovers(&store).is_empty(), "{:?}", leftovers(&store));
    }
    built(&place.path("big"), many(), |_| ()).unwrap();
    let big = Generation::open(&place.path("big"), None).unwrap();
    let mut file = TargetFile::create(&disk.dir.join("many.csv")).unwrap();
    let failed = export(&big, "csv", &mut file, &ExportOptions::default()).unwrap_err();
    assert!(failed.to_string().contains("No space left on device"), "{failed:?}");
    drop(file);
    let names: Vec<_> = disk.dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["geo"], "what was written of the export is gone");
    disk.grow(200 << 20);
    built(&store, many(), |_| ()).unwrap();
    assert_eq!(known(&store, "0.0.7.7").as_deref(), Some("\"n\":7"));
}

#[test]
fn a_store_on_a_read_only_disk_can_be_read_and_not_built() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    let store = disk.dir.join("geo");
    one(&store, 1);
    let mounted = |how: &str| {
        let mut mount = Command::new("mount");
        mount.arg("-o").arg(format!("remount,{how}")).arg(&disk.mount);
        mount.run_blocking().and_then(Ended::succeeded).unwrap();
    };
    mounted("ro");
    assert_eq!(known(&store, "0.0.0.15").as_deref(), Some("\"build\":1"));
    assert!(is_whole(&store));
    let generation = Generation::open(&store, None).unwrap();
    assert!(generation.is(&store, None).unwrap());
    assert_eq!(exported(&generation, "csv", &ExportOptions::default()), b"first,last,build\n0.0.0.10,0.0.0.20,1\n");
    drop(generation);
    let refused = built(&store, [(range(Family::V4, 1, 2), String::new())], |_| ()).unwrap_err();
    assert!(refused.to_string().contains("Read-only file system"), "{refused:?}");
    mounted("rw");
    one(&store, 2);
}
