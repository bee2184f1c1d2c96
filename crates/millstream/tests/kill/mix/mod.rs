//! A hostile mix: two loads run at once into one collection, while servers crash and clients die.

mod traffic;
mod turns;

use crate::client::Client;
use crate::kill::is_killed;
use crate::process::millstream;
use fastrand::Rng;
use millstream_testkit::{Cases, Server, Settings, StopMode, connect, dealt_builds, until};
use serde_json::Value;
use std::collections::BTreeMap;
use traffic::{Stream, Traffic};

/// Mixes on every build.
const MIXES: usize = 2;
/// The version of a document decides, also against documents that delete.
const MODE: &[&str] = &["--mode", "newest:v:bigint", "--delete-when", "op=d"];

/// What happens while both loads run.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// The server stops in this way and comes back.
    Restart(StopMode),
    /// A client dies and the same command runs again.
    Kill(usize),
}

const BLOWS: [Blow; 5] = [
    Blow::Restart(StopMode::Fast),
    Blow::Restart(StopMode::Immediate),
    Blow::Restart(StopMode::Kill),
    Blow::Kill(0),
    Blow::Kill(1),
];

/// The durability of the loads, and the order of the faults.
#[derive(Debug)]
struct Course {
    durabilities: [&'static str; 2],
    blows: [Blow; BLOWS.len()],
}

impl Course {
    fn random(rng: &mut Rng) -> Self {
        let durabilities = [(); 2].map(|()| if rng.bool() { "durable" } else { "async" });
        let mut blows = BLOWS;
        rng.shuffle(&mut blows);
        Self { durabilities, blows }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_loads_through_faults_end_equal_to_the_oracle() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        for (n, mut rng) in Cases::new(MIXES).enumerate() {
            let course = Course::random(&mut rng);
            println!("{course:?}");
            mix(&server, &format!("public.mix_{n}"), course, &mut rng).await;
        }
    }
}

async fn mix(server: &Server, table: &str, course: Course, rng: &mut Rng) {
    let traffic = Traffic::random(rng);
    let dir = tempfile::tempdir().unwrap();
    let Course { durabilities, blows } = course;
    let (file, stream) = (&traffic.streams[0], &traffic.streams[1]);
    let path = dir.path().join("file.ndjson");
    std::fs::write(&path, &file.text).unwrap();
    let url = server.url("postgres");
    let of_file = [&[path.to_str().unwrap(), "--durability", durabilities[0]], MODE].concat();
    let of_stream = [&["-", "--source-name", "the stream", "--durability", durabilities[1]], MODE].concat();
    let mut clients =
        [Client::new(table, &url, &of_file, None), Client::new(table, &url, &of_stream, Some(stream.text.clone()))];
    clients.iter_mut().for_each(|client| client.start(rng.u16(1..4), ""));
    let mut before = [0, 0];
    for (blow, piece) in blows.into_iter().zip(stream.pieces(BLOWS.len() + 1)) {
        clients[1].feed(piece);
        let watch = connect(&url).await;
        until("both loads go on", async || {
            assert!(clients[1].runs(), "the stream is not at its end");
            clients[0].runs();
            let now = [committed(&watch, table, 0).await, committed(&watch, table, 1).await];
            now[1].0 > before[1] && (now[0].0 > before[0] || now[0].1)
        })
        .await;
        match blow {
            Blow::Restart(mode) => server.restart(mode).await,
            Blow::Kill(n) => {
                let output = clients[n].kill().await;
                assert!(output.is_none_or(|o| is_killed(o.status) || o.status.code() == Some(1)));
                if !committed(&watch, table, n).await.1 {
                    let ended = runs(&watch, table, n).await;
                    clients[n].start(rng.u16(1..4), "");
                    // Until then, backends of the killed run may commit, which is not progress of the new run.
                    until("the next run begins", async || {
                        clients[n].runs();
                        runs(&watch, table, n).await > ended
                    })
                    .await;
                }
            }
        }
        let watch = connect(&url).await;
        before = [committed(&watch, table, 0).await.0, committed(&watch, table, 1).await.0];
    }
    clients[1].feed(stream.text.len());
    for client in &mut clients {
        // A run that was killed after its last commit was not started again.
        if let Some(output) = client.end().await {
            assert_eq!(output.status.code(), Some(1), "{output:?}");
        }
    }
    check(&url, table, &traffic).await;
    let of_stream = dir.path().join("stream.ndjson");
    std::fs::write(&of_stream, &stream.text).unwrap();
    let verify = [
        "verify",
        path.to_str().unwrap(),
        of_stream.to_str().unwrap(),
        "--into",
        table,
        "--key",
        "id",
        "--format",
        "ndjson",
    ];
    millstream(&[&verify, MODE, &["--exact", "--db", &url]].concat()).ends(0);
}

/// How often the file's load (0) or the stream's (1) has begun.
async fn runs(watch: &tokio_postgres::Client, table: &str, load: usize) -> i32 {
    let sql = "select runs from millstream.load where table_oid = to_regclass($1) and (sources = '{the stream}') = $2";
    watch.query_one(sql, &[&table, &(load == 1)]).await.unwrap().get(0)
}

/// Documents committed of the file's load (0) or the stream's (1), and whether it is finished.
async fn committed(watch: &tokio_postgres::Client, table: &str, load: usize) -> (i64, bool) {
    let made = "select to_regclass('millstream.tombstone') is not null";
    if !watch.query_one(made, &[]).await.unwrap().get::<_, bool>(0) {
        return (0, false);
    }
    let sql =
        "select l.read + (select coalesce(sum(n.read), 0) from millstream.lane n where n.load_id = l.load_id)::bigint,
                      l.state = 'finished'
               from millstream.load l where l.table_oid = to_regclass($1) and (l.sources = '{the stream}') = $2";
    let rows = watch.query(sql, &[&table, &(load == 1)]).await.unwrap();
    assert!(rows.len() < 2, "one load, however often it was killed");
    rows.first().map_or((0, false), |row| (row.get(0), row.get(1)))
}

/// The table is what the versions decide, and each receipt is that of a run without interruption.
async fn check(url: &str, table: &str, traffic: &Traffic) {
    let client = connect(url).await;
    let rows = client.query(&format!("select id, doc::text from {table}"), &[]).await.unwrap();
    let found: BTreeMap<i64, Value> =
        rows.iter().map(|row| (row.get(0), serde_json::from_str(row.get(1)).unwrap())).collect();
    let wanted: BTreeMap<i64, Value> =
        traffic.rows.iter().map(|(id, document)| (*id, serde_json::from_str(document).unwrap())).collect();
    let differ = |id: &&i64| found.get(id) != wanted.get(id);
    let different: Vec<_> = found.keys().chain(wanted.keys()).filter(differ).collect();
    let shown: Vec<_> = different.iter().take(5).map(|id| (id, found.get(id), wanted.get(id))).collect();
    assert!(different.is_empty(), "{} keys differ: {shown:?}", different.len());
    let mut grown = 0;
    for (load, stream) in traffic.streams.iter().enumerate() {
        grown += account(&client, table, load, stream).await;
    }
    assert_eq!(grown, i64::try_from(found.len()).unwrap());
}

/// Every line of a stream is in one column of its receipt, and every bad one is among the rejects. Returns by how many
/// rows the load made the table grow.
async fn account(client: &tokio_postgres::Client, table: &str, load: usize, stream: &Stream) -> i64 {
    let sql = "select load_id, receipt::text from millstream.load
               where table_oid = to_regclass($1) and (sources = '{the stream}') = $2 and state = 'finished'";
    let row = client.query_one(sql, &[&table, &(load == 1)]).await.unwrap();
    let receipt: Value = serde_json::from_str(row.get(1)).unwrap();
    let count = |name: &str| receipt[name].as_u64().unwrap();
    assert_eq!((count("read"), count("rejected")), (stream.read, stream.rejects.len() as u64), "{receipt}");
    let columns = ["inserted", "updated", "unchanged", "superseded", "stale", "deleted", "rejected"];
    assert_eq!(columns.map(count).iter().sum::<u64>(), stream.read, "{receipt}");
    let rejects = "select line, reason from millstream.reject where load_id = $1";
    let rejects = client.query(rejects, &[&row.get::<_, i64>(0)]).await.unwrap();
    let found: BTreeMap<i64, String> = rejects.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert!(found == stream.rejects, "the rejects are the bad lines");
    assert_eq!(rejects.len(), found.len());
    i64::try_from(count("inserted")).unwrap() - i64::try_from(count("deleted")).unwrap()
}
