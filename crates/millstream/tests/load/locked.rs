//! Commands that only read, while another session holds their table.

use crate::process::{command, millstream};
use millstream_testkit::each_build;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_read_name_the_session_whose_lock_they_wait_for() {
    each_build(async |db| {
        let (dir, url, holder) = (tempfile::tempdir().unwrap(), db.url(), db.client().await);
        let file = dir.path().join("a.ndjson");
        let file = file.to_str().unwrap();
        std::fs::write(file, "{\"id\":1}\n").unwrap();
        millstream(&["load", file, "--into", "public.held", "--key", "id:bigint", "--db", &url]).ends(0);
        let pid: i32 = holder.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        // What rewrites a table holds it so.
        holder.batch_execute("begin; lock table public.held in access exclusive mode").await.unwrap();
        let reading: [&[&str]; 5] = [
            &["collections"],
            &["collections", "--sizes"],
            &["get", "public.held", "1"],
            &["distinct", "public.held", "id"],
            &["verify", file, "--into", "public.held", "--key", "id:bigint", "--progress", "none"],
        ];
        let mut waiting = Vec::new();
        for args in reading {
            let mut child = command(&[args, &["--db", &url]].concat());
            let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let messages = BufReader::new(child.stderr.take().unwrap());
            waiting.push((args, child, messages));
        }
        for (args, _, messages) in &mut waiting {
            let mut line = String::new();
            while !line.starts_with("waits: ") {
                line.clear();
                assert!(messages.read_line(&mut line).unwrap() > 0, "it never said why: {args:?}");
            }
            assert!(line.contains("for a lock on held; ") || line.contains("for a lock on public.held; "), "{line}");
            assert!(line.contains(&format!("session {pid} holds it")), "{args:?}: {line}");
        }
        holder.batch_execute("commit").await.unwrap();
        for (args, mut child, _messages) in waiting {
            assert!(child.wait().unwrap().success(), "{args:?}");
        }
    })
    .await;
}
