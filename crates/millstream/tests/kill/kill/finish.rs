//! The same load started while another run of it is about to finish.

use crate::process::{command, until_held};
use millstream_testkit::{Server, Settings, connect, dealt_builds, until};
use serde_json::Value;
use std::process::{Child, Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_that_waited_adds_no_sums_again() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings::default()).await;
        let (url, dir) = (server.url("postgres"), tempfile::tempdir().unwrap());
        let client = connect(&url).await;
        let (file, held) = (dir.path().join("a.ndjson"), dir.path().join("held"));
        std::fs::write(&file, "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":2}\n{\"id\":\"a\",\"n\":3}\n").unwrap();
        let start = |failpoints: &str| -> Child {
            let mut command = command(&["load", file.to_str().unwrap(), "--into", "public.sums", "--key", "id:text"]);
            command.args(["--mode", "sum:n", "--db", &url, "--output", "json", "--progress", "none"]);
            command.env("MILLSTREAM_FAILPOINTS", failpoints).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut first = start(&format!("lanes-ended=wait:{}", held.display()));
        until_held(&mut first, &held).await;
        let second = start("");
        let sessions = "select count(*) from pg_stat_activity where application_name = 'millstream control'";
        until("the second run is there", async || client.query_one(sessions, &[]).await.unwrap().get::<_, i64>(0) > 1)
            .await;
        std::fs::remove_file(&held).unwrap();
        let [first, second] = [first, second].map(|child| {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        });
        assert_eq!(first["load_id"], second["load_id"], "{first} {second}");
        let sql = "select string_agg(id || (doc ->> 'n'), ',' order by id) from public.sums";
        assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, String>(0), "a4,b2");
    }
}
