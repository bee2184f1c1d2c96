//! Planted faults: a healthy database is silent, what only looks like a fault too; a fault is found, and silent again
//! when it is repaired.

use crate::counters::LONG;
use crate::machine::{QUIET, machine};
use crate::server_more::server;
use millstream_change::{Sysctl, SysfsAttribute};
use millstream_doctor::{IndexKind, Report, Request, RoleSettingKind, SettingKind, Settings, TableOptionKind, examine};
use millstream_model::{Finding, Level};
use millstream_pg::{ConnInfo, Environment};
use millstream_testkit::{self as testkit, TestDatabase};
use std::time::Duration;
use tokio_postgres::Client;

/// A fault in a database: SQL that makes what only looks like it, the fault, and the repair.
pub(crate) struct Fault {
    pub(crate) check: &'static str,
    /// `doctor.toml`, so that small faults are seen.
    pub(crate) settings: &'static str,
    pub(crate) alike: &'static str,
    pub(crate) fault: &'static str,
    /// The subject of the finding.
    pub(crate) subject: &'static str,
    level: Level,
    repair: &'static str,
}

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        check: "dead-tuples",
        settings: "[threshold.dead-tuples]\ntable_mb = 0.1",
        alike: "create table calm (n int) with (autovacuum_vacuum_threshold = 100000, autovacuum_enabled = off);
            insert into calm select generate_series(1, 5000); update calm set n = n + 1",
        fault: "create table busy (n int) with (autovacuum_enabled = off);
            insert into busy select generate_series(1, 5000); update busy set n = n + 1",
        subject: "public.busy",
        level: Level::Warning,
        repair: "vacuum busy",
    },
    Fault {
        check: "duplicate-index",
        settings: "",
        alike: "create table t (a int primary key, b text); create index on t (b); create index on t (b desc);
            create index on t (b) where a > 5; create index on t (b text_pattern_ops); create index on t (b) include (a);
            create index on t (b) with (fillfactor = 70); create index short on t using brin (b text_bloom_ops);
            create index long on t using brin (b text_bloom_ops (n_distinct_per_range = 77));
            create unique index \"UNIQUE INDEX ON \" on t (a, b); create unique index t_nulls on t (a, b) nulls not distinct",
        fault: "create index twin on t (b)",
        subject: "public.twin",
        level: Level::Warning,
        repair: "drop index twin",
    },
    Fault {
        check: "invalid-index",
        settings: "",
        alike: "create table v (a int); create unique index v_good on v (a)",
        fault: "create table w (a int); insert into w values (1), (2); create index w_bad on w (a);
            update pg_index set indisvalid = false where indexrelid = 'w_bad'::regclass",
        subject: "public.w_bad",
        level: Level::Warning,
        repair: "reindex index w_bad",
    },
    Fault {
        check: "unused-index",
        settings: "[threshold.unused-index]\nindex_mb = 0\ndays = 0",
        alike: "create table u (a int primary key, b int unique, c text); create index on u (lower(c));
            create table v (n int, a int references u); create index on v (a, n);
            create table sorted (a int); create index by_a on sorted (a); alter table sorted cluster on by_a",
        fault: "create index idle on u (c)",
        subject: "public.idle",
        level: Level::Info,
        repair: "set enable_seqscan = off; select from u where c = 'a'; set enable_seqscan = on",
    },
    Fault {
        check: "few-statistics",
        settings: "[threshold.few-statistics]\nrows = 100",
        alike: "create table rich (a int); insert into rich select generate_series(1, 1000);
            alter table rich alter column a set statistics 200; analyze rich; create table small (a int);
            alter table small alter column a set statistics 0; analyze small",
        fault: "create table poor (a int); insert into poor select generate_series(1, 1000);
            alter table poor alter column a set statistics 10; analyze poor",
        subject: "public.poor.a",
        level: Level::Info,
        repair: "alter table poor alter column a set statistics -1; analyze poor",
    },
    Fault {
        check: "foreign-key-without-index",
        settings: "[threshold.foreign-key-without-index]\nrows = 100",
        alike: "create table customer (id int primary key, n int default 0);
            insert into customer select generate_series(1, 1000);
            create table bill (a int, customer int references customer);
            insert into bill select n, n from generate_series(1, 1000) as n; create index on bill (customer, a); analyze bill;
            update customer set n = 1 where id = 7",
        fault: "create table visit (a int, customer int references customer);
            insert into visit select n, n from generate_series(1, 1000) as n; create index on visit (a, customer);
            analyze visit",
        subject: "public.visit.visit_customer_fkey",
        level: Level::Info,
        repair: "create index on visit (customer)",
    },
    Fault {
        check: "hot-row",
        settings: "[threshold.hot-row]\nrows = 10\nupdates = 6\nper_row = 6\nper_second = 0",
        alike: "create table wide (n int); insert into wide select generate_series(1, 20); update wide set n = n + 1",
        fault: "create table counter (n int); insert into counter values (0); update counter set n = n + 1;
            update counter set n = n + 1; update counter set n = n + 1; update counter set n = n + 1;
            update counter set n = n + 1; update counter set n = n + 1",
        subject: "public.counter",
        level: Level::Info,
        repair: "drop table counter",
    },
    Fault {
        check: "no-room-for-update",
        settings: "[threshold.no-room-for-update]\nupdates = 10\nrows = 10",
        alike: "create table roomy (id int primary key, n int) with (fillfactor = 40);
            insert into roomy select n, 0 from generate_series(1, 1000) as n; update roomy set n = 1",
        fault: "create table full_pages (id int primary key, n int);
            insert into full_pages select n, 0 from generate_series(1, 1000) as n; update full_pages set n = 1",
        subject: "public.full_pages",
        level: Level::Info,
        repair: "alter table full_pages set (fillfactor = 90)",
    },
    Fault {
        check: "unlogged-table",
        settings: "[threshold.unlogged-table]\ntable_mb = 0",
        alike: "create unlogged table nothing (a int); create table logged (a int); insert into logged values (1);
            analyze logged",
        fault: "create unlogged table fleeting (a int); insert into fleeting values (1); analyze fleeting",
        subject: "public.fleeting",
        level: Level::Info,
        repair: "alter table fleeting set logged",
    },
    Fault {
        check: "table-bloat",
        settings: "[threshold.table-bloat]\ntable_mb = 0.5\nfree_mb = 0.5",
        alike: "create table roomy (n int, t text) with (fillfactor = 50);
            insert into roomy select n, repeat('x', 80) from generate_series(1, 20000) as n; vacuum analyze roomy",
        fault: "create table hollow (n int, t text);
            insert into hollow select n, repeat('x', 80) from generate_series(1, 20000) as n;
            delete from hollow where n % 10 <> 0; vacuum analyze hollow",
        subject: "public.hollow",
        level: Level::Info,
        repair: "vacuum (full, analyze) hollow",
    },
    Fault {
        check: "index-bloat",
        settings: "[threshold.index-bloat]\nindex_mb = 0.2",
        alike: "create table dense (n int primary key, t text);
            insert into dense select n, repeat('x', 80) || n from generate_series(1, 20000) as n;
            create index on dense (t); create index on dense (lower(t)); vacuum analyze dense",
        fault: "create table sparse (n int primary key);
            insert into sparse select generate_series(1, 50000); delete from sparse where n % 10 <> 0;
            vacuum analyze sparse",
        subject: "public.sparse_pkey",
        level: Level::Info,
        repair: "reindex index concurrently sparse_pkey; vacuum analyze sparse",
    },
    Fault {
        check: "missed-index",
        settings: "[threshold.missed-index]\nrows = 100\nreads = 3",
        alike: "create table modem (mac text); insert into modem select to_hex(n) from generate_series(1, 1000) as n;
            create unique index on modem (lower(mac)); analyze modem; set enable_seqscan = off;
            select from modem where lower(mac) = 'a1'; set enable_seqscan = on;
            select from modem where mac = 'a1'; select from modem where mac = 'a2'; select from modem where mac = 'a3'",
        fault: "create table router (mac text); insert into router select to_hex(n) from generate_series(1, 1000) as n;
            create unique index on router (lower(mac)); analyze router;
            select from router where mac = 'a1'; select from router where mac = 'a2'; select from router where mac = 'a3'",
        subject: "public.router_lower_idx",
        level: Level::Info,
        repair: "set enable_seqscan = off; select from router where lower(mac) = 'a1'; set enable_seqscan = on",
    },
    Fault {
        check: "temporary-files",
        settings: "[threshold.temporary-files]\nfiles_per_hour = 1e-9\ngb_per_hour = 1e-12\nhours = 0",
        alike: "set work_mem = '64MB';
            select count(*) from (select n from generate_series(1, 200000) as n order by n desc offset 1) as sorted",
        fault: "set work_mem = '64kB';
            select count(*) from (select n from generate_series(1, 200000) as n order by n desc offset 1) as sorted;
            set work_mem = '64MB'",
        subject: "",
        level: Level::Warning,
        repair: "select pg_stat_reset()",
    },
    Fault {
        check: "sequence-end",
        settings: "",
        alike: "create table big (id bigserial); select setval('big_id_seq', 2000000000);
            create sequence round maxvalue 100 cycle; select setval('round', 99);
            create sequence high minvalue 1000000 maxvalue 1000100; select setval('high', 1000010);
            create sequence falling increment -1 minvalue 1 maxvalue 100; select setval('falling', 90);
            create sequence endless; select setval('endless', 9000000000000000000)",
        fault: "create table small (id serial); select setval('small_id_seq', 2000000000)",
        subject: "public.small_id_seq",
        level: Level::Critical,
        repair: "alter sequence small_id_seq as bigint; alter table small alter column id type bigint",
    },
    Fault {
        check: "sequence-end",
        settings: "",
        alike: "create sequence early increment -1 minvalue 0 maxvalue 100; select setval('early', 60)",
        fault: "create sequence late increment -1 minvalue 0 maxvalue 100; select setval('late', 20)",
        subject: "public.late",
        level: Level::Warning,
        repair: "alter sequence late minvalue -1000",
    },
    Fault {
        check: "constraint-not-validated",
        settings: "",
        alike: "create table sound (a int check (a > 0)); create table parent (id int primary key);
            create table child (id int references parent)",
        fault: "alter table child add constraint later check (id > 0) not valid",
        subject: "public.child.later",
        level: Level::Info,
        repair: "alter table child validate constraint later",
    },
    Fault {
        check: "constraint-not-validated",
        settings: "",
        alike: "create domain sound as int check (value > 0); create domain odd as int",
        fault: "alter domain odd add constraint later check (value % 2 = 1) not valid",
        subject: "public.odd.later",
        level: Level::Info,
        repair: "alter domain public.odd validate constraint later",
    },
    Fault {
        check: "trigger-disabled",
        settings: "",
        alike: "create table watched (a int); create table copied (a int);
            create trigger t before update on watched execute function suppress_redundant_updates_trigger();
            create trigger r before update on copied execute function suppress_redundant_updates_trigger();
            alter table copied enable replica trigger r",
        fault: "alter table watched disable trigger t",
        subject: "public.watched.t",
        level: Level::Warning,
        repair: "alter table watched enable trigger t",
    },
    Fault {
        check: "trigger-disabled",
        settings: "",
        alike: "create table customer (id int primary key); create table bill (customer int references customer)",
        fault: "alter table bill disable trigger all",
        subject: "public.bill.bill_customer_fkey",
        level: Level::Critical,
        repair: "alter table bill enable trigger all",
    },
    Fault {
        check: "table-without-key",
        settings: "[threshold.table-without-key]\nrows = 100",
        alike: "create table keyed (a int unique); insert into keyed select generate_series(1, 1000); analyze keyed;
            create table few (a int); insert into few values (1); analyze few;
            create table whole (a int primary key) partition by range (a);
            create table part partition of whole for values from (0) to (10000);
            insert into whole select generate_series(1, 1000); analyze whole;
            create table booked (hours int4range, exclude using gist (hours with &&));
            insert into booked select int4range(n, n + 1) from generate_series(1, 1000) as n; analyze booked",
        fault: "create table heap (a int); insert into heap select generate_series(1, 1000); analyze heap",
        subject: "public.heap",
        level: Level::Info,
        repair: "alter table heap add primary key (a)",
    },
    Fault {
        check: "narrow-key",
        settings: "",
        alike: "create table small (id int primary key); insert into small select generate_series(1, 1000); analyze small;
            create table large (id bigint primary key); insert into large select 3000000000 + generate_series(1, 1000);
            analyze large; create table counted (id int generated always as identity primary key);
            insert into counted overriding system value select 2000000000 + generate_series(1, 1000); analyze counted;
            create table plain (a int); insert into plain select 2000000000 + generate_series(1, 1000); analyze plain",
        fault: "create table near (id int primary key); insert into near select 2000000000 + generate_series(1, 1000);
            create table child (near int references near); insert into child select id from near;
            analyze near; analyze child",
        subject: "public.near.id",
        level: Level::Critical,
        repair: "alter table child drop constraint child_near_fkey; alter table near alter id type bigint; analyze near",
    },
    Fault {
        check: "narrow-key",
        settings: "",
        alike: "create table wide (id bigint primary key); insert into wide select 2000000000 + generate_series(1, 1000);
            create table calm (wide bigint references wide); insert into calm select id from wide; analyze wide; analyze calm",
        fault: "create table late (wide int references wide); insert into late select id from wide; analyze late",
        subject: "public.late.wide",
        level: Level::Critical,
        repair: "alter table late alter wide type bigint; analyze late",
    },
    Fault {
        check: "prefix-index",
        settings: "[threshold.prefix-index]\nindex_mb = 0",
        alike: "create table p (a int, b int, c text); create index on p (b, a); create index on p (a desc, b);
            create unique index on p (a); create index on p (c, a); create index on p (c text_pattern_ops);
            create index on p (a) where b > 0; create index on p (b) include (c); create index on p (lower(c))",
        fault: "create index beginning on p (b)",
        subject: "public.beginning",
        level: Level::Info,
        repair: "drop index beginning",
    },
];

