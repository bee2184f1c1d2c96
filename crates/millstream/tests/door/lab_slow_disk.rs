//! Arms on a slow disk: how slow it is, what the record says, and that nothing of it stays.

use crate::process::{assert_runs, command, millstream, run, send};
use millstream_lab::Outcome;
use millstream_lab::experiments::Record;
use millstream_testkit::{Feature, LocalHome, Need, build_with, machine_has, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An arm on the disk of the machine, and one on a slow disk, whose WAL has small segments, too.
const EXPERIMENT: &str = "\
question = 'What does a slow flush cost?'
seconds = 1
setup = ['create table if not exists t (a int)']
run = { scripts = ['one.sql'], check = \"select current_setting('wal_segment_size') = '16MB'\" }
[values]
disk = { value = 'flush_ms=20,mount=noatime', changes = 'the slow disk' }
[[arm]]
name = 'own'
[[arm]]
name = 'slow'
[arm.run]
disk = '{disk}'
wal_segment_mb = 1
check = \"select current_setting('wal_segment_size') = '1MB'\"
";

/// What a disk over a file needs of the machine besides FUSE and loop devices, which the lab names where they are missing.
const NEEDS: [Need; 3] = [
    Need::Root,
    Need::Program { name: "losetup", package: "mount" },
    Need::Program { name: "mkfs.ext4", package: "e2fsprogs" },
];

/// What was printed, with one space between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Place {
    local: LocalHome,
    dir: tempfile::TempDir,
    bin: &'static Path,
}

impl Place {
    async fn new() -> Option<Self> {
        if !machine_has(&NEEDS) {
            return None;
        }
        let bin = &build_with(&[Feature::Pgbench]).await?.installation.bin;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("flush.toml"), EXPERIMENT).unwrap();
        std::fs::write(dir.path().join("one.sql"), "insert into t values (1);\n").unwrap();
        Some(Self { local: LocalHome::new(), dir, bin })
    }

    fn command(&self, out: &str, more: &[&str]) -> Command {
        let mut command = command(&["lab", "run", "--quick", "--seconds", "2", "--change-host", "--postgres"]);
        command.arg(self.bin).args(more).arg(self.dir.path().join("flush.toml"));
        command.arg("--out").arg(self.dir.path().join(out)).env("MILLSTREAM_HOME", &self.local.dir);
        command
    }

    /// What is mounted below the home.
    fn mounts(&self) -> Vec<String> {
        let home = self.local.dir.display().to_string();
        let all = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        all.lines().filter(|line| line.contains(&home)).map(str::to_owned).collect()
    }

    /// Directories of slow disks.
    fn disks(&self) -> Vec<PathBuf> {
        let homes = std::fs::read_dir(self.local.dir.join("lab")).into_iter().flatten().flatten();
        let slow = homes.filter(|home| home.file_name().to_string_lossy().starts_with("slow-"));
        slow.map(|home| home.path()).collect()
    }

    /// Whether nothing of a slow disk is there any more.
    fn is_tidy(&self) -> bool {
        self.mounts().is_empty() && self.disks().is_empty()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for home in std::fs::read_dir(self.local.dir.join("lab")).into_iter().flatten().flatten() {
            let _ = command(&["db", "stop"]).env("MILLSTREAM_HOME", home.path()).output();
        }
        // Only a test that fails leaves one.
        for disk in self.disks() {
            let points = ["disk", "device"].map(|name| disk.join(name));
            let _ = Command::new("umount").arg("-l").args(points).output();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_arm_on_a_slow_disk_waits_for_it_and_the_disk_is_given_back_also_after_a_kill() {
    let Some(place) = Place::new().await else { return };
    let (out, mut first) = (place.dir.path().join("out"), None);
    until("no other run changes this machine", async || {
        let _ = std::fs::remove_dir_all(&out);
        let ended = run(&mut place.command("out", &[]));
        let is_alone = !format!("{ended:?}").contains("another process changes settings of this machine");
        first = Some(ended);
        is_alone
    })
    .await;
    let first = first.unwrap();
    let record = Record::read(&place.dir.path().join("out")).unwrap();
    let of = |record: &Record, arm: &str| record.runs.iter().find(|run| run.arm == arm).unwrap().clone();
    if let Outcome::Skipped(why) = of(&record, "slow").outcome {
        // Such as in a container.
        let lacks = ["no slow disk: ", "losetup", "mount", "ended before it was ready"];
        assert!(lacks.iter().any(|lack| why.contains(lack)), "{first:?}");
        return millstream_testkit::skip(&why);
    }
    let first = first.ends(0);
    // Each transaction needs a flush, and no flush is faster than was asked.
    let latency = of(&record, "slow").value("latency_ms").unwrap();
    assert!(latency > 20.0, "{latency}");
    let (disk, measured) = record.conditions.slow_disks.first_key_value().unwrap();
    assert_eq!((disk.as_str(), measured.file_system.as_str()), ("flush_ms=20,mount=noatime", "ext4 (noatime)"));
    assert!(measured.flush_ms.unwrap() >= 20.0, "{measured:?}");
    let said = words(&first.stdout);
    assert!(said.contains("asked for") && said.contains("FUSE"), "{first:?}");
    assert!(record.conditions.disk.is_some(), "that of the machine");
    assert!(place.is_tidy(), "at the end: {:?}", place.mounts());

    let mut killed = place.command("killed", &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a server runs on the slow disk", async || {
        assert_runs(&mut killed);
        place.disks().iter().any(|disk| disk.join("disk/server/data/postmaster.pid").exists())
    })
    .await;
    send("KILL", killed.id());
    killed.wait().unwrap();
    assert!(!place.is_tidy());
    let next = run(&mut place.command("next", &["--arms", "own"])).ends(0);
    assert!(next.stderr.contains("a run that was killed had left its slow disk"), "{next:?}");
    assert!(place.is_tidy(), "after a kill: {:?}", place.mounts());
}

#[test]
fn a_slow_disk_that_does_not_exist_is_refused_before_anything_runs() {
    for (value, says) in [
        ("disk=hd", "unknown disk \"hd\": did you mean \"hdd\"?"),
        ("disk=hdd,flush_ms=x", "flush_ms of a disk must be a number up to 10000, not x"),
    ] {
        let refused = millstream(&["lab", "run", "rate-limit", "--set", value]).ends(2);
        assert!(words(&refused.stderr).contains(says), "{refused:?}");
    }
    let without = millstream(&["lab", "run", "rate-limit", "--set", "disk=hdd"]).ends(2);
    let says = "no arm of rate-limit can be run: it changes this machine; --change-host allows that";
    assert!(words(&without.stderr).contains(says), "{without:?}");
}
