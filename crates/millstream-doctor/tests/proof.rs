//! What a role without rights over others plans and reads: faults of statements and of documents.

use crate::checks::{evidence, keys, request, sql, subjects};
use crate::server_more::server;
use millstream_doctor::{Request, examine};
use millstream_model::Level;
use millstream_pg::{ConnInfo, Environment};
use millstream_testkit as testkit;

/// A server that counts statements.
pub(crate) async fn counting_server(build: &'static testkit::Build) -> testkit::Server {
    server(build, &["shared_preload_libraries = 'pg_stat_statements'"]).await
}

/// The same server for another role, as `NAME:PASSWORD`.
pub(crate) fn as_role(url: &str, role: &str) -> ConnInfo {
    let (_, place) = url.rsplit_once('@').unwrap();
    ConnInfo::parse(&format!("postgres://{role}@{place}"), &Environment::from_variables([])).unwrap()
}

#[tokio::test]
async fn statements_that_miss_an_index_are_proven_by_a_role_without_rights_over_others() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let proof = |role: &str| {
            let request = request(&url, &["missed-index"], "[threshold.missed-index]\nrows = 100\ncalls = 1");
            let planner = if role.is_empty() { request.db.clone() } else { as_role(&url, role) };
            Request { planner: Some(planner), ..request }
        };
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p'; create table modem (mac text, name text collate \"C.utf8\", doc jsonb);
             insert into modem select to_hex(n), n::text, '{}' from generate_series(1, 1000) as n; grant select on modem to shop;
             create unique index modem_mac on modem (lower(mac)); create index modem_name on modem (name); create index modem_doc on modem ((doc->>'a'));
             analyze modem; create table task (state text, n int);
             insert into task select 'done', n from generate_series(1, 1000) as n; create index on task (n) where state = 'open';
             analyze task; select from task where state = 'open' and n = 5; grant select on task to shop; select from modem where doc->>'a' = 'b';
             select from modem where name like 'b%'; select from modem where name < '05'; select from modem where lower(mac) = 'a1'",
        )
        .await;
        let unproven = examine(&proof("")).await.unwrap();
        assert!(unproven.skipped[0].why.contains("; --plan-as names another role"), "{unproven:?}");
        let nobody = examine(&proof("nobody_there")).await.unwrap();
        assert!(nobody.skipped[0].why.contains("statements that nobody_there may plan"), "{nobody:?}");
        for power in ["superuser", "createrole", "replication", "bypassrls"] {
            sql(&client, &format!("create role adm {power}; grant adm to shop")).await;
            let member = examine(&proof("shop:p")).await.unwrap();
            assert!(member.skipped[0].why.contains("; --plan-as names another role"), "{power}: {member:?}");
            sql(&client, "drop role adm").await;
        }
        let found = examine(&proof("shop:p")).await.unwrap();
        assert_eq!(subjects(&found), ["public.modem_name"], "the pattern needs another class of operators: {found:?}");
        let repair = found.findings[0].repair.as_ref().unwrap();
        assert_eq!(repair.commands, ["create index concurrently on public.modem (name text_pattern_ops)"]);
        assert_eq!(repair.change.as_ref().unwrap().target, "postgres/public.modem_name_text_pattern_ops_idx");

        // After a comment, and in brackets.
        sql(&client, "/* app */ (select mac from modem where mac = 'a1') union all select 'a'").await;
        let found = examine(&proof("shop:p")).await.unwrap();
        assert_eq!(subjects(&found), ["public.modem_mac", "public.modem_name"]);
        sql(&client, "select pg_stat_statements_reset(); select from modem where name like 'b%'").await;

        sql(&client, "select from modem where mac = 'a1'").await;
        let found = examine(&proof("shop:p")).await.unwrap();
        assert_eq!(subjects(&found), ["public.modem_mac", "public.modem_name"]);
        let finding = &found.findings[0];
        assert_eq!(finding.level, Level::Warning);
        assert_eq!(finding.sentence, "the query compares mac, the index holds lower(mac)");
        let repair = finding.repair.as_ref().unwrap();
        assert_eq!(repair.sentence, "write lower(mac) = lower($1) instead of mac = $1");
        let expected = [
            "update public.modem set mac = lower(mac) where mac <> lower(mac)",
            "alter table public.modem add check (mac = lower(mac))",
            "create unique index concurrently on public.modem (mac)",
            "-- or, if the statement cannot change, an index for its condition as it is:",
            "create index concurrently on public.modem (mac)",
        ];
        assert_eq!(repair.commands[2..], expected);
        for command in expected.iter().filter(|command| !command.starts_with("--")) {
            client.batch_execute(command).await.unwrap();
        }
        sql(&client, "drop index modem_mac_idx1; drop index modem_mac_idx").await;
        sql(&client, "alter table modem drop constraint modem_mac_check").await;
        assert!(finding.evidence.iter().any(|one| one.value == "select from modem where mac = $1"), "{finding:?}");
        sql(
            &client,
            "drop index modem_name; drop index modem_mac; create unique index on modem (mac);
             create index on modem (name text_pattern_ops); select pg_stat_statements_reset();
             select from modem where mac = 'a1'; select from modem where name like 'b%'",
        )
        .await;
        let repaired = examine(&proof("shop:p")).await.unwrap();
        assert_eq!(subjects(&repaired), [""; 0]);
        assert!(repaired.skipped[0].why.contains("permission denied for function"), "{repaired:?}");
    }
}