pub(crate) fn request(url: &str, checks: &[&str], settings: &str) -> Request {
    Request {
        db: ConnInfo::parse(url, &Environment::from_variables([])).unwrap(),
        checks: checks.iter().map(|check| (*check).to_owned()).collect(),
        one_database: true,
        key: None,
        budget: Duration::from_secs(60),
        settings: Settings::parse(settings).unwrap(),
        today: "2027-01-31".to_owned(),
        planner: None,
        looks_apart: None,
        earlier: None,
        kinds: &[&Sysctl, &SysfsAttribute, &SettingKind, &IndexKind, &TableOptionKind, &RoleSettingKind],
        root: None,
    }
}

pub(crate) async fn report(database: &TestDatabase, check: &str, settings: &str) -> Report {
    examine(&request(&database.url(), &[check], settings)).await.unwrap()
}

/// What the findings are about.
pub(crate) fn keys(report: &Report) -> Vec<String> {
    let blind = report.skipped.iter().find(|skip| !skip.why.starts_with("all but the"));
    assert_eq!(blind, None);
    subjects(report)
}

/// The same, whatever could not be looked at.
pub(crate) fn subjects(report: &Report) -> Vec<String> {
    report.findings.iter().map(|finding| finding.subject.clone()).collect()
}

/// The evidence of that name.
pub(crate) fn evidence<'a>(finding: &'a Finding, name: &str) -> Option<&'a str> {
    finding.evidence.iter().find(|one| one.name == name).map(|one| one.value.as_str())
}

