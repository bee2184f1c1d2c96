//! `load --delete-missing` while other sessions write: what they have written since the load began stays.

use crate::process::{command, until_held};
use millstream_testkit::{TestDatabase, each_build, until};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Stdio};

/// A table of 100 rows, and a dump that lacks those after 92.
async fn scene(db: &TestDatabase, dir: &Path) -> String {
    let client = db.client().await;
    client
        .batch_execute(
            "create table public.t (id bigint primary key, doc jsonb not null);
             insert into public.t select g, jsonb_build_object('id', g) from generate_series(1, 100) g",
        )
        .await
        .unwrap();
    let text: String = (1..=92).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let file = dir.join("dump.ndjson");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn start(db: &TestDatabase, dump: &str, more: &[&str], failpoints: &str) -> Child {
    let args = ["load", dump, "--into", "public.t", "--key", "id:bigint", "--adopt", "--delete-missing"];
    let mut load = command(&[&args[..], more].concat());
    load.args(["--db", &db.url(), "--progress", "plain", "--output", "json", "--delete-missing-max", "100"]);
    load.env("MILLSTREAM_FAILPOINTS", failpoints).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The receipt and the messages of a load that ends well.
#[track_caller]
fn ended(load: Child) -> (Value, String) {
    let output = load.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    (serde_json::from_slice(&output.stdout).unwrap(), stderr)
}

/// The rows that the dump lacks.
async fn rest(db: &TestDatabase) -> Vec<i64> {
    let sql = "select id from public.t where id > 92 order by id";
    db.client().await.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_others_have_written_since_the_load_began_stay() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (dump, held) = (scene(&db, dir.path()).await, dir.path().join("held"));
        let mut load = start(&db, &dump, &[], &format!("chunk-submitted=wait:{}", held.display()));
        until_held(&mut load, &held).await;
        let other = db.client().await;
        other.batch_execute("insert into public.t values (101, '{}'), (102, '{}')").await.unwrap();
        other.batch_execute("update public.t set doc = '{\"new\":1}' where id = 94").await.unwrap();
        // One that was deleted and came again.
        other
            .batch_execute("delete from public.t where id = 95; insert into public.t values (95, '{}')")
            .await
            .unwrap();
        // A subtransaction has a number of its own.
        other
            .batch_execute(
                "begin; savepoint one; update public.t set doc = '{\"new\":2}' where id = 96; release one;
                 savepoint two; update public.t set doc = '{\"new\":3}' where id = 97; rollback to two; commit",
            )
            .await
            .unwrap();
        std::fs::remove_file(&held).unwrap();
        let (receipt, said) = ended(load);
        assert_eq!(receipt["deleted_missing"], 5, "{receipt}");
        assert!(said.contains("5 missing rows stay"), "{said}");
        assert_eq!(rest(&db).await, [94, 95, 96, 101, 102]);
        // The next load does not know why it should keep them.
        let (receipt, _) = ended(start(&db, &dump, &["--resume", "off"], ""));
        assert_eq!(receipt["deleted_missing"], 5, "{receipt}");
        assert!(rest(&db).await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_transaction_that_was_open_when_the_load_began_stay() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (dump, held) = (scene(&db, dir.path()).await, dir.path().join("held"));
        let other = db.client().await;
        other
            .batch_execute(
                "begin; update public.t set doc = '{\"new\":1}' where id = 93;
                 savepoint one; update public.t set doc = '{\"new\":2}' where id = 94",
            )
            .await
            .unwrap();
        let mut load = start(&db, &dump, &[], &format!("chunk-submitted=wait:{}", held.display()));
        until_held(&mut load, &held).await;
        other
            .batch_execute("update public.t set doc = '{\"new\":3}' where id = 95; release one; commit")
            .await
            .unwrap();
        std::fs::remove_file(&held).unwrap();
        let (receipt, _) = ended(load);
        assert_eq!(rest(&db).await, [93, 94, 95], "{receipt}");
        assert_eq!(receipt["deleted_missing"], 5, "{receipt}");
    })
    .await;
}

/// The snapshot does not list the number that its rows get.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_subtransaction_that_was_open_when_the_load_began_stay() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (dump, held) = (scene(&db, dir.path()).await, dir.path().join("held"));
        let (other, client) = (db.client().await, db.client().await);
        client.batch_execute("create table public.elsewhere (n int)").await.unwrap();
        let begin = "begin; insert into public.elsewhere values (1);
                     savepoint one; insert into public.elsewhere values (2)";
        other.batch_execute(begin).await.unwrap();
        // Written before the load began, by a transaction with a greater number.
        client.batch_execute("update public.t set doc = '{\"old\":1}' where id = 94").await.unwrap();
        let mut load = start(&db, &dump, &[], &format!("chunk-submitted=wait:{}", held.display()));
        until_held(&mut load, &held).await;
        let rest_of_it = "update public.t set doc = '{\"new\":1}' where id = 93; release one; commit";
        other.batch_execute(rest_of_it).await.unwrap();
        std::fs::remove_file(&held).unwrap();
        let (receipt, _) = ended(load);
        assert_eq!(rest(&db).await, [93], "{receipt}");
        assert_eq!(receipt["deleted_missing"], 7, "{receipt}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_being_updated_when_it_is_to_be_deleted_stays() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (dump, held) = (scene(&db, dir.path()).await, dir.path().join("held"));
        let mut load = start(&db, &dump, &["--batch-rows", "3"], &format!("missing-found=wait:{}", held.display()));
        until_held(&mut load, &held).await;
        let other = db.client().await;
        other.batch_execute("begin; update public.t set doc = '{\"new\":1}' where id = 97").await.unwrap();
        std::fs::remove_file(&held).unwrap();
        let waiting = "select from pg_stat_activity where application_name = 'millstream control'
                       and wait_event_type = 'Lock' and datname = current_database()";
        let watch = db.client().await;
        until("the delete waits for the update", async || !watch.query(waiting, &[]).await.unwrap().is_empty()).await;
        assert_eq!(rest(&db).await, [96, 97, 98, 99, 100], "the batch before is committed");
        other.batch_execute("commit").await.unwrap();
        let (receipt, _) = ended(load);
        assert_eq!(receipt["deleted_missing"], 7, "{receipt}");
        assert_eq!(rest(&db).await, [97]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_whose_session_is_lost_or_whose_table_changes_goes_on() {
    each_build(async |db| {
        for change in [
            "select pg_terminate_backend(pid) from pg_stat_activity
             where application_name = 'millstream control' and state = 'idle' and datname = current_database()",
            "create index t_doc on public.t ((doc ->> 'id'))",
            "alter table public.t set (fillfactor = 80); vacuum full public.t",
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (dump, held) = (scene(&db, dir.path()).await, dir.path().join("held"));
            let points = format!("missing-committed=wait:{}", held.display());
            let mut load = start(&db, &dump, &["--batch-rows", "3"], &points);
            until_held(&mut load, &held).await;
            let other = db.client().await;
            for statement in change.split("; ") {
                other.batch_execute(statement).await.unwrap();
            }
            std::fs::remove_file(&held).unwrap();
            let (receipt, said) = ended(load);
            assert_eq!(receipt["deleted_missing"], 8, "{change}: {receipt} {said}");
            assert!(rest(&db).await.is_empty(), "{change}");
            other.batch_execute("drop table public.t").await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_taken_over_deletes_nothing_more() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (dump, held) = (scene(&db, dir.path()).await, dir.path().join("held"));
        let mut load = start(&db, &dump, &["--batch-rows", "3"], &format!("missing-committed=wait:{}", held.display()));
        until_held(&mut load, &held).await;
        let other = db.client().await;
        // As if another run had begun.
        other.batch_execute("update millstream.load set runs = runs + 1").await.unwrap();
        std::fs::remove_file(&held).unwrap();
        let output = load.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("no longer owns load"), "{stderr}");
        assert_eq!(rest(&db).await, [96, 97, 98, 99, 100]);
    })
    .await;
}
