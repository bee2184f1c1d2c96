//! Small runs of the lab: it works and reports the truth. The numbers that it measures here mean nothing.

use crate::process::{Run, command, run};
use millstream_lab::{Durability, FILE_NAME, Metric, Outcome, Record, Report};
use millstream_testkit::{Feature, TestDatabase, build_with, builds, database, database_on, dealt};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio_postgres::Client;

/// A database and a directory, in which a run leaves nothing but its record.
struct Laboratory {
    database: TestDatabase,
    client: Client,
    dir: tempfile::TempDir,
}

impl Laboratory {
    async fn new() -> Self {
        Self::on(database().await).await
    }

    async fn on(database: TestDatabase) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("temporary")).unwrap();
        Self { client: database.client().await, database, dir }
    }

    fn command(&self, args: &[&str]) -> Command {
        self.command_of("ingest", args)
    }

    fn command_of(&self, experiment: &str, args: &[&str]) -> Command {
        let mut command = command(&["lab", "run"]);
        command
            .args(experiment.split(' '))
            .args(["--db", &self.database.url()])
            .args(args)
            .arg("--out")
            .arg(self.out())
            .env("TMPDIR", self.temporary());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn temporary(&self) -> PathBuf {
        self.dir.path().join("temporary")
    }

    fn record(&self) -> Record {
        Record::read(&self.out().join(FILE_NAME)).unwrap()
    }

    async fn assert_clean(&self) {
        let sql = "select coalesce(string_agg(nspname, ' '), '') from pg_namespace where nspname like 'millstream%'";
        let left: String = self.client.query_one(sql, &[]).await.unwrap().get(0);
        assert_eq!(left, "", "schemas are left");
        assert_eq!(std::fs::read_dir(self.temporary()).unwrap().count(), 0, "files are left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_schemas_of_dead_runs_are_removed() {
    let lab = Laboratory::new().await;
    let client = lab.database.client().await;
    let schemas = "create schema millstream_lab_0000000a; create schema millstream_lab_0000000a_store;
         create table millstream_lab_0000000a.t (a int);
         create schema millstream_lab_0000000b; create schema millstream_lab_0000000b_store;
         select pg_advisory_lock(x'6d6c6162'::int, 11)";
    client.batch_execute(schemas).await.unwrap();
    let run = lab.run(&["--quick", "--sizes", "150", "--keys", "random"]).ends(0);
    assert!(run.stderr.contains("removed millstream_lab_0000000a, left by"), "{run:?}");
    let sql = "select string_agg(nspname, ' ' order by nspname) from pg_namespace where nspname like 'millstream%'";
    let left: String = lab.client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(left, "millstream_lab_0000000b millstream_lab_0000000b_store");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quick_run_is_verified_recorded_and_reported_again() {
    let lab = Laboratory::new().await;
    let run = lab.run(&["--quick", "--lanes", "2"]).ends(0);
    let record = lab.record();
    let names: Vec<&str> = record.data_sets().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["random-150", "sequential-150", "random-2048", "random-20480"]);
    assert_eq!(record.runs.len(), 4 * 8);
    for one in &record.runs {
        let Outcome::Measured(measures) = &one.outcome else { panic!("{one:?}") };
        assert!(one.value("wal_bytes") > Some(0.0) && one.stored_bytes() > Some(0.0), "{one:?}");
        assert!(one.value("server_cpu_seconds") >= Some(0.0), "the server's processes can be seen here: {one:?}");
        assert_eq!(measures.receipt.is_some(), one.arm == "millstream");
    }
    assert!(run.stdout.contains(" SERVER "), "{run:?}");
    let report = Report::of(&record);
    for section in &report.sections {
        let rate = |subject: &str, phase: &str| {
            let run = record.runs.iter().find(|one| {
                (one.data_set(), one.arm.as_str(), one.phase()) == (section.data_set.as_str(), subject, phase)
            });
            run.unwrap().rows_per_second().unwrap()
        };
        assert_eq!(section.lines.len(), 8);
        for line in &section.lines {
            let expected = rate(&line.subject, &line.phase) / rate("copy", "fresh");
            assert!((line.ratio.unwrap().median / expected - 1.0).abs() < 1e-9, "{line:?}");
        }
    }
    assert!(report.doubts.iter().any(|doubt| doubt.contains("more rounds")), "{:?}", report.doubts);

    let path = lab.out().join(FILE_NAME);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(lab.database.server.password()), "the record holds the password");
    let again = crate::process::millstream(&["lab", "report", path.to_str().unwrap()]).ends(0);
    assert_eq!(again.stdout, run.stdout);
    lab.assert_clean().await;

    let run = lab.run(&["--quick"]).ends(2);
    assert!(run.stderr.contains("records are never overwritten"), "{run:?}");
    lab.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_experiment_runs_small_and_every_goal_gets_a_verdict() {
    let builds = builds().await;
    for build in dealt(builds, 0, builds.len()) {
        let lab = Laboratory::on(database_on(build).await).await;
        let run = run(&mut lab.command_of("all", &["--without", "rivals", "--quick", "--lanes", "2"])).ends(0);
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:?}");
        let record = lab.record();
        let names = [
            "ingest",
            "order",
            "durability",
            "hot",
            "wal",
            "memory",
            "mixed",
            "latency",
            "growth",
            "refused",
            "log",
            "published",
            "refresh",
            "distinct",
        ];
        assert_eq!(record.experiments, names);
        for one in &record.runs {
            let Outcome::Measured(measures) = &one.outcome else { panic!("{one:?}") };
            let receipt = |name: &str| measures.receipt.as_ref().map(|receipt| receipt[name].clone());
            if one.arm == "millstream" {
                assert_eq!(receipt("durability"), Some(one.durability().name().into()), "{one:?}");
            }
            let is_delayed = one.experiment == "latency";
            assert!(one.round_trip_ms().is_some() == is_delayed || one.experiment == "mixed", "{one:?}");
            assert!(one.value("page_image_bytes").is_none() || one.experiment == "wal", "{one:?}");
            let ends_with_checkpoint = one.phase().starts_with("small,") || one.phase().starts_with("large,");
            assert_eq!(one.value("checkpoint_seconds").is_some(), ends_with_checkpoint, "{one:?}");
            let answers = one.experiment == "distinct";
            assert_eq!(one.first_seconds().is_some(), answers, "{one:?}");
            for name in measures.values.keys() {
                assert!(Metric::by_name(name).is_some(), "{name} is not described");
            }
        }
        // The server cannot tell them if a checkpoint has just recycled the WAL of a run.
        let told = record.runs.iter().filter(|one| one.value("page_image_bytes").is_some()).count();
        let looked = record.runs.iter().filter(|one| one.experiment == "wal").count();
        assert!(told * 2 > looked, "{told} of {looked}");
        let report = Report::of(&record);
        let reached: Vec<&str> = report.goals.iter().map(|goal| goal.goal.as_str()).collect();
        for goal in [
            "third wave / COPY",
            "size of 5 waves / compact",
            "unchanged / COPY",
            "durable / unlogged, new",
            "100 hot keys / all keys",
            "1 of 10 breaks a CHECK",
            "  a trigger",
            "  --check",
            "WAL / input, direct COPY",
            "WAL / input, 1 % stored",
            "0.02 % stored / new",
            "WAL, 3 % stored / new",
            "client CPU s per 1M, new",
            "  16 MiB documents",
            "new keys, large / small",
            "  stored keys",
            "log layout / COPY, new",
            "  merged / table, repeated",
            "8 read indexes / 0, new",
            "refresh 1 % / matview",
            "distinct, SQL / select",
            "  by its statement",
            "  by the command",
            "  first row, ms",
            "  10M / 1M, time",
        ] {
            assert!(reached.contains(&goal), "{goal}: {reached:?}");
        }
        let example = Path::new(env!("CARGO_BIN_EXE_millstream")).with_file_name("examples").join("producers");
        assert_eq!(reached.contains(&"  8 producers, 1 hot key"), example.is_file(), "{reached:?}");
        assert!(report.goals[0].at_2_kb.is_some() && report.goals[0].at_5_ms.is_some(), "{:?}", report.goals[0]);
        let path = lab.out().join(FILE_NAME);
        let again = crate::process::millstream(&["lab", "report", path.to_str().unwrap()]).ends(0);
        assert_eq!(again.stdout, run.stdout);
        lab.assert_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_experiments_are_refused_before_measuring() {
    let lab = Laboratory::new().await;
    for (experiments, args, said) in [
        ("hot", &["--without", "hot"][..], "no experiment is left to run"),
        ("growth", &["--grow-to", "10"][..], "the number of rows to grow to must be from 1000"),
        ("hot ingest", &["--quick", "--subjects", "copy"][..], "hot has none of the subjects copy"),
    ] {
        let run = run(&mut lab.command_of(experiments, args)).ends(2);
        assert!(run.stderr.contains(said), "{run:?}");
    }
    assert!(!lab.out().join(FILE_NAME).exists());
    lab.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_that_loses_a_document_is_reported_as_an_error() {
    let lab = Laboratory::new().await;
    let forger = lab.dir.path().join("forger");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--dry-run*|--version) exec {bin} \"$@\";; esac\n\
         sed '$d' \"$2\" >\"$2.short\"; file=$2.short; shift 2; exec {bin} load \"$file\" \"$@\"\n",
        bin = env!("CARGO_BIN_EXE_millstream")
    );
    std::fs::write(&forger, script).unwrap();
    std::fs::set_permissions(&forger, PermissionsExt::from_mode(0o755)).unwrap();
    let args = ["--docs", "1000", "--rounds", "2", "--sizes", "150", "--keys", "random", "--millstream-bin"];
    let run = lab.run(&[&args[..], &[forger.to_str().unwrap()]].concat()).ends(1);
    assert!(run.stdout.contains("error: millstream fresh, round 1: wrong result: 999 rows instead of 1000"), "{run:?}");
    assert!(run.stdout.contains("error: millstream changed, round 2: not run, because fresh failed"), "{run:?}");
    let report = Report::of(&lab.record());
    let measured: Vec<&str> = report.sections[0].lines.iter().map(|line| line.subject.as_str()).collect();
    assert_eq!(measured, ["copy", "compact"]);
    lab.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_producers_are_reported_as_not_measured() {
    let lab = Laboratory::new().await;
    let other = lab.dir.path().join("other");
    script(&other, &format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_millstream")));
    let run = run(&mut lab.command_of("hot", &["--quick", "--millstream-bin", other.to_str().unwrap()])).ends(0);
    assert!(run.stdout.contains("not measured: producers: cannot measure what needs producers"), "{run:?}");
    assert!(lab.record().runs.iter().all(|one| one.arm == "millstream"));
    lab.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_keeps_only_its_finished_rounds() {
    let lab = Laboratory::new().await;
    let args = ["--docs", "2000", "--rounds", "1000", "--sizes", "150", "--keys", "random"];
    let mut running = lab.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("round 2 of 1000")), "it ended before its second round");
    // The signal goes only to the lab, which must end its child itself.
    let kill = Command::new("kill").args(["-s", "INT", &running.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let said: Vec<String> = lines.collect();
    assert_eq!(running.wait().unwrap().code(), Some(130), "{said:?}");
    let record = lab.record();
    assert!(record.runs.len() >= 8 && record.runs.len() % 8 == 0, "whole rounds");
    assert!(Report::of(&record).doubts.iter().any(|doubt| doubt.contains("stopped before its end")));
    lab.assert_clean().await;
}

/// Runs `rivals` with a program of that name before all others.
fn rivals(lab: &Laboratory, program: &Path, args: &[&str]) -> Run {
    let path = std::env::var_os("PATH").unwrap();
    let dirs = program.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    run(lab.command_of("rivals", args).env("PATH", std::env::join_paths(dirs).unwrap()))
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rivals_are_verified_and_compared_with_each_durability() {
    let Some(build) = build_with(&[Feature::Psql]).await else { return };
    let lab = Laboratory::on(database_on(build).await).await;
    let args = ["--quick", "--sizes", "150", "--subjects", "merge,copy,millstream"];
    let run = rivals(&lab, &build.installation.program("psql"), &args).ends(0);
    let record = lab.record();
    assert!(record.tools["psql"].contains("PostgreSQL"), "{:?}", record.tools);
    assert_eq!(record.runs.len(), 2 * (1 + 4 + 4));
    for one in &record.runs {
        let Outcome::Measured(measures) = &one.outcome else { panic!("{one:?}") };
        let receipt = measures.receipt.as_ref().map(|receipt| receipt["durability"].clone());
        assert_eq!(receipt, (one.arm == "millstream").then(|| one.durability().name().into()), "{one:?}");
    }
    let report = Report::of(&record);
    let lines: Vec<String> = run.stdout.lines().filter_map(|line| Some(line.split_once("  ")?.0.to_owned())).collect();
    let both =
        ["changed", "stored before", "mixed"].into_iter().flat_map(|phase| [("millstream", phase), ("merge", phase)]);
    let first = [("copy", "fresh"), ("millstream", "fresh"), ("merge", "fresh")];
    let phases: Vec<String> = first.into_iter().chain(both).map(|(who, phase)| format!("{who} {phase}")).collect();
    let expected: Vec<String> =
        phases.iter().cloned().chain(phases.iter().map(|line| format!("{line}, async"))).collect();
    let shown = lines.iter().skip_while(|line| *line != "SUBJECT").skip(1).filter(|line| !line.is_empty());
    assert_eq!(shown.take(expected.len()).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    for line in &report.sections[0].lines {
        let rate = |subject: &str| {
            let alike = |one: &&millstream_lab::Run| {
                (one.arm.as_str(), one.phase(), one.durability()) == (subject, line.phase.as_str(), line.durability)
            };
            record.runs.iter().find(alike).unwrap().rows_per_second().unwrap()
        };
        let expected = rate("millstream") / rate(&line.subject);
        assert!((line.ratio.unwrap().median / expected - 1.0).abs() < 1e-9, "{line:?}");
    }
    let path = lab.out().join(FILE_NAME);
    let again = crate::process::millstream(&["lab", "report", path.to_str().unwrap()]).ends(0);
    assert_eq!(again.stdout, run.stdout);
    lab.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rival_that_does_nothing_is_reported_as_an_error() {
    let lab = Laboratory::new().await;
    let psql = lab.dir.path().join("psql");
    script(&psql, "#!/bin/sh\n[ \"$1\" != --version ] || echo 'psql (PostgreSQL) 0'\n");
    let args = ["--docs", "1000", "--rounds", "1", "--sizes", "150", "--subjects", "merge"];
    let run = rivals(&lab, &psql, &args).ends(1);
    assert!(run.stdout.contains("error: merge fresh, round 1: wrong result: 0 rows instead of 1000"), "{run:?}");
    assert!(run.stdout.contains("error: merge changed, async, round 1: not run, because fresh failed"), "{run:?}");
    assert!(Report::of(&lab.record()).sections[0].lines.is_empty());
    lab.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rival_that_cannot_run_is_refused_before_measuring() {
    let lab = Laboratory::new().await;
    let python = lab.dir.path().join("python");
    script(&python, "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'psycopg'\" >&2; exit 1\n");
    let python = python.to_str().unwrap();
    let run = run(&mut lab.command_of("rivals", &["--quick", "--python", python])).ends(2);
    assert!(run.stderr.contains("error: cannot measure what needs psycopg: ModuleNotFoundError"), "{run:?}");
    assert!(run.stderr.contains("-m pip install 'psycopg[binary]=="), "{run:?}");
    for (subjects, said) in [
        ("millstream,oracle", "rivals has no subject oracle, only copy, millstream, recipe"),
        ("millstream,bulkwrite", "bulkwrite needs a MongoDB, named by --mongo-uri"),
    ] {
        let run = crate::process::run(&mut lab.command_of("rivals", &["--quick", "--subjects", subjects])).ends(2);
        assert!(run.stderr.contains(said), "{run:?}");
    }
    assert!(!lab.out().join(FILE_NAME).exists());
    lab.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_mongodb_is_reported_as_not_measured() {
    let lab = Laboratory::new().await;
    let python = lab.dir.path().join("python");
    script(&python, "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'pymongo'\" >&2; exit 1\n");
    let uri = "mongodb://u:geheim@127.0.0.1:1/";
    let args = ["--quick", "--sizes", "150", "--subjects", "millstream,mongoimport", "--mongo-uri", uri, "--python"];
    let run = run(&mut lab.command_of("rivals", &[&args[..], &[python.to_str().unwrap()]].concat())).ends(0);
    let line = "not measured: mongoimport: cannot measure what needs pymongo: ModuleNotFoundError";
    let words = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(line), "{run:?}");
    let record = lab.record();
    assert!(record.runs.iter().all(|one| one.arm == "millstream"), "{record:?}");
    assert_eq!(record.runs.iter().filter(|one| one.durability() == Durability::Async).count(), 4);
    let text = std::fs::read_to_string(lab.out().join(FILE_NAME)).unwrap();
    assert!(!text.contains("geheim") && !run.stderr.contains("geheim"), "the password is shown");
    lab.assert_clean().await;
}
