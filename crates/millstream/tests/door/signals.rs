//! Ctrl-C and SIGTERM while a command waits.

use crate::process::{assert_runs, command, command_in_terminal, millstream, send};
use millstream_testkit::{database, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::time::Duration;
use tokio_postgres::Client;

/// More distinct values than fit between the server and a reader who does not read.
const VALUES: &str = "insert into public.pings select 'device-' || n, '{}' from generate_series(1, 300000) n";

/// Sends a load its first document on standard input, and waits until the load has begun.
fn begin(loading: &mut Child) -> (ChildStdin, BufReader<ChildStderr>) {
    let mut documents = loading.stdin.take().unwrap();
    documents.write_all(b"{\"id\":1}\n").unwrap();
    let mut messages = BufReader::new(loading.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("load ") {
        line.clear();
        assert!(messages.read_line(&mut line).unwrap() > 0, "the load never began");
    }
    (documents, messages)
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_end_distinct_and_its_session() {
    let db = database().await;
    let url = db.url();
    millstream(&["load", "-", "--into", "public.pings", "--key", "device:text", "--db", &url]).ends(0);
    let client = db.client().await;
    client.batch_execute(VALUES).await.unwrap();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut walking = command(&["distinct", "pings", "device", "--db", &url]);
        let mut walking = walking.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut printed = BufReader::new(walking.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        assert_eq!(line, "device-1\n");
        send(signal, walking.id());
        assert_eq!(walking.wait().unwrap().code(), Some(code));
        assert!(printed.lines().map_while(Result::ok).count() < 299_999, "it was stopped");
        let walks = "select from pg_stat_activity
                     where datname = current_database() and query like '%walked%' and pid <> pg_backend_pid()";
        until("the session that walked ends", async || client.query(walks, &[]).await.unwrap().is_empty()).await;
    }
}

#[test]
fn signals_end_a_waiting_command_with_their_code() {
    // Connections are accepted by the system and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://me@{}/shop?connect_timeout=0", silent.local_addr().unwrap());
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut waiting = command_in_terminal(&["collections", "--db", &url]).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(waiting.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("target: "), "{line}");
        send(signal, waiting.id());
        assert_eq!(waiting.wait().unwrap().code(), Some(code));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_terminal_stops_a_load_unless_it_runs_under_nohup() {
    let db = database().await;
    let url = db.url();
    for (nohup, code) in [(false, 129), (true, 0)] {
        let args = ["load", "-", "--into", "public.hung", "--key", "id:bigint", "--format", "ndjson", "--db", &url];
        let mut loading = command_in_terminal(&args);
        if nohup {
            let binary = command(&args);
            loading = Command::new("nohup");
            loading.arg(binary.get_program()).args(binary.get_args());
        }
        let loading = loading.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut loading = loading.spawn().unwrap();
        let (mut documents, mut messages) = begin(&mut loading);
        send("HUP", loading.id());
        if nohup {
            documents.write_all(b"{\"id\":2}\n").unwrap();
            drop(documents);
        }
        let mut rest = String::new();
        messages.read_to_string(&mut rest).unwrap();
        let mut receipt = String::new();
        loading.stdout.take().unwrap().read_to_string(&mut receipt).unwrap();
        assert_eq!(loading.wait().unwrap().code(), Some(code), "{rest}");
        assert!(receipt.starts_with("receipt of load "), "{receipt}");
        assert_eq!(rest.contains("stopping: "), !nohup, "{rest}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_stream_is_offered_resume_only_with_a_source_name() {
    let db = database().await;
    let url = db.url();
    for (more, promised) in [
        (&[][..], "a stream without --source-name cannot be resumed"),
        (&["--source-name", "pings"], "run the same command again to resume"),
    ] {
        let mut loading = command(&["load", "-", "--into", "public.stopped", "--key", "id:bigint", "--db", &url]);
        let mut loading =
            loading.args(more).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (_documents, mut messages) = begin(&mut loading);
        let committed = "select coalesce(sum(n.read), 0)::bigint from millstream.lane n
                         join millstream.load l using (load_id) where l.state = 'running'";
        let client = db.client().await;
        until("the first document is committed", async || {
            assert_runs(&mut loading);
            client.query_one(committed, &[]).await.unwrap().get::<_, i64>(0) > 0
        })
        .await;
        send("INT", loading.id());
        let mut rest = String::new();
        messages.read_to_string(&mut rest).unwrap();
        assert_eq!(loading.wait().unwrap().code(), Some(130), "{rest}");
        assert!(rest.contains(promised), "{rest}");
    }
}

/// How many sessions of commands wait for a lock.
async fn locked_out(client: &Client) -> i64 {
    let waiting = "select count(*) from pg_stat_activity where datname = current_database()
                   and application_name like 'millstream %' and wait_event_type = 'Lock'";
    client.query_one(waiting, &[]).await.unwrap().get(0)
}

/// Waits until a session of a command waits for a lock.
async fn waits_for_a_lock(client: &Client, child: &mut Child) {
    until("a session of the command waits for a lock", async || {
        assert_runs(child);
        locked_out(client).await > 0
    })
    .await;
}

/// Waits until no session of a command waits for a lock any more.
async fn nobody_waits(client: &Client) {
    until("no session of a command waits for a lock", async || locked_out(client).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_cancels_a_load_behind_a_lock_and_the_load_resumes() {
    let db = database().await;
    // Another session looks: one in a transaction sees what it saw at first.
    let (url, holder, client) = (db.url(), db.client().await, db.client().await);
    let args = ["load", "-", "--into", "public.jammed", "--key", "id:bigint", "--source-name", "s", "--db", &url];
    let mut loading = command(&args);
    let loading = loading.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut loading = loading.spawn().unwrap();
    let (mut documents, mut messages) = begin(&mut loading);
    until("the first document is committed", async || {
        assert_runs(&mut loading);
        holder.query_one("select count(*) from public.jammed", &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    holder.batch_execute("begin; lock table public.jammed").await.unwrap();
    documents.write_all(b"{\"id\":2}\n").unwrap();
    waits_for_a_lock(&client, &mut loading).await;
    send("TERM", loading.id());
    let mut line = String::new();
    while !line.starts_with("stopping: ") {
        line.clear();
        assert!(messages.read_line(&mut line).unwrap() > 0, "it did not stop in good order");
    }
    // A signal that follows sooner counts as the same.
    tokio::time::sleep(Duration::from_millis(200)).await;
    send("TERM", loading.id());
    let mut receipt = String::new();
    loading.stdout.take().unwrap().read_to_string(&mut receipt).unwrap();
    assert_eq!(loading.wait().unwrap().code(), Some(143));
    assert!(receipt.starts_with("receipt of load "), "{receipt}");
    nobody_waits(&client).await;
    holder.batch_execute("rollback").await.unwrap();
    let mut again = command(&args);
    let mut again = again.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    again.stdin.take().unwrap().write_all(b"{\"id\":1}\n{\"id\":2}\n").unwrap();
    assert_eq!(again.wait().unwrap().code(), Some(0));
    assert_eq!(holder.query_one("select count(*) from public.jammed", &[]).await.unwrap().get::<_, i64>(0), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_end_compact_and_publish_behind_a_lock_which_they_name() {
    let db = database().await;
    // Another session looks: one in a transaction sees what it saw at first.
    let (url, holder, client) = (db.url(), db.client().await, db.client().await);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.ndjson");
    std::fs::write(&file, "{\"id\":1}\n").unwrap();
    let load = ["load", file.to_str().unwrap(), "--into", "public.logged", "--key", "id:bigint", "--layout", "log"];
    millstream(&[&load[..], &["--db", &url]].concat()).ends(0);
    let pid: i32 = holder.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    holder.batch_execute("begin; lock table public.logged").await.unwrap();
    for (args, looks) in [
        (&["compact", "public.logged"][..], true),
        (&["publish", "public.logged", "--as", "public.model", "--index", "id"], false),
    ] {
        let mut waiting = command(&[args, &["--db", &url]].concat());
        let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        waits_for_a_lock(&client, &mut waiting).await;
        let mut messages = BufReader::new(waiting.stderr.take().unwrap());
        let mut line = String::new();
        while looks && !line.starts_with("waits: ") {
            line.clear();
            assert!(messages.read_line(&mut line).unwrap() > 0, "it never said why");
        }
        assert!(!looks || line.contains(&format!("session {pid} holds it")), "{line}");
        send("TERM", waiting.id());
        assert_eq!(waiting.wait().unwrap().code(), Some(143), "{args:?}");
        nobody_waits(&client).await;
    }
}
