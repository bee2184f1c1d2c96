//! A report over several databases, of which some cannot be opened.

use crate::checks::{request, sql};
use millstream_doctor::{Report, Request, examine};
use millstream_pg::{ConnInfo, Environment};
use millstream_testkit as testkit;
use tokio_postgres::Client;

/// A fault in a database.
const FAULT: &str = "create table t (a int); create index one on t (a); create index two on t (a)";

async fn make(server: &testkit::Server, client: &Client, name: &str) {
    sql(client, &format!("create database \"{name}\"")).await;
    // A URL would need another spelling of some of these names.
    let mut place = ConnInfo::parse(&server.url("postgres"), &Environment::from_variables([])).unwrap();
    name.clone_into(&mut place.dbname);
    let session = millstream_pg::connect(&place, &millstream_pg::SessionSettings::doctor()).await.unwrap();
    session.client.batch_execute(FAULT).await.unwrap();
}

fn keys(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.key.as_str()).collect()
}

#[tokio::test]
async fn each_database_has_its_findings_and_one_that_is_closed_stops_nothing() {
    for build in testkit::builds().await {
        let server = testkit::Server::start(build, testkit::Settings::default()).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        for name in ["closed", "open", "own:shop", "private"] {
            make(&server, &client, name).await;
        }
        sql(
            &client,
            "alter database closed allow_connections false; revoke connect on database private from public;
             create role nobody login password 'p'; grant pg_monitor to nobody",
        )
        .await;
        let everywhere = |url: &str| Request { one_database: false, ..request(url, &["duplicate-index"], "") };
        let all = examine(&everywhere(&url)).await.unwrap();
        assert_eq!(all.databases, ["open", "own:shop", "postgres", "private"]);
        assert_eq!((all.skipped.as_slice(), all.findings.len()), (&[][..], 3), "{all:?}");
        assert_eq!(all.findings[1].database.as_deref(), Some("own:shop"));
        assert_eq!(keys(&all)[1], "duplicate-index:own:shop:public.two");

        let (_, place) = url.rsplit_once('@').unwrap();
        let some = examine(&everywhere(&format!("postgres://nobody:p@{place}"))).await.unwrap();
        assert_eq!(some.databases, ["open", "own:shop", "postgres"]);
        let [skip] = some.skipped.as_slice() else { panic!("{some:?}") };
        assert_eq!(skip.database.as_deref(), Some("private"));
        assert!(skip.why.contains("grant connect on database \"private\" to it"), "{skip:?}");
        assert!(some.passed.is_empty(), "it has not looked everywhere");

        // A key names its database.
        let key = keys(&all)[1].to_owned();
        let one = examine(&Request { key: Some(key.clone()), ..everywhere(&url) }).await.unwrap();
        assert_eq!((one.databases.as_slice(), keys(&one).as_slice()), (&["own:shop".to_owned()][..], &[&*key][..]));
    }
}