pub(crate) async fn sql(client: &Client, text: &str) {
    // Vacuum refuses to be one of several statements that are sent together.
    for statement in text.split(';') {
        client.batch_execute(statement).await.unwrap();
    }
    // The statistics of this session become visible to others.
    client.batch_execute("select pg_stat_force_next_flush()").await.unwrap();
    client.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn planted_faults_are_found_and_silent_when_repaired() {
    for build in testkit::builds().await {
        for fault in FAULTS {
            let Fault { check, settings, .. } = fault;
            let database = testkit::database_on(build).await;
            let client = database.client().await;
            assert_eq!(keys(&report(&database, check, settings).await), [""; 0], "{check}: healthy");
            sql(&client, fault.alike).await;
            assert_eq!(keys(&report(&database, check, settings).await), [""; 0], "{check}: looks alike");
            sql(&client, fault.fault).await;
            let found = report(&database, check, settings).await;
            assert_eq!(keys(&found), [fault.subject], "{check}: fault");
            let finding: &Finding = &found.findings[0];
            assert_eq!(finding.level, fault.level, "{finding:?}");
            assert!(!finding.evidence.is_empty() && finding.repair.is_some(), "{finding:?}");
            assert_eq!(finding.database.as_deref(), Some(found.databases[0].as_str()));
            sql(&client, fault.repair).await;
            assert_eq!(keys(&report(&database, check, settings).await), [""; 0], "{check}: repaired");
        }
    }
}

#[tokio::test]
async fn a_long_transaction_is_found_while_it_is_open() {
    testkit::every_build(async |database| {
        let (mut idle, settings) = (database.client().await, "[threshold.long-transaction]\nidle_seconds = 0");
        let name: String = idle.query_one("select current_database()::text", &[]).await.unwrap().get(0);
        let ours = |report: &Report| report.findings.iter().find(|one| one.subject.ends_with(&name)).cloned();
        let open = idle.transaction().await.unwrap();
        open.query("select 1", &[]).await.unwrap();
        let found = ours(&report(&database, "long-transaction", settings).await).unwrap();
        assert!(found.sentence.starts_with("a transaction has been idle for"), "{found:?}");
        assert_eq!(ours(&report(&database, "long-transaction", "").await), None);
        open.rollback().await.unwrap();
        assert_eq!(ours(&report(&database, "long-transaction", settings).await), None);
    })
    .await;
}

#[tokio::test]
async fn who_blocks_others_is_named_while_they_wait() {
    testkit::every_build(async |database| {
        let (mut holder, waiter) = (database.client().await, database.client().await);
        let settings = "[threshold.blocked-session]\nseconds = 0";
        let name: String = holder.query_one("select current_database()::text", &[]).await.unwrap().get(0);
        let ours = |report: &Report| report.findings.iter().find(|one| one.subject.ends_with(&name)).cloned();
        holder.batch_execute("create table t (a int)").await.unwrap();
        let open = holder.transaction().await.unwrap();
        open.batch_execute("lock table t").await.unwrap();
        open.query("select pg_sleep(0), 'secret'", &[]).await.unwrap();
        assert_eq!(ours(&report(&database, "blocked-session", settings).await), None);
        let waiting = tokio::spawn(async move { waiter.query("select from t", &[]).await });
        let look = async || ours(&report(&database, "blocked-session", settings).await);
        let found = testkit::until_some("the session that blocks another one is found", look).await;
        assert!(found.sentence.starts_with("a session has waited"), "{found:?}");
        let statement = found.evidence.iter().find(|one| one.name.starts_with("its statement")).unwrap();
        assert_eq!(statement.value, "select pg_sleep", "without its values");
        open.rollback().await.unwrap();
        waiting.await.unwrap().unwrap();
        assert_eq!(ours(&report(&database, "blocked-session", settings).await), None);
    })
    .await;
}

#[tokio::test]
async fn a_session_for_each_transaction_is_found() {
    testkit::every_build(async |database| {
        let (url, settings) = (database.url(), "[threshold.connection-churn]\npercent = 50\nper_second = 0\nhours = 0");
        let client = database.client().await;
        let work = async || {
            for _ in 0..200 {
                client.query("select 1", &[]).await.unwrap();
            }
            sql(&client, "select 1").await;
        };
        work().await;
        seen(&url, "connection-churn", settings, <[String]>::is_empty).await;
        sql(&client, "select pg_stat_reset()").await;
        for _ in 0..100 {
            drop(database.client().await);
        }
        seen(&url, "connection-churn", settings, |keys| keys == [""]).await;
        work().await;
        seen(&url, "connection-churn", settings, <[String]>::is_empty).await;
    })
    .await;
}

#[tokio::test]
async fn a_collation_that_the_library_has_changed_is_found_and_its_repair_works() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        let has = "select exists (select from pg_collation where collprovider = 'i' and collversion is not null)";
        // Builds of PostgreSQL without ICU have no collation with a version here.
        if !client.query_one(has, &[]).await.unwrap().get::<_, bool>(0) {
            return;
        }
        sql(&client, "create collation sorted (provider = icu, locale = 'de')").await;
        sql(&client, "create table t (a text collate sorted); create index on t (a)").await;
        assert_eq!(keys(&report(&database, "collation-version", "").await), [""; 0]);
        // Nothing is sorted by this one.
        sql(&client, "create collation unused (provider = icu, locale = 'fr')").await;
        sql(&client, "update pg_collation set collversion = '0' where collname = 'unused'").await;
        assert_eq!(keys(&report(&database, "collation-version", "").await), [""; 0]);
        sql(&client, "update pg_collation set collversion = '0' where collname = 'sorted'").await;
        let found = report(&database, "collation-version", "").await;
        assert_eq!(keys(&found), ["collation public.sorted"]);
        let repair = found.findings[0].repair.as_ref().unwrap();
        sql(&client, repair.commands.last().unwrap()).await;
        assert_eq!(keys(&report(&database, "collation-version", "").await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn who_holds_dead_rows_is_named_also_if_vacuum_has_just_come() {
    testkit::every_build(async |database| {
        let (client, mut holder) = (database.client().await, database.client().await);
        let settings = |seconds: u32| {
            format!("[threshold.dead-tuples]\ntable_mb = 0\nholder_seconds = {seconds}\nholder_transactions = 1e9")
        };
        sql(&client, "create table held (n int); insert into held select generate_series(1, 5000)").await;
        let open = holder.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
        let open = open.start().await.unwrap();
        open.query("select 1", &[]).await.unwrap();
        sql(&client, "update held set n = n + 1").await;
        sql(&client, "vacuum held").await;
        let found = report(&database, "dead-tuples", &settings(0)).await;
        assert_eq!(keys(&found), ["public.held"]);
        assert!(found.findings[0].sentence.contains("idle in transaction) has held them for"), "{found:?}");
        assert_eq!(keys(&report(&database, "dead-tuples", &settings(300)).await), [""; 0], "vacuum has just come");
        open.rollback().await.unwrap();
        sql(&client, "vacuum held").await;
        assert_eq!(keys(&report(&database, "dead-tuples", &settings(0)).await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn space_is_measured_where_the_extension_is_there() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(&client, "create schema extra; create extension pgstattuple schema extra").await;
        // Statistics that say nothing: only the measurement knows.
        sql(
            &client,
            "create table hollow (n int primary key, t text) with (autovacuum_enabled = off);
             insert into hollow select n, repeat('x', 80) from generate_series(1, 20000) as n;
             delete from hollow where n % 10 <> 0; vacuum hollow",
        )
        .await;
        let settings =
            "[threshold.table-bloat]\ntable_mb = 0.5\nfree_mb = 0.5\n[threshold.index-bloat]\nindex_mb = 0.2";
        let role = format!("nobody{:08x}", fastrand::u32(..));
        sql(&client, &format!("create role {role} login password 'p'; drop extension pgstattuple")).await;
        let url = database.url();
        let (_, place) = url.rsplit_once('@').unwrap();
        let both = ["table-bloat", "index-bloat"];
        let blind = examine(&request(&format!("postgres://{role}:p@{place}"), &both, settings)).await.unwrap();
        let whys: Vec<&str> = blind.skipped.iter().map(|skip| skip.why.split(';').next().unwrap()).collect();
        assert_eq!(whys, ["large indexes: 1", "large tables: 1"], "{blind:?}");
        sql(&client, &format!("drop role {role}; create extension pgstattuple schema extra")).await;
        let found = report(&database, "table-bloat", settings).await;
        assert_eq!(keys(&found), ["public.hollow"]);
        let finding = &found.findings[0];
        assert_eq!(finding.level, Level::Warning, "{finding:?}");
        assert!(finding.evidence.iter().any(|one| one.source == "pgstattuple_approx"), "{finding:?}");
        let found = report(&database, "index-bloat", settings).await;
        assert_eq!(keys(&found), ["public.hollow_pkey"]);
        let finding = &found.findings[0];
        assert!(finding.evidence.iter().any(|one| one.source == "pgstatindex"), "{finding:?}");
        let shrink = "vacuum (full) hollow";
        assert!(found_command(&report(&database, "table-bloat", settings).await, "vacuum (full, analyze)"));
        sql(&client, shrink).await;
        assert_eq!(keys(&report(&database, "table-bloat", settings).await), [""; 0]);
        assert_eq!(keys(&report(&database, "index-bloat", settings).await), [""; 0]);
    })
    .await;
}

fn found_command(report: &Report, part: &str) -> bool {
    let repair = report.findings[0].repair.as_ref().unwrap();
    repair.commands.iter().any(|command| command.contains(part))
}

#[tokio::test]
async fn a_silenced_finding_is_only_counted_until_its_day() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(&client, "create table t (a int); create index one on t (a); create index two on t (a)").await;
        let silence =
            |until: &str| format!("[[silence]]\nkey = 'duplicate-index:*'\nuntil = '{until}'\nreason = 'planned'\n");
        let found = report(&database, "duplicate-index", &silence("2027-02-01")).await;
        assert_eq!((found.findings.len(), found.silenced.len()), (0, 1));
        let found = report(&database, "duplicate-index", &silence("2027-01-31")).await;
        assert_eq!((found.findings.len(), found.silenced.len()), (1, 0));
    })
    .await;
}

#[test]
fn a_wrong_configuration_says_what_is_wrong() {
    let silence = |key: &str, until: &str| format!("\n[[silence]]\nkey = '{key}'\nuntil = {until}\nreason = ''");
    let day = |until: &str| silence("dead-tuples:shop", until);
    for (text, line, why) in [
        ("\n[threshold.nothing]\na = 1".to_owned(), "line 2", "there is no check nothing"),
        ("[threshold.dead-tuple]".to_owned(), "line 1", "there is no check dead-tuple; did you mean dead-tuples?"),
        ("[threshold.dead-tuples]\na = 1".to_owned(), "line 2", "the check dead-tuples has no threshold a"),
        ("[threshold.dead-tuples]\ntable_gb = 1".to_owned(), "line 2", "no threshold table_gb; did you mean table_mb?"),
        (day("'soon'"), "line 4", "until = \"soon\" is not a day; write it as 2027-01-31"),
        (day("'31-01-2027'"), "line 4", "until = \"31-01-2027\" is not a day"),
        (day("'2027-02-30'"), "line 4", "until = \"2027-02-30\" is not a day"),
        (day("'2027-1-31'"), "line 4", "until = \"2027-1-31\" is not a day"),
        (day("'2027-01-31T00:00:00'"), "line 4", "is not a day"),
        (day("'00:00:00'"), "line 4", "is not a day"),
        (day("''"), "line 4", "is not a day"),
        (day("20270131"), "line 4", "expected a string"),
        (
            silence("dead-tuple:shop:public.t", "'2027-01-31'"),
            "line 3",
            "no check dead-tuple; did you mean dead-tuples?",
        ),
        (silence("weather:*", "'2027-01-31'"), "line 3", "there is no check weather"),
        (silence("weath*", "'2027-01-31'"), "line 3", "there is no check weath*"),
        (silence("", "'2027-01-31'"), "line 3", "there is no check"),
        ("silense = 1".to_owned(), "line 1", "silense"),
    ] {
        let error = Settings::parse(&text).unwrap_err();
        assert!(error.contains(why) && error.contains(line), "{text}: {error}");
    }
    for key in ["dead-tuples", "dead-tuples:*", "dead-*", "*", "duplicate-index:shop:public.\"a:b\""] {
        assert!(Settings::parse(&silence(key, "'2028-02-29'")).is_ok(), "{key}");
    }
}

/// Writes 20 MB of WAL: with a `max_wal_size` of 32 MB enough for a checkpoint.
pub(crate) const WAL: &str = "select pg_logical_emit_message(false, 'wal', repeat('x', 20000000))";

/// Runs a check until it finds what is expected: settings and counters become visible a little later.
pub(crate) async fn seen(url: &str, check: &str, settings: &str, expected: impl Fn(&[String]) -> bool) -> Report {
    let request = request(url, &[check], settings);
    let mut found = examine(&request).await.unwrap();
    for _ in 0..600 {
        if expected(&keys(&found)) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = examine(&request).await.unwrap();
    }
    panic!("{check}: {found:?}");
}

#[tokio::test]
async fn rows_that_an_old_snapshot_keeps_from_being_frozen_are_found() {
    for build in testkit::builds().await {
        // The smallest ages that the server allows.
        let server = server(build, &["autovacuum_freeze_max_age = 100000", "autovacuum_naptime = 1s"]).await;
        let url = server.url("postgres");
        let (client, mut holder) = (testkit::connect(&url).await, testkit::connect(&url).await);
        let settings = "[threshold.wraparound]\nage_millions = 0\ncritical_millions = 0.1";
        seen(&url, "wraparound", settings, <[String]>::is_empty).await;
        let open = holder.transaction().await.unwrap();
        open.query("select pg_current_xact_id()", &[]).await.unwrap();
        client.batch_execute("create table burnt (n int)").await.unwrap();
        let burn = async |transactions: u32| {
            // Each turn of the loop is a transaction of its own within the outer one.
            let sql = format!(
                "do $$ begin for n in 1..{transactions} loop
                    begin insert into burnt values (n); exception when others then raise; end;
                end loop; end $$"
            );
            client.batch_execute(&sql).await.unwrap();
        };
        burn(60_000).await;
        // The check gives autovacuum a fifth more than its own limit.
        seen(&url, "wraparound", settings, <[String]>::is_empty).await;
        burn(70_000).await;
        let found = seen(&url, "wraparound", settings, |keys| !keys.is_empty()).await;
        assert_eq!(found.findings[0].level, Level::Critical, "{found:?}");
        open.rollback().await.unwrap();
        // Autovacuum freezes the tables of all databases by itself now.
        seen(&url, "wraparound", settings, <[String]>::is_empty).await;
    }
}

#[tokio::test]
async fn a_role_without_rights_gets_what_it_may_see_and_reasons_for_the_rest() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        let role = format!("nobody{:08x}", fastrand::u32(..));
        sql(&client, &format!("create role {role} login password 'p'")).await;
        let url = database.url();
        let (_, place) = url.rsplit_once('@').unwrap();
        sql(&client, "create sequence hidden").await;
        let machine = machine(QUIET);
        let request = request(&format!("postgres://{role}:p@{place}"), &[], LONG);
        let request = Request { root: Some(machine.path().to_owned()), ..request };
        let report = examine(&request).await.unwrap();
        let reasons = report.skipped.iter().map(|skip| (skip.check.as_str(), skip.why.split(';').next().unwrap()));
        // It depends on the table of releases.
        let reasons = reasons.filter(|(check, _)| *check != "minor-version-behind");
        // How long they have counted, differs.
        let is_young = |why: &str| why.contains(" of counters, has ");
        let reasons: Vec<(&str, &str)> = reasons.collect();
        let young: Vec<&str> = reasons.iter().filter(|(_, why)| is_young(why)).map(|(check, _)| *check).collect();
        let skipped: Vec<(&str, &str)> = reasons.into_iter().filter(|(_, why)| !is_young(why)).collect();
        assert_eq!(young, ["connection-churn", "rollback", "temporary-files", "unused-index"]);
        let disks = "the disks, because the data directory is hidden";
        let expected = [
            ("atime", disks),
            ("blocked-session", "sessions of other roles"),
            ("disk-full", disks),
            ("disk-read-ahead", disks),
            ("disk-scheduler", disks),
            ("long-transaction", "sessions of other roles"),
            ("not-recorded", "which libraries are loaded"),
            ("replica-behind", "replicas"),
            ("rotational-flag", disks),
            ("setting-not-in-effect", "the configuration files"),
            ("write-barrier-off", disks),
            ("dead-tuples", "sessions of other roles"),
            ("distinct-prefix", "which statements take the time"),
            ("sequence-end", "sequences that this role may not read: 1"),
            ("sort-index", "which statements take the time"),
            ("top-statement", "which statements take the time"),
            ("device-saturated", disks),
        ];
        assert_eq!(skipped, expected);
        assert!(report.passed.iter().all(|id| skipped.iter().all(|(check, _)| check != id)), "{report:?}");
        sql(&client, &format!("drop role {role}")).await;
    })
    .await;
}

#[tokio::test]
async fn an_examination_without_time_skips_and_says_so() {
    let database = testkit::database().await;
    let request = Request { budget: Duration::ZERO, ..request(&database.url(), &[], "") };
    let report = examine(&request).await.unwrap();
    assert!(report.passed.is_empty() && report.findings.is_empty(), "{report:?}");
    let skipped: std::collections::BTreeSet<&str> = report.skipped.iter().map(|skip| skip.check.as_str()).collect();
    assert_eq!(skipped.len(), millstream_doctor::CHECKS.len(), "{report:?}");
    assert!(report.skipped.iter().all(|skip| skip.why.contains("; --budget gives more")), "{report:?}");
}
