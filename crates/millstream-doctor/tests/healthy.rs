//! Tuned servers with data, under load, on a tuned machine: nothing is wrong with them.

use crate::checks::{request, seen, sql};
use crate::machine::{FAST, machine};
use crate::servers::{ANY_DISK, send};
use millstream_doctor::{CHECKS, Report, Request, RunOptions, examine, text};
use millstream_model::{Finding, Level, MachineFacts};
use millstream_pg::sizing::{BuildFacts, RECORDED, settings};
use millstream_testkit::{self as testkit, Build, Server};
use tokio_postgres::Client;

/// The machine of the fake root.
const MACHINE: MachineFacts = MachineFacts {
    kernel: String::new(),
    processor: None,
    cores: 2,
    memory_bytes: 1_000_000 << 10,
    cgroup_bytes: None,
    load_average: None,
    file_system: None,
    disk_free_bytes: 100 << 30,
    rotational: false,
};

/// Files that say the same.
const FILES: &[(&str, &str)] = &[
    ("proc/meminfo", "MemTotal:        1000000 kB\nMemAvailable:     800000 kB\n"),
    ("proc/cpuinfo", "processor\t: 0\nprocessor\t: 1\n"),
];

/// Tables with keys, a foreign key with its index, large values, partitions, and statistics of all of it.
const DATA: &str = "create extension pg_stat_statements;
    create table customer (id int primary key, name text not null, notes text);
    insert into customer select n, 'customer ' || n, repeat(md5(n::text), 100) from generate_series(1, 5000) as n;
    create table bill (id bigserial primary key, customer int not null references customer, amount numeric not null);
    create index on bill (customer);
    insert into bill (customer, amount) select 1 + n % 5000, n from generate_series(1, 20000) as n;
    create table visit (day int not null, customer int not null, primary key (day, customer)) partition by range (day);
    create table visit_1 partition of visit for values from (0) to (10);
    create table visit_2 partition of visit for values from (10) to (20);
    insert into visit select n % 20, n from generate_series(1, 20000) as n;
    vacuum (analyze) customer; vacuum (analyze) bill; analyze visit; checkpoint";

/// Most notes that a report shows of a server without faults.
const NOTES_MAX: usize = 3;

/// Rounds of the load.
const ROUNDS: i32 = 1_000;

/// What an application does: short transactions by key, on rows all over the tables.
async fn load(client: &Client) {
    for round in 0..ROUNDS {
        let customer = 1 + (round * 7) % 5_000;
        client.execute("insert into bill (customer, amount) values ($1, 5)", &[&customer]).await.unwrap();
        client.execute("update customer set name = name || '' where id = $1", &[&customer]).await.unwrap();
        client.query("select sum(amount) from bill where customer = $1", &[&customer]).await.unwrap();
    }
}

/// The settings of the tests.
fn own() -> String {
    format!("{FAST}\n{ANY_DISK}")
}

/// A server with the settings that fit the machine.
async fn tuned(build: &'static Build) -> Server {
    let sized = settings(&MACHINE, BuildFacts { major: build.major(), lz4: false });
    let recorded = RECORDED.iter().map(|one| (one.name, one.value.to_owned()));
    let lines = sized.into_iter().map(|one| (one.name, one.value)).chain(recorded);
    let conf = lines.map(|(name, value)| format!("{name} = '{value}'")).collect();
    Server::start(build, testkit::Settings { conf, ..testkit::Settings::default() }).await
}

/// Finds nothing above a note, and shows few notes. Which release is installed on the machine of the tests does not matter.
fn is_calm(report: &Report, server: &Server) {
    let own = || report.findings.iter().filter(|one| one.check != "minor-version-behind");
    let above: Vec<&Finding> = own().filter(|one| one.level > Level::Info).collect();
    assert_eq!(above, Vec::<&Finding>::new(), "on {}", server.build().installation);
    let page = text(&Report { findings: own().cloned().collect(), ..report.clone() }, false, &RunOptions::default());
    let notes = page.lines().filter(|line| line.starts_with("info: ")).count();
    assert!(notes <= NOTES_MAX, "{notes} notes on {}: {page}", server.build().installation);
    let late = report.skipped.iter().find(|skip| skip.why.contains("--budget gives more"));
    assert_eq!(late, None);
    assert!(report.passed.len() > CHECKS.len() / 2, "{report:?}");
}