#[tokio::test]
async fn statements_that_take_most_time_are_named_and_a_slow_distinct_is_rewritten() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let top = "[threshold.top-statement]\npercent = 60\nseconds = 0";
        let unseen = examine(&request(&url, &["top-statement"], top)).await.unwrap();
        assert!(unseen.skipped[0].why.starts_with("which statements take the time"), "{unseen:?}");
        sql(&client, "create extension pg_stat_statements; select pg_stat_statements_reset(); select pg_sleep(2)")
            .await;
        let found = examine(&request(&url, &["top-statement"], top)).await.unwrap();
        assert_eq!(evidence(&found.findings[0], "statement"), Some("select pg_sleep($1)"));
        let calm = "[threshold.top-statement]\npercent = 60\nseconds = 60";
        assert_eq!(keys(&examine(&request(&url, &["top-statement"], calm)).await.unwrap()), [""; 0]);

        // The time of a nested statement is part of that of the outer one.
        sql(
            &client,
            "create function outer_one() returns void language sql set work_mem = '1MB' as 'select pg_sleep(2)';
             set pg_stat_statements.track = 'all'; select pg_stat_statements_reset(); select outer_one();
             set pg_stat_statements.track = 'top'",
        )
        .await;
        let nested = "[threshold.top-statement]\npercent = 60\nseconds = 0";
        assert_eq!(keys(&examine(&request(&url, &["top-statement"], nested)).await.unwrap()).len(), 2);

        let distinct = "[threshold.distinct-prefix]\nrows = 1000\nper_value = 100";
        let proof = Request { planner: Some(as_role(&url, "shop:p")), ..request(&url, &["distinct-prefix"], distinct) };
        sql(
            &client,
            "create role shop login password 'p'; create table reading (device text, at int, note text);
             insert into reading select 'd' || n % 5, n, n::text from generate_series(1, 4000) as n;
             insert into reading values (null, 1, null); create index on reading (device, at);
             create index on reading (note); grant select on reading to shop; analyze reading;
             select distinct at from reading; select distinct note from reading",
        )
        .await;
        assert_eq!(keys(&examine(&proof).await.unwrap()), [""; 0]);
        sql(&client, "select distinct device from reading").await;
        let found = examine(&proof).await.unwrap();
        assert_eq!(keys(&found), ["public.reading.device"]);
        let finding = &found.findings[0];
        assert_eq!(finding.evidence.last().unwrap().value, "the same values", "{finding:?}");
        let rewrite = &finding.repair.as_ref().unwrap().commands[0];
        assert_eq!(client.query(rewrite, &[]).await.unwrap().len(), 6);
        sql(&client, "drop index reading_device_at_idx").await;
        assert_eq!(keys(&examine(&proof).await.unwrap()), [""; 0]);
    }
}

/// The query that follows the primary key and looks for a kind.
const SORTED: &str = "select id from event where kind = 77 order by id limit 10";

#[tokio::test]
async fn a_query_that_follows_the_wrong_index_is_found_by_its_plan_and_its_blocks() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let suspect = |blocks: u32| {
            let settings = format!("[threshold.sort-index]\nrows = 1000\ncalls = 1\nblocks_per_row = {blocks}");
            request(&url, &["sort-index"], &settings)
        };
        let proof = |blocks: u32| Request { planner: Some(as_role(&url, "shop:p")), ..suspect(blocks) };
        // The rows of kind 77 are the last ones, and the planner believes that they are everywhere.
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p';
             create table event (id int primary key, kind int, note text) with (autovacuum_enabled = off);
             insert into event
             select n, case when n > 19800 then 77 else n % 50 end, repeat('x', 200) from generate_series(1, 20000) as n;
             create index event_kind on event (kind); grant select on event to shop; vacuum analyze event;
             set enable_sort = off; select pg_stat_statements_reset();
             select note from event where id = 5 and kind = 5 order by id limit 1; select id from event order by id limit 5;
             select id from event where note = 'x' order by id limit 1; select id from event where kind in (1, 2) limit 5",
        )
        .await;
        assert_eq!(subjects(&examine(&proof(0)).await.unwrap()), [""; 0], "their plans only look alike");
        sql(&client, "select pg_stat_statements_reset()").await;
        sql(&client, &SORTED.replace("77", "5")).await;
        assert_eq!(subjects(&examine(&proof(10)).await.unwrap()), [""; 0], "such rows are everywhere");
        assert_eq!(keys(&examine(&suspect(10)).await.unwrap()), [""; 0]);

        sql(&client, SORTED).await;
        let suspected = examine(&suspect(10)).await.unwrap();
        assert_eq!(keys(&suspected).len(), 1, "{suspected:?}");
        assert!(suspected.findings[0].sentence.starts_with("suspected: "), "{suspected:?}");
        let found = examine(&proof(10)).await.unwrap();
        assert_eq!(subjects(&found), ["public.event_pkey"], "{found:?}");
        let finding = &found.findings[0];
        assert!(finding.sentence.contains("kind = $1 row by row, although public.event_kind"), "{finding:?}");
        let statement = "select id from event where kind = $1 order by id limit $2";
        assert!(finding.evidence.iter().any(|one| one.value == statement), "{finding:?}");
        let commands = &finding.repair.as_ref().unwrap().commands;
        assert_eq!(commands[0], "create index concurrently on public.event (kind, id)");
        assert!(commands.last().unwrap().contains("write id + 0 in place of id in its order by"), "{commands:?}");

        sql(&client, &commands[0]).await;
        sql(&client, "vacuum analyze event").await;
        let repaired = examine(&proof(10)).await.unwrap();
        assert_eq!(subjects(&repaired), [""; 0], "{repaired:?}");
    }
}

