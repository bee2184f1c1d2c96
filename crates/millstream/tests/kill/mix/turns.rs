//! A document and the tombstone of its key, written by two loads at the same moment.

use super::MODE;
use crate::process::{command, until_held};
use millstream_testkit::{each_build, until};
use std::process::{Child, Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn an_uncommitted_older_document_does_not_escape_a_tombstone() {
    each_build(async |db| {
        let (dir, url, client) = (tempfile::tempdir().unwrap(), db.url(), db.client().await);
        let load = |name: &str, document: &str, failpoints: &str| -> Child {
            let file = dir.path().join(name);
            std::fs::write(&file, document).unwrap();
            let args = ["load", file.to_str().unwrap(), "--into", "public.turns", "--key", "id:bigint", "--db", &url];
            // One lane, so the lane that is held is the one of the document.
            let mut command = command(&[&args, MODE, &["--lanes", "1"]].concat());
            command.env("MILLSTREAM_FAILPOINTS", failpoints).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let held = dir.path().join("held");
        let mut put = load("put", "{\"id\":1,\"v\":3}\n", &format!("batch-advancing=wait:{}", held.display()));
        // The document is written and not committed.
        until_held(&mut put, &held).await;
        let mut gone = load("gone", "{\"id\":1,\"v\":5,\"op\":\"d\"}\n", "");
        let waits = "select from pg_stat_activity where datname = current_database()
            and application_name like 'millstream lane%' and wait_event_type = 'Lock'";
        until("the tombstone waits, or has not seen the document", async || {
            gone.try_wait().unwrap().is_some() || !client.query(waits, &[]).await.unwrap().is_empty()
        })
        .await;
        std::fs::remove_file(&held).unwrap();
        assert!(put.wait().unwrap().success() && gone.wait().unwrap().success());
        let left: i64 = client.query_one("select count(*) from public.turns", &[]).await.unwrap().get(0);
        assert_eq!(left, 0, "the newer one deletes");
    })
    .await;
}
