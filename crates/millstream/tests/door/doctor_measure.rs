//! Findings that the lab can measure before anything is changed.

use crate::process::{Run, command, doctor, run};
use millstream_lab::experiments::{Selection, Setup, Source, WarmUp};
use millstream_testkit::{Server, Settings, connect, dealt_builds, default_build};
use std::fs;

/// Every machine of a test is large enough for these findings.
const CONFIG: &str = "[threshold.default-setting]\ntimes = 1\n[threshold.huge-pages-unused]\nshared_gb = 0.01\n";

/// A server as it is when it is new.
struct Place {
    server: Server,
    home: tempfile::TempDir,
}

impl Place {
    async fn new(build: &'static millstream_testkit::Build) -> Self {
        let server = Server::start(build, Settings::with(&["shared_buffers = 128MB", "huge_pages = off"])).await;
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("own.toml"), CONFIG).unwrap();
        Self { server, home }
    }

    fn doctor(&self, args: &[&str]) -> Run {
        run(doctor(args, &self.server.url("postgres"), self.home.path()).args(["--config", "own.toml"]))
    }

    /// The experiment of a finding, as the lab reads it.
    fn experiment(&self, key: &str) -> Source {
        let printed = self.doctor(&["fix", key, "--experiment"]).ends(0);
        let file = self.home.path().join("change.toml");
        fs::write(&file, &printed.stdout).unwrap();
        Source::named(file.to_str().unwrap(), &Selection::default())
            .unwrap_or_else(|error| panic!("{error}: {printed:?}"))
    }
}

/// How the two arms of an experiment are run.
fn arms(source: &Source) -> [Setup; 2] {
    ["now", "changed"].map(|name| source.experiment.setup(source.experiment.arm(name).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_needs_a_restart_is_measured_on_a_server_of_the_lab_and_not_applied() {
    for build in dealt_builds().await {
        let place = Place::new(build).await;
        let found = place.doctor(&["--check", "default-setting,huge-pages-unused", "--one-database"]).ends(0);
        for key in ["default-setting:shared_buffers", "huge-pages-unused:huge_pages"] {
            let measure = format!("\n  measure first: millstream doctor fix {key} --experiment --db ");
            assert!(found.stdout.contains(&measure), "{found:?}");
            assert!(!found.stdout.contains(&format!("apply: millstream doctor fix {key}")), "{found:?}");
        }

        let source = place.experiment("default-setting:shared_buffers");
        let [now, changed] = arms(&source);
        assert_eq!(now.settings["shared_buffers"], "128MB");
        assert_ne!(changed.settings["shared_buffers"], "128MB");
        assert_eq!(source.experiment.warm_up, WarmUp::Seconds(5.0), "the server starts again between the arms");

        let source = place.experiment("huge-pages-unused:huge_pages");
        let [now, changed] = arms(&source);
        assert_eq!((now.settings["huge_pages"].as_str(), now.host.is_empty()), ("off", true));
        assert_eq!(changed.settings["huge_pages"], "on");
        assert!(changed.host["vm.nr_hugepages"].parse::<u32>().unwrap() > 64, "{changed:?}");
        assert_eq!([now, changed].map(|setup| setup.settings["shared_buffers"].clone()), ["128MB", "128MB"]);

        let by_hand = place.doctor(&["fix", "default-setting:shared_buffers", "--yes"]).ends(2);
        assert!(by_hand.stderr.contains("do it yourself: alter system set shared_buffers"), "{by_hand:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pgbench_does_not_show_is_not_measured_and_nobody_is_asked_after_a_quarter_of_an_hour() {
    let place = Place::new(default_build().await).await;
    let client = connect(&place.server.url("postgres")).await;
    for sql in [
        "alter system set full_page_writes = off",
        "alter system set checkpoint_completion_target = 0.5",
        "alter system set checkpoint_timeout = '1min'",
        "select pg_reload_conf()",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    let (none, some) = ("durability-off:full_page_writes", "checkpoint-spread:checkpoint_completion_target");
    for args in [&["--experiment"][..], &["--measure", "--yes"]] {
        let refused = place.doctor(&[&["fix", none], args].concat()).ends(2);
        assert!(refused.stderr.contains("this change has no experiment"), "{refused:?}");
    }
    let source = place.experiment(some);
    let [now, changed] = arms(&source);
    assert_eq!(changed.settings["checkpoint_completion_target"], "0.9");
    assert_eq!([now, changed].map(|setup| setup.settings["checkpoint_timeout"].clone()), ["30s", "30s"]);
    assert_eq!(source.experiment.seconds, 62, "two checkpoints begin in a run");
    let source = place.experiment("checkpoint-timeout:checkpoint_timeout");
    assert_eq!(arms(&source).map(|setup| setup.settings["checkpoint_timeout"].clone()), ["1min", "15min"]);
    assert_eq!(source.experiment.seconds, 122, "two checkpoints begin in a run that is as it is now");
    let alone = place.doctor(&["fix", some, "--measure"]).ends(2);
    assert!(alone.stderr.contains("there is no terminal to ask on"), "{alone:?}");
    let left: Vec<String> = fs::read_dir(place.home.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("doctor-measure"))
        .collect();
    assert_eq!(left, [""; 0], "nothing was measured");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_takes_the_printed_command_as_it_is_whatever_a_table_is_called() {
    let place = Place::new(default_build().await).await;
    let client = connect(&place.server.url("postgres")).await;
    let sql = "create table t (a int); create index one on t (a); create index \"two $b o'clock\" on t (a)";
    client.batch_execute(sql).await.unwrap();
    let found = place.doctor(&["--check", "duplicate-index", "--one-database"]).ends(1);
    let printed = found.stdout.lines().find_map(|line| line.strip_prefix("  apply: millstream "));
    let program = command(&[]);
    let line = format!("\"$PROGRAM\" {} --yes", printed.unwrap_or_else(|| panic!("{found:?}")));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &line]).env("PROGRAM", program.get_program()).env("MILLSTREAM_HOME", place.home.path());
    let password = place.server.password();
    assert!(
        !found.stdout.contains(password) && line.contains(" --db ") && line.contains(" --config own.toml"),
        "{line}"
    );
    assert!(found.stdout.contains("The commands leave the password out"), "{found:?}");
    // The command names the server, and the password stays where it belongs.
    run(shell.env("PGPASSWORD", password).env_remove("MILLSTREAM_DB").current_dir(place.home.path())).ends(0);
    place.doctor(&["--check", "duplicate-index", "--one-database"]).ends(0);
}
