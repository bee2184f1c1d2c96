//! Attributes of a real disk that the doctor finds wrong, changes and gives back.

use crate::process::{Run, doctor, run};
use millstream_testkit::{LoopDisk, Server, Settings, StopMode, default_build};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

/// Any disk answers within a second, and only then the flag counts as wrong.
const CONFIG: &str = "[threshold.rotational-flag]\nfast_ms = 1000\nslow_ms = 10000\n";

/// A server whose WAL is on a disk of its own.
struct Place {
    server: Server,
    home: tempfile::TempDir,
    disk: LoopDisk,
}

impl Place {
    /// `None`, after a skip, where no such disk can be made.
    async fn new() -> Option<Self> {
        let disk = LoopDisk::mount(256 << 20)?;
        let server = Server::start(default_build().await, Settings::default()).await;
        server.stop(StopMode::Fast).await;
        let (from, to) = (server.data().join("pg_wal"), disk.dir.join("pg_wal"));
        // Only root can mount a disk, and root's `mv` keeps the owner.
        assert!(Command::new("mv").arg(&from).arg(&to).status().unwrap().success());
        symlink(&to, &from).unwrap();
        server.start_again().await;
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("own.toml"), CONFIG).unwrap();
        Some(Self { server, home, disk })
    }

    fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/{name}", self.disk.name))
    }

    fn value(&self, name: &str) -> String {
        fs::read_to_string(self.attribute(name)).unwrap().trim().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        doctor(args, &self.server.url("postgres"), self.home.path())
    }

    fn doctor(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }

    /// What the check says of the disk, if it finds something.
    fn finding(&self, check: &str) -> Option<serde_json::Value> {
        let args = ["--check", check, "--one-database", "--config", "own.toml", "--output", "json"];
        let report = self.doctor(&args).ends(0).json();
        let key = format!("{check}:{}", self.disk.name);
        report["findings"].as_array().unwrap().iter().find(|one| one["key"] == key.as_str()).cloned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_attribute_of_a_disk_is_found_changed_and_given_back() {
    let Some(place) = Place::new().await else { return };
    let faults = [("rotational-flag", "rotational", "1", "0"), ("disk-read-ahead", "read_ahead_kb", "8192", "128")];
    for (number, (check, attribute, wrong, right)) in (1..).zip(faults) {
        let file = place.attribute(attribute);
        fs::write(&file, right).unwrap();
        assert_eq!(place.finding(check), None, "{check}: healthy");
        fs::write(&file, wrong).unwrap();
        let found = place.finding(check).expect("the fault is found");
        let measured = found["experiment"]["target"].as_str();
        assert_eq!(measured, (attribute == "rotational").then(|| file.to_str().unwrap()), "{found}");

        let key = format!("{check}:{}", place.disk.name);
        place.doctor(&["fix", &key, "--yes", "--config", "own.toml"]).ends(0);
        assert_eq!(place.value(attribute), right);
        assert_eq!(place.finding(check), None, "{check}: repaired");
        let stays = place.doctor(&["confirm"]).ends(0);
        let until = format!("a restart of the machine reverts it: {} has no serial number", place.disk.name);
        assert!(stays.stderr.contains(&until), "{stays:?}");
        place.doctor(&["undo", &number.to_string()]).ends(0);
        assert_eq!(place.value(attribute), wrong);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attribute_of_a_disk_that_is_not_the_labs_has_no_experiment_here() {
    let Some(place) = Place::new().await else { return };
    fs::write(place.attribute("rotational"), "1").unwrap();
    let key = format!("rotational-flag:{}", place.disk.name);
    let refused = place.doctor(&["fix", &key, "--experiment", "--config", "own.toml"]).ends(2);
    let why = format!("the lab measures the disk of its own data, and that is not {}", place.disk.name);
    assert!(refused.stderr.contains(&why) && refused.stderr.contains("set MILLSTREAM_HOME"), "{refused:?}");
    // With its data on that disk, it has one.
    let mut there = place.command(&["fix", &key, "--experiment", "--config", "own.toml"]);
    let there = run(there.env("MILLSTREAM_HOME", &place.disk.mount)).ends(0);
    let arms = ["host = { \"disk.rotational\" = \"1\" }", "host = { \"disk.rotational\" = \"0\" }"];
    assert!(arms.iter().all(|arm| there.stdout.contains(arm)), "{there:?}");
    assert_eq!(place.value("rotational"), "1", "nothing was changed");
}
