//! The Python package: its tests beside a program that a script plays, then with the real one and a database.

use crate::process::{Run, command, run};
use millstream_testkit::{Need, each_build, machine_has, seldom, skip};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

const PYTHON: Need = Need::Program { name: "python3", package: "python3" };

/// Fails where Python is older than what the package needs.
const NEW_ENOUGH: &str = "import sys; sys.exit(sys.version_info < (3, 10))";

/// A Python with these arguments in the folder of the package, with the program under test.
fn python(program: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let millstream = command(&[]);
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let mut python = Command::new(program);
    python.args(args).current_dir(package).env("MILLSTREAM_PROGRAM", millstream.get_program());
    // It would write beside the sources.
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    for (name, value) in millstream.get_envs() {
        match value {
            Some(value) => python.env(name, value),
            None => python.env_remove(name),
        };
    }
    python
}

/// Whether Python can run the tests; if not, after a skip.
fn can_run() -> bool {
    if !machine_has(&[PYTHON]) {
        return false;
    }
    let is_new = python("python3", &["-c", NEW_ENOUGH]).status().unwrap().success();
    if !is_new {
        skip("it needs Python 3.10 or later");
    }
    is_new
}

/// The tests of these files, by a Python.
fn tests(program: impl AsRef<OsStr>, pattern: &str) -> Command {
    python(program, &["-W", "error::ResourceWarning", "-m", "unittest", "discover", "-v", "-s", "tests", "-p", pattern])
}

/// Fails if a test has failed. Returns the lines of those that were skipped.
#[track_caller]
fn skipped(tests: &mut Command) -> Vec<String> {
    let Run { code, stderr, .. } = run(tests);
    assert_eq!(code, 0, "{stderr}");
    stderr.lines().filter(|line| line.contains("... skipped ")).map(str::to_owned).collect()
}

#[test]
fn the_package_keeps_its_promises_beside_a_played_program() {
    if !can_run() {
        return;
    }
    let patterns =
        ["test_json.py", "test_options.py", "test_types.py", "test_load.py", "test_stops.py", "test_frames.py"];
    for pattern in patterns {
        skipped(&mut tests("python3", pattern)).iter().for_each(|line| println!("{line}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_package_works_with_the_program_and_its_guide_is_true() {
    if !can_run() {
        return;
    }
    each_build(async |db| {
        for pattern in ["test_program.py", "test_tables.py", "test_guide.py"] {
            let skipped = skipped(tests("python3", pattern).env("MILLSTREAM_TEST_DB", db.url()));
            skipped.iter().for_each(|line| println!("{line}"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_package_works_in_spark_and_its_guide_is_true() {
    let Some(spark) = seldom("MILLSTREAM_TEST_SPARK", "Python with pyspark") else { return };
    if !machine_has(&[Need::JAVA]) {
        return;
    }
    each_build(async |db| {
        for pattern in ["test_spark.py", "test_guide.py"] {
            let skipped = skipped(tests(&spark, pattern).env("MILLSTREAM_TEST_DB", db.url()));
            skipped.iter().for_each(|line| println!("{line}"));
        }
    })
    .await;
}