#[tokio::test]
async fn a_member_that_no_document_has_is_found_with_the_nearest_one() {
    for build in testkit::builds().await {
        let server = testkit::Server::start(build, testkit::Settings::default()).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let blind = || request(&url, &["json-member-missing"], "");
        let proof = || Request { planner: Some(as_role(&url, "shop:p")), ..blind() };
        sql(
            &client,
            "create role shop login password 'p'; create table device (id int primary key, doc jsonb, old json);
             insert into device
             select n, jsonb_build_object('mac', n, 'offer', jsonb_build_object('price', n), 'rare' || n % 40, 1), '{}'
             from generate_series(1, 600) as n",
        )
        .await;
        assert_eq!(keys(&examine(&proof()).await.unwrap()), [""; 0]);
        sql(
            &client,
            "create table few (doc jsonb); insert into few values ('{}'); create index on few ((doc ->> 'nothing'));
             create table parted (doc jsonb, day int) partition by range (day);
             create view of_none as select doc ->> 'a' as a from parted;
             grant select on device, few, parted to shop; create index on device (lower(doc ->> 'mac'));
             create index on device ((doc -> 'offer' ->> 'price'));
             create index on device ((doc ->> 'rare1')) where doc ? 'rare1';
             create index on device ((doc ->> 'absent')) where doc ->> 'rare2' = '1'; create index on device using gin (doc);
             create view seen as select d.id, d.doc #>> '{offer,price}' as price, e.doc ->> 'rare3' as rare
             from device as d join device as e using (id);
             create view renamed as select x.doc ->> 'price' as price from (select doc -> 'offer' as doc from device) as x;
             create view unnested as select i.doc ->> 'price' as price
             from device, lateral jsonb_array_elements(device.doc -> 'offers') as i(doc)",
        )
        .await;
        let calm = examine(&proof()).await.unwrap();
        assert_eq!(subjects(&calm), [""; 0], "all are there, or few documents show nothing");
        assert_eq!(calm.skipped[0].why, "views that give the name of a column to something else, too: 2");

        sql(
            &client,
            "create index device_mca on device ((doc ->> 'mca'), id);
             create view wrong as select id, (doc -> 'offer' ->> 'prise')::numeric as price from device",
        )
        .await;
        let unread = examine(&blind()).await.unwrap();
        assert!(unread.findings.is_empty() && unread.skipped[0].why.contains("; --prove reads"), "{unread:?}");
        let found = examine(&proof()).await.unwrap();
        assert_eq!(subjects(&found), ["public.device_mca.mca", "public.wrong.offer.prise"]);
        let [index, view] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!(index.sentence, "this index reads mca of doc, and none of 600 documents has that member");
        assert_eq!(view.sentence, "this view reads prise of doc.offer, and none of 600 documents has that member");
        for (finding, near) in [(index, "mac"), (view, "price")] {
            assert_eq!(finding.level, Level::Info);
            assert!(finding.evidence.iter().any(|one| one.value == near), "{finding:?}");
        }
        let commands = &index.repair.as_ref().unwrap().commands;
        assert_eq!(commands, &["drop index concurrently public.device_mca"]);
        sql(&client, &commands[0]).await;
        sql(&client, "drop view wrong").await;
        assert_eq!(subjects(&examine(&proof()).await.unwrap()), [""; 0]);
        // The last query of a session counts as long as that session sends no other.
        let program = testkit::connect(&url).await;
        program
            .simple_query("/* app */ select id from device where doc ->> 'mca' = '7' or doc #>> '{offer,price}' = '7'")
            .await
            .unwrap();
        let asked = examine(&proof()).await.unwrap();
        assert_eq!(subjects(&asked), ["public.device.doc.mca"], "{asked:?}");
        assert_eq!(asked.findings[0].sentence, "a query reads mca of doc, and none of 600 documents has that member");
        program.simple_query("select id from device where doc ->> 'mac' = '7'").await.unwrap();
        assert_eq!(subjects(&examine(&proof()).await.unwrap()), [""; 0]);
        sql(&client, "revoke select on device from shop").await;
        let refused = examine(&proof()).await.unwrap();
        assert!(refused.skipped[0].why.contains("permission denied for table device"), "{refused:?}");
    }
}
