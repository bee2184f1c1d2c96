//! Statements of ours find PostgreSQL's own operators and functions, whatever others put into the search path.

use crate::process::{Run, millstream};
use millstream_lab::experiments::Record;
use millstream_testkit::{DECOYS, Feature, TestDatabase, each_build, each_build_with, todays};
use std::fmt::Write;

/// Documents of a file. More than go as arrays, so that every writer is used.
const DOCUMENTS: usize = 3_000;

/// What is loaded twice, each into a table of its own: the key, and more options.
const LOADS: &[(&str, &[&str])] = &[
    ("id:varchar", &[]),
    ("id:text", &[]),
    ("n:bigint", &[]),
    ("n:integer", &[]),
    ("n:smallint", &[]),
    ("n:numeric", &[]),
    ("uuid:uuid", &[]),
    ("at:timestamptz", &[]),
    ("day:date", &[]),
    ("id:varchar,n:bigint", &[]),
    ("id:varchar,other:varchar", &["--skip-unchanged", "on"]),
    ("id:varchar", &["--skip-unchanged", "on"]),
    ("id:varchar", &["--skip-unchanged", "off"]),
    ("id:varchar", &["--mode", "merge"]),
    ("id:varchar", &["--mode", "merge:deep"]),
    ("id:varchar", &["--mode", "keep"]),
    ("id:varchar", &["--mode", "newest:at:timestamptz"]),
    ("id:varchar", &["--mode", "newest:id:text"]),
    ("id:varchar", &["--mode", "newest:n:numeric", "--delete-when", "gone=true"]),
    ("id:varchar", &["--mode", "sum:n,inner.n"]),
    ("id:varchar", &["--delete-when", "gone=true"]),
    ("id:varchar", &["--durability", "async"]),
    ("id:varchar", &["--durability", "unlogged"]),
    ("id:varchar", &["--layout", "log"]),
    ("id:varchar,n:bigint", &["--layout", "log", "--delete-when", "gone=true"]),
    ("id:varchar", &["--doc", "without-key"]),
    ("id:varchar,n:bigint", &["--doc", "without-key", "--mode", "merge", "--delete-when", "gone=true"]),
    ("id:varchar", &["--doc", "without-key", "--mode", "sum:inner.n"]),
    ("uuid:uuid,day:date", &["--doc", "without-key", "--layout", "log"]),
    ("id:varchar", &["--delete-missing", "--delete-missing-max", "100"]),
    ("id:varchar,n:numeric", &["--delete-missing", "--delete-missing-max", "100", "--batch-rows", "700"]),
    ("id:varchar", &["--skip-loaded", "--with-source", "file", "--with-partitions"]),
    // The server refuses some of these, and finds them row by row.
    ("id:varchar", &["--check", "((doc operator(pg_catalog.->>) 'n'::text)::int operator(pg_catalog.<) 2990)"]),
    (
        "id:varchar",
        &[
            "--delete-when",
            "gone=true",
            "--check",
            "((doc operator(pg_catalog.->>) 'n'::text)::int operator(pg_catalog.<) 2990)",
        ],
    ),
];

/// What follows, in this order, after `id:varchar` was loaded into `things` and, in the log layout, into `waiting`.
const COMMANDS: &[&[&str]] = &[
    &["collections"],
    &["loads"],
    &["loads", "--output", "json"],
    &["get", "things", "k7"],
    &["get", "waiting", "k7"],
    &["rejects", "things"],
    &["rejects", "things", "--output", "json"],
    &["distinct", "things", "id"],
    &["verify", "FILE", "--into", "things", "--key", "id:varchar"],
    &["verify", "FILE", "--into", "waiting", "--key", "id:varchar"],
    &[
        "publish",
        "things",
        "--as",
        "things_read",
        "--column",
        "n:int=n",
        "--column",
        "price:numeric(10,2)=n",
        "--index",
        "n",
    ],
    &["publish", "waiting", "--as", "kept", "--column", "n:int=n", "--materialized"],
    &["models"],
    &["refresh", "things_read", "--dry-run"],
    &["refresh", "things_read"],
    &["refresh", "kept"],
    &["load", "FEW", "--into", "things", "--key", "id:varchar"],
    &["models", "--output", "json"],
    &["refresh", "things_read", "--way", "incremental"],
    &["load", "FILE", "--into", "things", "--key", "id:varchar", "--skip-unchanged", "off", "--resume", "off"],
    &["refresh", "things_read", "--way", "swap"],
    &["load", "FEW", "--into", "waiting", "--key", "id:varchar", "--layout", "log"],
    &["compact", "waiting"],
    &["refresh", "kept"],
    &["unpublish", "things_read"],
    &["freeze", "brief", "--yes"],
    &["freeze", "things", "--cold", "--yes"],
    &["collections", "--sizes"],
    &["loads", "prune", "--older-than", "1d", "--stopped"],
    &["loads", "forget", "1"],
    &["doctor", "--one-database"],
    &["drop", "things", "--yes"],
    &["unpublish", "kept"],
    &["drop", "waiting", "--yes"],
    &["collections"],
    &["demo", "--docs", "2000", "--progress", "none"],
    // It drops the tables of the first one.
    &["demo", "--docs", "1000", "--progress", "none"],
];

/// An experiment in a database with decoys, which its first file makes.
const EXPERIMENT: &str = r#"
question = "Does it work?"
metric = "wall_seconds"
seconds = 1
setup = ['!"$MILLSTREAM" lab documents "$LAB_DIR/documents" --documents 500 --lanes 2 fresh=wave:1']
reset = [
    "drop schema if exists lab_load cascade",
    "drop schema if exists millstream cascade",
    "create schema lab_load",
    'create table lab_load.t (id varchar collate "C" primary key, doc jsonb not null)',
]

