//! What a server shows together with its machine, for which a folder stands.

use crate::checks::{evidence, keys, request};
use crate::machine::{FAST, GROUPS, QUIET, machine};
use crate::server_more::{as_role, server};
use millstream_doctor::{Report, Request, RunOptions, examine};
use millstream_model::Level;
use millstream_model::quantity::bytes;
use millstream_testkit as testkit;
use std::path::Path;

pub(crate) async fn found(url: &str, root: &Path, check: &str, settings: &str) -> Vec<(String, Level)> {
    let request = Request { root: Some(root.to_owned()), ..request(url, &[check], settings) };
    let report = examine(&request).await.unwrap();
    keys(&report);
    report.findings.iter().map(|finding| (finding.subject.clone(), finding.level)).collect()
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

#[tokio::test]
async fn a_flag_that_a_measurement_contradicts_is_explained_and_not_folded_into_the_notes() {
    let database = testkit::database().await;
    let place = machine(&[("sys/block/sda/queue/rotational", "1\n"), ("sys/block/sda/queue/read_ahead_kb", "16384\n")]);
    let asked = request(&database.url(), &["disk-read-ahead", "rotational-flag"], FAST);
    let report = examine(&Request { root: Some(place.path().to_owned()), ..asked }).await.unwrap();
    let text = millstream_doctor::text(&report, false, &RunOptions::default());
    let (explained, notes) = text.split_once("Notes about the machine").unwrap_or_else(|| panic!("{text}"));
    assert!(notes.contains("disk-read-ahead:sda") && !notes.contains("rotational-flag"), "{text}");
    let card = explained.split_once("info: rotational-flag: sda: ").map(|(_, card)| card).unwrap_or_default();
    for part in ["median of random reads of 4 KiB: ", "to do: correct the flag", "key: rotational-flag:sda"] {
        assert!(card.contains(part), "{part}: {text}");
    }
    let page = millstream_doctor::html(&report, &RunOptions::default());
    let (explained, notes) = page.split_once("<details").unwrap();
    assert!(explained.contains("rotational-flag:sda") && !notes.contains("rotational-flag:sda"), "{page}");
}

const SMALL: &str = "[threshold.huge-pages-unused]\nshared_gb = 0.01";

#[tokio::test]
async fn a_report_from_a_container_says_whose_facts_it_has() {
    let database = testkit::database().await;
    for (files, container) in [(&[("run/.containerenv", "")][..], Some("Podman")), (&[], None)] {
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

/// Faults of a machine that are compared with what the server may ask of it, and the checks that find them.
const ASKED: &[(&str, &str, &str)] = &[
    ("accept-queue-full", "later/proc/net/netstat", "TcpExt: TW ListenOverflows\nTcpExt: 1 520\n"),
    ("clock-source", "sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
    ("open-files-near-limit", "proc/sys/fs/file-nr", "990000 0 1000000\n"),
];

fn asked_too_much() -> tempfile::TempDir {
    let faults = ASKED.iter().map(|(_, path, text)| (*path, *text));
    machine(&QUIET.iter().copied().chain(faults).collect::<Vec<_>>())
}

#[tokio::test]
async fn each_check_of_the_machine_gets_its_own_setting_of_the_server() {
    for build in testkit::builds().await {
        let conf = [
            "max_connections = 41",
            "max_files_per_process = 777",
            "max_wal_size = 96MB",
            "track_io_timing = on",
            "track_wal_io_timing = off",
        ];
        let server = server(build, &conf).await;
        let (url, place) = (server.url("postgres"), asked_too_much());
        let checks: Vec<&str> = ASKED.iter().map(|(check, ..)| *check).chain(["disk-full"]).collect();
        let settings = "[threshold.disk-full]\npercent = 101\ncritical_percent = 101\nwal_times = 1e12";
        let asked = Request { root: Some(place.path().to_owned()), ..request(&url, &checks, settings) };
        let report = examine(&asked).await.unwrap();
        let of = |check: &str| {
            let found = report.findings.iter().find(|finding| finding.check == check);
            found.unwrap_or_else(|| panic!("{check}: {report:?}"))
        };
        let sql = "select current_setting('max_connections')::int8, current_setting('max_files_per_process')::int8, \
                   pg_size_bytes(current_setting('max_wal_size'))";
        let row = testkit::connect(&url).await.query_one(sql, &[]).await.unwrap();
        let [clients, files, wal] = [0, 1, 2].map(|column| u64::try_from(row.get::<_, i64>(column)).unwrap());
        for (check, name, value) in [
            ("accept-queue-full", "max_connections", clients.to_string()),
            ("open-files-near-limit", "that the server may open", (files * clients).to_string()),
            ("disk-full", "max_wal_size", bytes(wal)),
        ] {
            assert_eq!(evidence(of(check), name), Some(value.as_str()), "{check}");
        }
        let clock = &of("clock-source").sentence;
        assert!(clock.ends_with("and track_io_timing needs it all the time"), "{clock}");
    }
}

#[tokio::test]
async fn a_machine_is_examined_although_its_server_does_not_say_what_it_asks() {
    let server = testkit::Server::start(testkit::default_build().await, testkit::Settings::default()).await;
    let (url, place) = (server.url("postgres"), asked_too_much());
    let refused = "create role nobody login password 'p'; revoke execute on function pg_size_bytes(text) from public";
    testkit::connect(&url).await.batch_execute(refused).await.unwrap();
    let mut checks: Vec<&str> = ASKED.iter().map(|(check, ..)| *check).collect();
    checks.push("zone-reclaim");
    let asked = request(&as_role(&url, "nobody"), &checks, "");
    let report = examine(&Request { root: Some(place.path().to_owned()), ..asked }).await.unwrap();
    assert_eq!(report.passed, ["zone-reclaim"], "{report:?}");
    for (check, ..) in ASKED {
        let why = report.skipped.iter().find(|skip| skip.check == *check).map_or("", |skip| skip.why.as_str());
        assert!(why.starts_with("what the server asks of its machine: "), "{check}: {report:?}");
    }
}
