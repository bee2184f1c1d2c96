//! `doctor watch` on a real server: what it names while something limits the server, and that it names nothing while
//! nobody works.

use crate::process::{command, run};
use millstream_testkit::{Server, Settings, connect, default_build};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::{JoinSet, block_in_place};

/// How often it looks until the limiter is named: other tests use this machine, too.
const LOOKS_MAX: u32 = 3;

/// Sessions that want one row.
const ROW_SESSIONS: usize = 8;

/// Most sessions that keep the processors busy.
const BUSY_SESSIONS_MAX: usize = 128;

/// Holds the lock of a row for a while, without work.
const ROW: &str = "with one as (update hot set n = n + 1 where id = 1 returning n) select pg_sleep(0.05) from one";

/// Works for half a second.
const BUSY: &str =
    "do $$ begin while clock_timestamp() < statement_timestamp() + interval '500 ms' loop end loop; end $$";

/// Sessions that send a statement again and again.
struct Load {
    ends: Arc<AtomicBool>,
    sessions: JoinSet<()>,
}

impl Load {
    async fn start(server: &Server, sessions: usize, sql: &'static str) -> Self {
        let mut load = Self { ends: Arc::default(), sessions: JoinSet::new() };
        for _ in 0..sessions {
            let (client, ends) = (connect(&server.url("postgres")).await, Arc::clone(&load.ends));
            load.sessions.spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    client.batch_execute(sql).await.unwrap();
                }
            });
        }
        load
    }

    async fn end(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        while let Some(ended) = self.sessions.join_next().await {
            ended.unwrap();
        }
    }
}

/// Looks at a server until a limiter is named, or often enough.
fn look(server: &Server, limiter: &str) -> Value {
    let url = server.url("postgres");
    let look = || {
        let mut command = command(&["doctor", "watch", "--for", "3s", "--output", "json", "--db", &url]);
        // The sessions of the load need this thread meanwhile.
        block_in_place(|| run(&mut command)).ends(0).json()
    };
    let mut seen = look();
    for _ in 1..LOOKS_MAX {
        if seen["limiter"] == limiter {
            break;
        }
        seen = look();
    }
    seen
}

/// A mean that was recorded; 0 if there was no such thing.
fn value(seen: &Value, name: &str) -> f64 {
    seen["values"][name].as_f64().unwrap_or(0.0)
}

/// Processors of the machine, whatever part of them this process may use.
fn processors() -> usize {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    // The line `cpu` is their sum.
    let is_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    text.lines().filter(is_one).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_limits_a_server_is_named_only_while_it_does() {
    let server = Server::start(default_build().await, Settings::default()).await;
    let idle = || {
        let mut idle = command(&["doctor", "watch", "--for", "2s", "--db", &server.url("postgres")]);
        block_in_place(|| run(&mut idle)).ends(0)
    };
    // A server that answers too late is not looked at.
    let idle = (0..LOOKS_MAX).map(|_| idle()).find(|one| !one.stdout.contains("session at the server was lost"));
    // Whatever the other tests do to the machine meanwhile.
    let says = "What limits the server: unknown\n  hardly any session was active\n";
    assert!(idle.as_ref().is_some_and(|idle| idle.stdout.starts_with(says)), "{idle:?}");

    let client = connect(&server.url("postgres")).await;
    client.batch_execute("create table hot (id int primary key, n int); insert into hot values (1, 0)").await.unwrap();
    let load = Load::start(&server, ROW_SESSIONS, ROW).await;
    let hot = look(&server, "lock");
    load.end().await;
    let waiting = value(&hot, "wait.Lock:transactionid") + value(&hot, "wait.Lock:tuple");
    assert!(waiting > value(&hot, "sessions.active") / 2.0, "{hot}");
    // A second sign is needed: processors with time left. The other tests may take that away in every look.
    assert!(hot["limiter"] == "lock" || value(&hot, "processor.busy_percent") >= 80.0, "{hot}");
    assert_eq!(hot["tables"][0][0], "public.hot", "{hot}");

    let load = Load::start(&server, processors().min(BUSY_SESSIONS_MAX), BUSY).await;
    let busy = look(&server, "processor");
    load.end().await;
    assert!(value(&busy, "wait.CPU") > value(&busy, "sessions.active") / 2.0, "{busy}");
    // The host of a virtual machine may take the processors away in every look.
    if value(&busy, "processor.busy_percent") >= 90.0 {
        assert_eq!(busy["limiter"], "processor", "{busy}");
        assert_eq!(busy["evidence"].as_array().unwrap().len(), 2, "{busy}");
    }
}