[data]
files = ["first.sql"]

[run]
check = """!"$MILLSTREAM" lab check-table lab_load.t --expect "$LAB_DIR/documents/fresh.json" &&
"$MILLSTREAM" lab check-table lab_load.t --expect "$LAB_DIR/documents/fresh.json" --sent "$LAB_DIR/documents/fresh.ndjson" """

[[arm]]
name = "copy"
run = { command = '"$MILLSTREAM" lab copy "$LAB_DIR/documents" lab_load.t' }

[[arm]]
name = "load"
run = { command = '"$MILLSTREAM" load "$LAB_DIR/documents/fresh.ndjson" --into lab_load.t --key id --adopt --progress none' }
"#;

struct Place {
    db: TestDatabase,
    dir: tempfile::TempDir,
}

impl Place {
    fn new(db: TestDatabase) -> Self {
        let place = Self { db, dir: tempfile::tempdir().unwrap() };
        for (name, documents, change) in [("FILE", DOCUMENTS, 0), ("AGAIN", DOCUMENTS, 1), ("FEW", 20, 2)] {
            let mut text = String::new();
            for n in 0..documents {
                let (gone, day) = (change == 1 && n % 100 == 0, 1 + n % 28);
                writeln!(
                    text,
                    "{{\"id\":\"k{n}\",\"other\":\"o{}\",\"n\":{n},\"uuid\":\"00000000-0000-0000-0000-{n:012}\",\
                     \"at\":\"20{:02}-01-{day:02}T00:00:00Z\",\"day\":\"2024-01-{day:02}\",\"gone\":{gone},\
                     \"inner\":{{\"n\":1}},\"changed\":{}}}",
                    n % 7,
                    n % 90,
                    if n % 3 == 0 { change } else { 0 },
                )
                .unwrap();
            }
            std::fs::write(place.dir.path().join(name), text).unwrap();
        }
        place
    }

    /// Runs a command, which must neither fail nor call a decoy.
    #[track_caller]
    fn millstream(&self, args: &[&str]) -> Run {
        let files = ["FILE", "AGAIN", "FEW"].map(|name| (name, self.dir.path().join(name).display().to_string()));
        let spelled: Vec<&str> = args
            .iter()
            .map(|arg| files.iter().find(|(name, _)| name == arg).map_or(*arg, |(_, path)| path.as_str()))
            .collect();
        let url = self.db.url();
        let done = millstream(&[&spelled[..], &["--db", &url]].concat());
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(done.code < 2 && !said.contains("decoy"), "{args:?}: {done:?}");
        done
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_finds_an_operator_or_function_by_the_search_path() {
    each_build(async |db| {
        db.plant_decoys().await;
        let place = Place::new(db);
        for (n, (key, more)) in todays(LOADS).into_iter().enumerate() {
            let table = format!("table_{n}");
            for file in ["FILE", "AGAIN", "FEW"] {
                let load = ["load", file, "--format", "ndjson", "--into", &table, "--key", key, "--progress", "none"];
                place.millstream(&[&load[..], &["--max-rejects", "1000000"], more].concat());
            }
        }
        for (table, more) in
            [("things", &[][..]), ("waiting", &["--layout", "log"]), ("brief", &["--durability", "unlogged"])]
        {
            place.millstream(
                &[&["load", "FILE", "--format", "ndjson", "--into", table, "--key", "id:varchar"], more].concat(),
            );
        }
        for args in COMMANDS {
            place.millstream(args);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_and_partitioned_tables_are_written_by_postgresqls_own_operators() {
    each_build(async |db| {
        db.plant_decoys().await;
        let own = db.client().await;
        let tables = "set search_path = pg_catalog;
            create domain public.short as varchar(20) collate \"C\";
            create table public.plain (id varchar(20) collate \"C\" primary key, doc jsonb not null);
            create table public.narrow (id public.short primary key, doc jsonb not null);
            create table public.parted (id varchar(20) collate \"C\" primary key, doc jsonb not null) partition by hash (id);
            create table public.parted_0 partition of public.parted for values with (modulus 2, remainder 0);
            create table public.parted_1 partition of public.parted for values with (modulus 2, remainder 1)";
        own.batch_execute(tables).await.unwrap();
        let place = Place::new(db);
        for table in ["plain", "narrow", "parted"] {
            for (file, more) in
                [("FILE", &[][..]), ("AGAIN", &["--delete-when", "gone=true"]), ("FEW", &["--mode", "merge"])]
            {
                let load = ["load", file, "--format", "ndjson", "--into", table, "--key", "id", "--adopt"];
                place.millstream(&[&load[..], more].concat());
            }
            place.millstream(&["get", table, "k7"]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_experiment_is_run_with_postgresqls_own_operators_and_functions() {
    each_build_with(&[Feature::Pgbench], async |db| {
        db.plant_decoys().await;
        let place = Place::new(db);
        // The lab's database has the name of the experiment, and other tests use the server too.
        let name = format!("names{:08x}", fastrand::u32(..));
        let [experiment, out] = [format!("{name}.toml"), "out".to_owned()].map(|file| place.dir.path().join(file));
        std::fs::write(&experiment, EXPERIMENT).unwrap();
        std::fs::write(place.dir.path().join("first.sql"), DECOYS).unwrap();
        place.millstream(&["lab", "run", experiment.to_str().unwrap(), "--quick", "--out", out.to_str().unwrap()]);
        let runs = Record::read(&out).unwrap().runs;
        assert!(runs.len() == 3 && runs.iter().all(|run| run.value("stored") == Some(500.0)), "{runs:?}");
        place.db.client().await.batch_execute(&format!("drop database lab_{name} with (force)")).await.unwrap();
    })
    .await;
}
