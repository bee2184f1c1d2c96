//! Workloads at a rate: every scheduled transaction is accounted for.

use crate::conninfo;
use millstream_lab::drive::{Drive, LatencyGoal, RunResult, ScriptResult, Search, SearchStep, Workload};
use millstream_pg::ConnInfo;
use millstream_testkit::{Feature, database_with, each_build_with, until};
use tokio_postgres::Client;

const TABLE: &str = "create table account (id bigint primary key, balance bigint not null);
    insert into account select n, 0 from generate_series(1, 100) n";

/// Reads beside transfers of two statements, at two rates.
const MIX: &str = r#"
about = "reads beside transfers"
connections = 4
seconds = 1
rate = [100, 150]
[[script]]
name = "read"
weight = 3
objective_ms = 60000
sql = '''
\set id random(1, 100)
select balance from account where id = :id;
'''
[[script]]
name = "transfer"
sql = '''
\set from random(1, 100)
\set amount random(1, 9)
begin;
update account set balance = balance - :amount where id = :from;
update account set balance = balance + :amount where id = :from % 100 + 1;
commit;
'''
"#;

/// One script that sleeps.
fn sleeping(seconds: &str, head: &str) -> String {
    format!("connections = 1\nseconds = 1\n{head}\n[[script]]\nname = \"one\"\nsql = \"select pg_sleep({seconds})\"\n")
}

/// Runs a workload at its first rate.
async fn driven(workload: &str, db: &ConnInfo) -> RunResult {
    let workload = Workload::parse(workload).expect("it is a workload");
    Box::pin(Drive::new(&workload, 1, db).run(workload.rates[0])).await.expect("pgbench ends well")
}

fn assert_adds_up(script: &ScriptResult) {
    let counts = script.counts;
    assert_eq!(counts.scheduled, counts.done + counts.failed + counts.skipped, "{script:?}");
    for latency in [&script.response, &script.service] {
        assert_eq!(latency.as_ref().map_or(0, |latency| latency.count), counts.done, "{script:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scheduled_transaction_is_accounted_for() {
    each_build_with(&[Feature::Pgbench], async |database| {
        let (client, db) = (database.client().await, conninfo(&database));
        client.batch_execute(TABLE).await.unwrap();
        let workload = Workload::parse(MIX).unwrap();
        let mut transfers = 0;
        for rate in &workload.rates {
            let run = Box::pin(Drive::new(&workload, 7, &db).run(*rate)).await.unwrap();
            assert_eq!(run.rate, *rate);
            run.scripts.iter().for_each(assert_adds_up);
            let [read, transfer] = run.scripts.as_slice() else { panic!("{run:?}") };
            assert!(read.counts.done > 0, "{read:?}");
            assert_eq!((read.counts.late, read.objective_met), (0, Some(true)), "{read:?}");
            transfers += transfer.counts.done;
        }
        // Transfers are whole: what one account loses, another gains.
        let sums = "select sum(balance)::bigint, count(*) filter (where balance <> 0) from account";
        let row = client.query_one(sums, &[]).await.unwrap();
        let (sum, moved): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!((sum, moved > 0), (0, transfers > 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_load_is_no_good_run_and_is_skipped_where_there_is_a_limit() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let db = conninfo(&database);
    let slow = sleeping("0.1", "rate = 100").replace("name = \"one\"", "name = \"one\"\nobjective_ms = 1");
    let run = driven(&slow, &db).await;
    assert!(run.is_overloaded() && !run.is_good(), "{run:?}");
    assert_eq!(run.scripts[0].objective_met, Some(false));
    assert!(run.remarks.iter().any(|remark| remark.starts_with("overloaded: ")), "{run:?}");
    let run = driven(&sleeping("0.1", "rate = 100\nlimit_ms = 150"), &db).await;
    assert_adds_up(&run.scripts[0]);
    assert!(run.scripts[0].counts.skipped > 0 && !run.is_good(), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_halves_the_rate_until_too_few_transactions_are_left_for_its_percentile() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let db = conninfo(&database);
    let searched = async |goal: &str, workload: &str| {
        let (goal, workload): (LatencyGoal, _) = (goal.parse().unwrap(), Workload::parse(workload).unwrap());
        let (mut found, mut reported) = (Search::new(&goal), Vec::new());
        let mut progress = |step: &SearchStep| reported.push(step.clone());
        let drive = Drive::new(&workload, 1, &db);
        let ended = Box::pin(drive.search(&goal, &mut found, &mut progress)).await;
        assert_eq!(reported, found.steps, "each step is reported when it has ended");
        ended.map(|()| found).map_err(|error| error.to_string())
    };
    let workload = sleeping("0.05", "rate = 40");
    let found = searched("one.p90 < 10ms", &workload).await.unwrap();
    assert!(found.highest_rate.is_none() && found.steps.iter().all(|step| !step.kept), "{found:?}");
    let rates: Vec<f64> = found.steps.iter().map(|step| step.rate).collect();
    assert_eq!(rates, [40.0, 20.0, 10.0]);
    let several = workload.replace("rate = 40", "rate = [40, 80]");
    for (goal, workload, says) in [
        ("tow.p90 < 10ms", &workload, "unknown script \"tow\""),
        ("p90 < 10ms", &several, "a search begins at one rate"),
    ] {
        let refused = searched(goal, workload).await.unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pgbench_says_of_a_wrong_script_is_the_error() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let db = conninfo(&database);
    database.client().await.batch_execute(TABLE).await.unwrap();
    for (from, to, says) in [
        ("from account", "from accounts", "relation \"accounts\" does not exist"),
        ("\\set id", "\\seat id", "invalid command"),
    ] {
        assert!(MIX.contains(from), "{from}");
        let workload = Workload::parse(&MIX.replacen(from, to, 1)).unwrap();
        let failed = Box::pin(Drive::new(&workload, 1, &db).run(100.0)).await.unwrap_err().to_string();
        assert!(failed.contains("pgbench failed: ") && failed.contains(says), "{to}: {failed}");
    }
}

/// How many statements of drives the server runs, and for how many drives.
async fn at_work(client: &Client) -> (i64, i64) {
    let sql = "select count(*), count(distinct application_name) from pg_stat_activity
               where datname = current_database() and state = 'active' and application_name like 'millstream drive %'";
    let row = client.query_one(sql, &[]).await.expect("the server answers");
    (row.get(0), row.get(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drive_that_is_stopped_ends_its_own_sessions_and_no_others() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let (client, db) = (database.client().await, conninfo(&database));
    let workload = Workload::parse(&sleeping("600", "rate = 100")).unwrap();
    let [first, second] = [(); 2].map(|()| Drive::new(&workload, 1, &db));
    // When the runs are dropped, their pgbench is killed, and the server goes on.
    tokio::select! {
        ended = Box::pin(first.run(100.0)) => panic!("it ended: {ended:?}"),
        ended = Box::pin(second.run(100.0)) => panic!("it ended: {ended:?}"),
        () = until("both are at work, by names of their own", async || at_work(&client).await == (2, 2)) => {}
    }
    for (drive, left) in [(first, 1), (second, 0)] {
        drive.end_sessions().await.unwrap();
        until("its statement ends", async || at_work(&client).await.0 == left).await;
    }
}
