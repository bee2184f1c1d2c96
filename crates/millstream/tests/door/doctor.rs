//! `millstream doctor` as a user sees it.

use crate::process::{command, millstream, run};
use millstream_testkit::{database_on, dealt_builds, misfit};

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_reported_with_evidence_and_repair_on_80_columns() {
    for build in dealt_builds().await {
        let database = database_on(build).await;
        let client = database.client().await;
        let doctor = |more: &[&str]| {
            let mut command = command(&["doctor", "--one-database", "--db", &database.url()]);
            command.args(["--check", "duplicate-index,invalid-index,sequence-end"]).args(more);
            run(&mut command)
        };
        let healthy = doctor(&[]).ends(0);
        assert!(healthy.stdout.contains("Nothing was found."), "{healthy:?}");
        assert!(
            healthy.stdout.contains("Without findings: duplicate-index, invalid-index, sequence-end"),
            "{healthy:?}"
        );

        client
            .batch_execute("create table t (a int); create index one on t (a); create index two on t (a)")
            .await
            .unwrap();
        let found = doctor(&[]).ends(1);
        for part in
            ["warning: duplicate-index: public.two", "drop index concurrently public.two;", "key: duplicate-index:"]
        {
            assert!(found.stdout.contains(part), "{part}: {found:?}");
        }
        // Commands are one line each.
        let is_text = |line: &&str| !line.starts_with("    ") && !line.starts_with("  apply: ");
        let wide = found.stdout.lines().filter(is_text).find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{found:?}");
        doctor(&["--fail-on", "critical"]).ends(0);
        let json = doctor(&["--output", "json"]).ends(1);
        let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        let schema = serde_json::from_str(include_str!("../../../../docs/reference/doctor.schema.json")).unwrap();
        assert_eq!(misfit(&report, &schema), None);
        let key = report["findings"][0]["key"].as_str().unwrap().to_owned();
        assert!(key.starts_with("duplicate-index:") && key.ends_with(":public.two"), "{key}");

        client.batch_execute("drop index two").await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (earlier, page) = (dir.path().join("earlier.json"), dir.path().join("report.html"));
        std::fs::write(&earlier, &json.stdout).unwrap();
        let later = doctor(&["--since", earlier.to_str().unwrap(), "--html", page.to_str().unwrap()]).ends(0);
        assert!(later.stdout.contains("Gone since then: duplicate-index:"), "{later:?}");
        assert!(std::fs::read_to_string(&page).unwrap().contains("Nothing was found."));
        let nowhere = doctor(&["--html", "/nowhere/report.html"]).ends(2);
        assert!(nowhere.stderr.contains("/nowhere/report.html"), "{nowhere:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_between_looks_is_named_with_the_change_that_did_it() {
    let build = millstream_testkit::default_build().await;
    let server = millstream_testkit::Server::start(build, millstream_testkit::Settings::default()).await;
    let (dir, url) = (tempfile::tempdir().unwrap(), server.url("postgres"));
    let looks = dir.path().join("looks.jsonl");
    let doctor = |args: &[&str]| {
        let mut command = command(&["doctor"]);
        run(command.args(args).args(["--db", &url]).env("MILLSTREAM_HOME", dir.path()))
    };
    let client = millstream_testkit::connect(&url).await;
    for statement in ["alter system set full_page_writes = off", "select pg_reload_conf()"] {
        client.batch_execute(statement).await.unwrap();
    }
    let check = ["--check", "durability-off"];
    doctor(&["watch", "--for", "1s", "--record", looks.to_str().unwrap()]).ends(0);
    assert_eq!(std::fs::read_to_string(&looks).unwrap().lines().count(), 2, "the first look and the last");
    let since = [&check[..], &["--since", looks.to_str().unwrap()]].concat();
    let calm = doctor(&since).ends(1);
    assert!(calm.stdout.contains("since the earlier look:\n") && !calm.stdout.contains("setting full"), "{calm:?}");

    doctor(&["fix", "durability-off:full_page_writes", "--yes"]).ends(0);
    let changed = doctor(&since).ends(0);
    let line = "setting full_page_writes: off -> the default, by change 1 of the doctor";
    assert!(changed.stdout.contains(line), "{changed:?}");
    let json = doctor(&[&since[..], &["--output", "json"]].concat()).ends(0).json();
    assert_eq!(
        misfit(&json, &serde_json::from_str(include_str!("../../../../docs/reference/doctor.schema.json")).unwrap()),
        None
    );
    assert_eq!(json["changes"]["difference"]["settings"][0]["change"], 1);

    std::fs::write(&looks, "hello\n").unwrap();
    let other = doctor(&since).ends(2);
    assert!(other.stderr.contains("is neither a report nor a record of the doctor"), "{other:?}");
    let refused = doctor(&["watch", "--for", "1s", "--record", looks.to_str().unwrap()]).ends(2);
    assert!(refused.stderr.contains("line 1: this is no look of doctor watch"), "{refused:?}");
}

#[test]
fn a_preset_is_a_question_and_no_other_check() {
    let both = millstream(&["doctor", "--preset", "triage", "--check", "atime"]).ends(2);
    assert!(both.stderr.contains("cannot be used with"), "{both:?}");
    let none = millstream(&["doctor", "--preset", "health"]).ends(2);
    assert!(none.stderr.contains("triage") && none.stderr.contains("weekly"), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_wait_and_models_that_are_behind_are_found_until_they_are_brought_up_to_date() {
    let database = millstream_testkit::database().await;
    let (dir, url) = (tempfile::tempdir().unwrap(), database.url());
    let (file, settings) = (dir.path().join("docs.ndjson"), dir.path().join("doctor.toml"));
    std::fs::write(&settings, "[threshold.log-not-compacted]\nhours = 0\n[threshold.model-behind]\nhours = 0\n")
        .unwrap();
    let command = |args: &[&str]| run(command(args).args(["--db", &url])).ends(0);
    let load = |n: u32| {
        std::fs::write(&file, format!("{{\"id\": {n}}}\n")).unwrap();
        command(&["load", file.to_str().unwrap(), "--into", "events", "--key", "id", "--layout", "log"]);
    };
    let found = || {
        let mut doctor = crate::process::command(&["doctor", "--one-database", "--db", &url, "--output", "json"]);
        doctor.args(["--check", "log-not-compacted,model-behind", "--config", settings.to_str().unwrap()]);
        let report = run(&mut doctor).ends(0).json();
        assert_eq!(report["skipped"].as_array().unwrap().len(), 0, "{report}");
        let findings = report["findings"].as_array().unwrap().clone();
        findings.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(), [""; 0]);
    load(1);
    assert_eq!(found(), ["log-not-compacted"]);
    command(&["compact", "events"]);
    command(&["publish", "events", "--as", "events_read"]);
    assert_eq!(found(), [""; 0]);
    // The records have whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    load(2);
    assert_eq!(found(), ["log-not-compacted", "model-behind"]);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    command(&["refresh", "events_read"]);
    assert_eq!(found(), [""; 0]);
}

#[test]
fn no_server_is_started_to_be_examined() {
    let home = tempfile::tempdir().unwrap();
    let mut command = command(&["doctor"]);
    command.env("MILLSTREAM_HOME", home.path()).env_remove("MILLSTREAM_DB").env_remove("DATABASE_URL");
    let run = run(&mut command).ends(2);
    assert!(run.stderr.contains("no server is named, and the local server does not run"), "{run:?}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn checks_are_listed_and_explained_without_a_server() {
    let list = millstream(&["doctor", "explain"]).ends(0);
    assert!(
        list.stdout.contains("dead-tuples") && list.stdout.lines().all(|line| line.chars().count() <= 80),
        "{list:?}"
    );
    let page = millstream(&["doctor", "explain", "wraparound"]).ends(0);
    assert!(page.stdout.starts_with("# wraparound\n") && page.stdout.contains("## What to do"), "{page:?}");
    let unknown = millstream(&["doctor", "explain", "weather"]).ends(2);
    assert!(unknown.stderr.contains("there is no check weather") && unknown.stderr.contains("hint:"), "{unknown:?}");
    let unknown = millstream(&["doctor", "--check", "weather"]).ends(2);
    assert!(unknown.stderr.contains("there is no check weather"), "{unknown:?}");
}

#[test]
fn a_wrong_configuration_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("doctor.toml");
    std::fs::write(&path, "[threshold.dead-tuples]\nsize = 5\n").unwrap();
    let run = millstream(&["doctor", "--config", path.to_str().unwrap()]).ends(2);
    assert!(run.stderr.contains("the check dead-tuples has no threshold size"), "{run:?}");
    let run = millstream(&["doctor", "--config", "/nowhere/doctor.toml"]).ends(2);
    assert!(run.stderr.contains("cannot read /nowhere/doctor.toml"), "{run:?}");
    let run = millstream(&["doctor", "--config", "/dev/zero"]).ends(2);
    assert!(run.stderr.contains("/dev/zero has more than 1048576 bytes"), "{run:?}");
    std::fs::write(&path, "{}").unwrap();
    let run = millstream(&["doctor", "--since", path.to_str().unwrap()]).ends(2);
    assert!(
        run.stderr.contains("is neither a report nor a record of the doctor") && run.stderr.contains("hint:"),
        "{run:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tables_are_listed_by_dead_rows_and_by_free_space_on_80_columns() {
    for build in dealt_builds().await {
        let database = database_on(build).await;
        let (client, url) = (database.client().await, database.url());
        let list = |more: &[&str]| run(command(&["doctor", "tables", "--db", &url]).args(more));
        let empty = list(&[]).ends(0);
        assert!(empty.stderr.contains(&format!("no tables in {}", database.name)), "{empty:?}");
        for statement in [
            "create table hollow (n int, t text) with (autovacuum_enabled = off)",
            "insert into hollow select n, repeat('x', 80) from generate_series(1, 20000) as n",
            "delete from hollow where n % 10 <> 0",
            "vacuum (truncate false, analyze) hollow",
            "create table parted (n int) partition by range (n)",
            "create table part partition of parted for values from (1) to (9)",
        ] {
            client.batch_execute(statement).await.unwrap();
        }
        let all = list(&[]).ends(0);
        for part in ["Dead rows (*", "Free space (~", "  public.hollow\n", "  public.parted\n", "    public.part\n"] {
            assert!(all.stdout.contains(part), "{part}: {all:?}");
        }
        let dead = all.stdout.lines().find(|line| line.ends_with("public.hollow")).unwrap();
        assert!(dead.trim_start().starts_with("2000 ") && dead.contains(" off  "), "{all:?}");
        let wide = all.stdout.lines().filter(|line| !line.starts_with("Free space")).find(|line| line.len() > 80);
        assert_eq!(wide, None, "{all:?}");
        let cut = list(&["--limit", "1"]).ends(0);
        assert!(cut.stderr.contains("2 lines more; --limit 3 prints all"), "{cut:?}");
        assert!(!cut.stdout.contains("public.parted"), "{cut:?}");
        let json = list(&["--limit", "1", "--output", "json"]).ends(0).json();
        let names = json["tables"].as_array().unwrap().iter().map(|one| one["table"].as_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["public.hollow", "public.parted"], "{json}");
        assert_eq!(json["tables"][0]["free"]["source"], "estimate", "{json}");
        assert_eq!(json["tables"][1]["partitions"][0]["table"], "public.part", "{json}");
    }
}