#[tokio::test]
async fn a_tuned_server_under_load_on_a_tuned_machine_has_no_finding_above_info() {
    let place = machine(FILES);
    for build in testkit::builds().await {
        let server = tuned(build).await;
        let url = server.url("postgres");
        let (client, worker) = (testkit::connect(&url).await, testkit::connect(&url).await);
        sql(&client, DATA).await;
        let request = Request { root: Some(place.path().to_owned()), ..request(&url, &[], &own()) };
        let look = async || {
            let report: Report = examine(&request).await.unwrap();
            is_calm(&report, &server);
            for check in ["dead-tuples", "few-reads-ahead", "memory-overcommitted", "never-analyzed", "not-recorded"] {
                assert!(report.passed.iter().any(|id| id == check), "{check}: {report:?}");
            }
        };
        // While the load works, and when it is over.
        tokio::join!(load(&worker), look());
        look().await;
        // What it records no longer is missed until it is recorded again.
        for (statement, missed) in [
            ("alter system set log_lock_waits = off", &["log_lock_waits"][..]),
            ("alter system set log_lock_waits = on", &[]),
        ] {
            sql(&client, statement).await;
            sql(&client, "select pg_reload_conf()").await;
            seen(&url, "not-recorded", "", |keys| keys == missed).await;
        }
    }
}

/// What the programs of a web application do.
const WEB: &[&str] = &[
    "select * from thing_1 where slug = 'thing-' || $1::int",
    "select * from thing_3 where owner_id = $1::int order by created_at desc limit 20",
    "update thing_1 set updated_at = now(), settings = settings || '{\"seen\": 1}' where id = $1::int",
    "insert into line_2 (thing_id, price, data) values (1 + $1::int % 5000, 5, '{\"sku\": 7}')",
    "select l.* from line_1 as l join thing_1 as t on t.id = l.thing_id where t.slug = 'thing-' || $1::int % 100 limit 50",
    "select * from line_3 where data @> jsonb_build_object('sku', $1::int)",
    "select t.* from thing_2 as t join pair_1 as p on p.other_id = t.id where p.one_id = $1::int % 100",
    "insert into event (thing_id, kind, at) values ($1::int, 'view', '2026-05-20')",
    "select * from event where thing_id = $1::int and at >= '2026-05-01' order by at desc limit 10",
    "delete from line_2 where id = $1::int",
];

/// Rounds of the web application.
const WEB_ROUNDS: i32 = 150;

#[tokio::test]
async fn a_web_application_with_two_hundred_tables_has_no_finding_above_info() {
    let place = machine(FILES);
    for build in testkit::builds().await {
        let server = tuned(build).await;
        let url = server.url("postgres");
        let (client, worker) = (testkit::connect(&url).await, testkit::connect(&url).await);
        send(&client, include_str!("healthy/web.sql")).await;
        let tables = "select count(*) from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace";
        assert!(client.query_one(tables, &[]).await.unwrap().get::<_, i64>(0) >= 199);
        sql(&client, "select pg_stat_statements_reset()").await;
        let request = Request { root: Some(place.path().to_owned()), ..request(&url, &[], &own()) };
        let work = async {
            for round in 0..WEB_ROUNDS {
                for statement in WEB {
                    worker.query(*statement, &[&(1 + (round * 37) % 5_000)]).await.unwrap();
                }
            }
        };
        let look = async || is_calm(&examine(&request).await.unwrap(), &server);
        tokio::join!(work, look());
        look().await;
    }
}
