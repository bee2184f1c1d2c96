//! Small runs of the experiments that load documents with this program: they work and report the truth. The numbers that they
//! measure mean nothing.

use crate::process::{Run, command, run};
use millstream_lab::Outcome;
use millstream_lab::experiments::{Record, Selection, Source};
use millstream_testkit::{
    Feature, Need, TestDatabase, builds_with, database_on, database_with, dealt, machine_has, seldom, skip, todays,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An experiment on a server of the tests. It leaves nothing there but its database, which has its name.
struct Laboratory {
    database: TestDatabase,
    dir: tempfile::TempDir,
    experiment: PathBuf,
    name: String,
}

impl Laboratory {
    /// A copy of an experiment that has a name, and so a database, of its own.
    async fn new(experiment: &str, database: TestDatabase) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/experiments");
        // The database has it too, where it stands without quotes.
        let name = format!("{experiment}{:08x}", fastrand::u32(..)).replace('-', "_");
        let copy = dir.path().join(format!("{name}.toml"));
        std::fs::copy(beside.join(format!("{experiment}.toml")), &copy).unwrap();
        for file in Source::named(experiment, &Selection::default()).unwrap().experiment.files {
            std::fs::copy(beside.join(&file), dir.path().join(file)).unwrap();
        }
        Self { database, dir, experiment: copy, name }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&["lab", "run"]);
        command.arg(&self.experiment).args(["--db", &self.database.url()]).args(args).arg("--out").arg(self.out());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn record(&self) -> Record {
        Record::read(&self.out()).unwrap()
    }

    async fn remove(self) {
        let client = self.database.client().await;
        client.batch_execute(&format!("drop database lab_{} with (force)", self.name)).await.unwrap();
    }
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn experiments_with_loads_into_one_table_run_small() {
    run_small(["hot", "ingest", "builds", "growth", "images", "latency", "memory", "durability"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn experiments_with_other_tables_and_with_read_models_run_small() {
    run_small(["mixed", "refused", "log", "published", "refresh", "distinct", "freeze", "sizes", "dumps"]).await;
}

#[cfg(feature = "objects")]
#[tokio::test(flavor = "multi_thread")]
async fn experiments_with_objects_run_small() {
    run_small(["objects"]).await;
}

/// Deals experiments out to the builds of PostgreSQL, and checks that each of their runs was measured.
async fn run_small<const N: usize>(experiments: [&'static str; N]) {
    let experiments = todays(experiments);
    let builds = builds_with(&[Feature::Pgbench]).await;
    let hands = builds.iter().enumerate().map(|(hand, build)| (build, dealt(experiments.clone(), hand, builds.len())));
    for (build, experiment) in hands.flat_map(|(build, dealt)| dealt.into_iter().map(move |one| (build, one))) {
        let lab = Laboratory::new(experiment, database_on(build).await).await;
        let run = lab.run(&["--quick"]).ends(0);
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:?}");
        let record = lab.record();
        assert_eq!(record.finished_blocks(), 1, "{run:?}");
        let example = Path::new(env!("CARGO_BIN_EXE_millstream")).with_file_name("examples").join("producers");
        for one in &record.runs {
            let is_missing = one.arm.starts_with("producers/") && !example.is_file();
            assert_eq!(matches!(one.outcome, Outcome::Skipped(_)), is_missing, "{one:?}");
            assert!(is_missing || one.value("wall_seconds") > Some(0.0), "{one:?}");
            // Where nothing is loaded, nothing is written.
            let writes = !["distinct", "objects", "refresh"].contains(&experiment) && one.arm != "folder/skipping";
            if writes && !is_missing {
                let [rows, wal] = ["rows", "wal_bytes"].map(|metric| one.value(metric));
                assert!(rows > Some(0.0) && wal > Some(0.0) && one.value("heap_bytes") > Some(0.0), "{one:?}");
                assert!(
                    one.value("server_cpu_seconds") >= Some(0.0),
                    "the server's processes can be seen here: {one:?}"
                );
            }
        }
        let text = std::fs::read_to_string(lab.out().join("record.json")).unwrap();
        assert!(!text.contains(lab.database.server.password()), "the record holds the password");
        let again = crate::process::millstream(&["lab", "report", lab.out().to_str().unwrap()]).ends(0);
        assert_eq!(again.stdout, run.stdout);
        lab.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rivals_are_verified_and_skipped_where_their_programs_are_missing() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let lab = Laboratory::new("rivals", database).await;
    let args = [
        "--quick",
        "--set",
        "python=/nowhere",
        "--arms",
        "copy,millstream-durable,millstream-async,merge-async,single-async,dlt-durable,sling-durable,bulkwrite-async",
    ];
    let mut command = lab.command(&args);
    let run = run(command.env("MONGO_URI", "mongodb://u:geheim@127.0.0.1:1/")).ends(0);
    let record = lab.record();
    let good =
        |arm: &str| record.runs.iter().filter(|run| run.arm.starts_with(arm) && run.measures().is_some()).count();
    assert_eq!(
        ["copy/", "millstream-async/", "merge-async/", "single-async/", "bulkwrite-async/"].map(good),
        [1, 4, 4, 0, 0]
    );
    assert_eq!(["millstream-durable/", "dlt-durable/", "sling-durable/"].map(good), [4, 0, 0]);
    for rival in ["dlt", "sling"] {
        let skipped = format!("{rival}-durable/fresh: skipped: no Python with {rival}; --set python=FILE names one");
        assert!(run.stderr.contains(&skipped), "{run:?}");
    }
    assert!(
        run.stderr.contains("single-async/fresh: skipped: no Python with psycopg 3; --set python=FILE names one"),
        "{run:?}"
    );
    assert!(
        run.stderr.contains("bulkwrite-async/mixed: skipped: not run, because bulkwrite-async/stored has no result"),
        "{run:?}"
    );
    let text = std::fs::read_to_string(lab.out().join("record.json")).unwrap();
    assert!(!text.contains("geheim") && !run.stderr.contains("geheim"), "the password is shown");
    lab.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_skipped_where_no_broker_can_be_started() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let lab = Laboratory::new("topics", database).await;
    let run = lab.run(&["--quick", "--set", "documents=2000", "--set", "jars=/nowhere"]).ends(0);
    let record = lab.record();
    for one in &record.runs {
        assert_eq!(one.measures().is_some(), ["file/fresh", "again"].contains(&one.arm.as_str()), "{one:?}");
        assert!(one.measures().is_some() || matches!(one.outcome, Outcome::Skipped(_)), "{one:?}");
    }
    assert!(run.stderr.contains("topic-4/fresh: skipped: "), "{run:?}");
    lab.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_and_sinks_are_skipped_where_no_broker_can_be_started() {
    for experiment in ["kafka-group", "kafka-pause", "kafka-sink"] {
        let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
        let lab = Laboratory::new(experiment, database).await;
        let run = lab.run(&["--quick", "--set", "jars=/nowhere"]).ends(1);
        let record = lab.record();
        assert!(record.runs.iter().all(|one| matches!(one.outcome, Outcome::Skipped(_))), "{:?}", record.runs);
        assert!(run.stderr.contains("every arm was skipped"), "{run:?}");
        lab.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spark_is_skipped_where_no_python_has_it() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let lab = Laboratory::new("spark", database).await;
    let args = ["--quick", "--set", "documents=2000", "--set", "python=/nowhere", "--set", "jdbc=/nowhere"];
    let run = lab.run(&args).ends(1);
    let record = lab.record();
    assert!(record.runs.iter().all(|one| matches!(one.outcome, Outcome::Skipped(_))), "{:?}", record.runs);
    assert!(run.stderr.contains("every arm was skipped"), "{run:?}");
    lab.remove().await;
}

/// Runs the experiment `citus` with a few documents and the programs in this directory. Its record goes to `out`.
fn citus(bin: &Path, out: &Path) -> Run {
    let bin = format!("bin={}", bin.display());
    // As tests do not measure, the workers may have all they need.
    let args = ["--quick", "--set", "documents=2000", "--set", "percent=100", "--set", bin.as_str(), "--out"];
    run(command(&["lab", "run", "citus"]).args(args).arg(out))
}

#[test]
fn citus_is_skipped_where_no_server_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = citus(Path::new("/nowhere"), dir.path()).ends(1);
    assert!(run.stderr.contains("plain: skipped: no server that has Citus; --set bin=DIR names"), "{run:?}");
    assert!(run.stderr.contains("every arm was skipped"), "{run:?}");
}

#[test]
fn citus_is_measured_where_a_server_has_it() {
    let what = "directory with the programs of a server that has Citus";
    let Some(bin) = seldom("MILLSTREAM_TEST_CITUS", what).filter(|_| machine_has(&[Need::Root])) else { return };
    let dir = tempfile::tempdir().unwrap();
    let run = citus(&bin, dir.path());
    if run.stderr.contains("skipped: no control group") {
        return skip("it needs control groups");
    }
    let record = Record::read(dir.path()).unwrap();
    assert_eq!(record.runs.len(), 4, "{run:?}");
    for one in &record.runs {
        let [rate, of_workers] = ["rows_per_second", "server_cpu_seconds"].map(|metric| one.value(metric));
        assert!(rate > Some(0.0) && of_workers > Some(0.0), "{one:?}; {run:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_columns_are_verified_and_sources_of_columns_skipped_where_pyarrow_is_missing() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let lab = Laboratory::new("columns", database).await;
    let run = lab.run(&["--quick", "--set", "documents=2000", "--set", "python=/nowhere"]).ends(0);
    let record = lab.record();
    let good =
        |arm: &str| record.runs.iter().filter(|run| run.arm.starts_with(arm) && run.measures().is_some()).count();
    let measured = ["none/", "five/", "times/", "counters/", "load/", "verify/", "cat/", "append/"].map(good);
    assert_eq!(measured, [2, 2, 2, 2, 0, 0, 0, 0], "{run:?}");
    assert!(
        run.stderr.contains("load/parquet: skipped: no Python with pyarrow and orjson; --set python=FILE names one"),
        "{run:?}"
    );
    lab.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_package_is_measured_and_rivals_skipped_whose_modules_are_missing() {
    if !machine_has(&[Need::Program { name: "python3", package: "python3" }]) {
        return;
    }
    let new_enough = "import sys; sys.exit(sys.version_info < (3, 10))";
    if !Command::new("python3").args(["-c", new_enough]).status().unwrap().success() {
        return skip("it needs Python 3.10 or later");
    }
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let lab = Laboratory::new("python", database).await;
    let package = concat!("package=", env!("CARGO_MANIFEST_DIR"), "/../../clients/python");
    let run = lab.run(&["--quick", "--set", "documents=2000", "--set", "python=python3", "--set", package]).ends(0);
    let record = lab.record();
    for one in &record.runs {
        assert!(one.measures().is_some() || matches!(one.outcome, Outcome::Skipped(_)), "{one:?}");
    }
    // What needs no other module.
    for (arm, metric) in [
        ("file/fresh", "rows_per_second"),
        ("plain/fresh", "rows_per_second"),
        ("bytes/fresh", "rows_per_second"),
        ("memory/few", "python_above_bytes"),
        ("memory/many", "python_above_bytes"),
        ("import/standard", "import_ms"),
        ("import/package", "import_ms"),
        ("import/call", "import_ms"),
    ] {
        let found = record.runs.iter().find(|one| one.arm == arm).and_then(|one| one.value(metric));
        assert!(found > Some(0.0), "{arm}: {run:?}");
    }
    lab.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_nobody_can_write_is_skipped_and_its_documents_are_loaded_as_text() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let lab = Laboratory::new("dump", database).await;
    let args = ["--quick", "--set", "python=/nowhere", "--arms", "ndjson/gzip,bson,pymongo"];
    let run = lab.run(&args).ends(0);
    let record = lab.record();
    let good =
        |arm: &str| record.runs.iter().filter(|run| run.arm.starts_with(arm) && run.measures().is_some()).count();
    assert_eq!(["ndjson/gzip", "bson/", "pymongo"].map(good), [1, 0, 0], "{run:?}");
    for arm in ["bson/plain", "bson/gzip", "pymongo"] {
        let says = format!("{arm}: skipped: no Python with psycopg 3 and pymongo; --set python=FILE names one");
        assert!(run.stderr.contains(&says), "{arm}: {run:?}");
    }
    lab.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_loses_a_document_is_reported_as_an_error() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let lab = Laboratory::new("ingest", database).await;
    let forger = lab.dir.path().join("forger");
    let binary = env!("CARGO_BIN_EXE_millstream");
    let text = format!(
        "#!/bin/sh\ncase \"$1 $2\" in --version*|*none.ndjson) exec {binary} \"$@\";; esac\n\
         sed '$d' \"$2\" >\"$2.short\"; file=$2.short; shift 2; exec {binary} load \"$file\" \"$@\"\n"
    );
    script(&forger, &text);
    let forged = format!("millstream={}", forger.display());
    let run = lab.run(&["--quick", "--set", "documents=1000", "--set", &forged]).ends(1);
    let words = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("999 rows instead of 1000"), "{run:?}");
    assert!(words.contains("not run, because millstream/fresh has no result"), "{run:?}");
    let record = lab.record();
    let good = record.runs.iter().filter(|run| run.measures().is_some());
    assert!(
        good.map(|run| run.arm.as_str()).collect::<std::collections::BTreeSet<_>>().iter().eq([
            "again",
            "compact/fresh",
            "copy/fresh"
        ]
        .iter()),
        "{record:?}"
    );
    lab.remove().await;
}
