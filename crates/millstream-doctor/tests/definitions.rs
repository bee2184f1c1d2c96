//! Faults in definitions: of indexes, sequences and foreign keys, also of partitioned and temporary tables.

use crate::checks::{FAULTS, evidence, keys, report, sql, subjects};
use millstream_doctor::Report;
use millstream_model::Level;
use millstream_testkit as testkit;

fn commands(report: &Report) -> Vec<&str> {
    let repairs = report.findings.iter().flat_map(|finding| &finding.repair);
    repairs.flat_map(|repair| repair.commands.iter().map(String::as_str)).collect()
}

#[tokio::test]
async fn temporary_tables_of_other_sessions_are_not_judged() {
    testkit::every_build(async |database| {
        for fault in FAULTS {
            let planted = format!("{}; {}", fault.alike, fault.fault);
            let temporary = planted
                .replace("create table", "create temp table")
                .replace("create unlogged table", "create temp table")
                .replace("create sequence", "create temp sequence");
            if temporary == planted {
                continue;
            }
            let other = database.client().await;
            sql(&other, &temporary).await;
            assert_eq!(keys(&report(&database, fault.check, fault.settings).await), [""; 0], "{}", fault.check);
        }
    })
    .await;
}

#[tokio::test]
async fn indexes_with_other_parameters_of_an_operator_class_are_no_duplicates() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create extension pg_trgm; create table t (b text);
             create index short on t using gist (b gist_trgm_ops (siglen = 12));
             create index long on t using gist (b gist_trgm_ops (siglen = 256))",
        )
        .await;
        assert_eq!(keys(&report(&database, "duplicate-index", "").await), [""; 0]);
        sql(&client, "create index twin on t using gist (b gist_trgm_ops (siglen = 256))").await;
        assert_eq!(keys(&report(&database, "duplicate-index", "").await), ["public.twin"]);
    })
    .await;
}

#[tokio::test]
async fn a_duplicate_on_a_partitioned_table_is_found_once() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table log (day int, n int) partition by range (day);
             create table log_1 partition of log for values from (1) to (2);
             create table log_2 partition of log for values from (2) to (9) partition by range (day);
             create table log_2_1 partition of log_2 for values from (2) to (3);
             insert into log select 1 + n % 2, n from generate_series(1, 1000) as n;
             create index log_n on log (n); create index on only log (n desc); analyze log",
        )
        .await;
        assert_eq!(keys(&report(&database, "duplicate-index", "").await), [""; 0]);
        sql(&client, "create index log_twin on log (n)").await;
        let found = report(&database, "duplicate-index", "").await;
        assert_eq!(keys(&found), ["public.log_twin"]);
        assert_eq!(commands(&found), ["drop index public.log_twin"]);
        assert_eq!(found.findings[0].repair.as_ref().unwrap().change, None);
        assert_ne!(evidence(&found.findings[0], "size").unwrap(), "0 B", "that of the partitions");
        sql(&client, commands(&found)[0]).await;
        // What one partition has beside its part of the index.
        sql(&client, "create index own on log_1 (n)").await;
        let found = report(&database, "duplicate-index", "").await;
        assert_eq!(keys(&found), ["public.own"]);
        assert_eq!(commands(&found), ["drop index concurrently public.own"]);
        sql(&client, "drop index own").await;
        assert_eq!(keys(&report(&database, "duplicate-index", "").await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_sequence_that_a_default_uses_ends_with_its_narrowest_column() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create sequence wide; create table big (id bigint default nextval('wide'));
             create sequence remainder; create table part (id int default nextval('remainder') % 1000);
             create sequence code; create table coded (id text default 'A' || nextval('code'));
             select setval(name::regclass, 2147483647) from unnest('{wide, remainder, code}'::text[]) as name",
        )
        .await;
        assert_eq!(keys(&report(&database, "sequence-end", "").await), [""; 0]);
        sql(
            &client,
            "create domain number as int; create sequence \"It's\";
             create table own (id int default nextval('\"It''s\"'), day int) partition by range (day);
             create table own_1 partition of own for values from (0) to (9);
             create table also (id bigint default nextval('\"It''s\"'));
             create sequence cast_one; create table casts (id number default nextval('cast_one')::int);
             create sequence owned; create table narrow (id smallint default nextval('owned'));
             create table owner (id bigint default nextval('owned')); alter sequence owned owned by owner.id;
             select setval('\"It''s\"', 2147483647), setval('cast_one', 2147483647), setval('owned', 32767)",
        )
        .await;
        let found = report(&database, "sequence-end", "").await;
        assert_eq!(keys(&found), ["public.\"It's\"", "public.cast_one", "public.owned"]);
        assert!(found.findings.iter().all(|finding| finding.level == Level::Critical), "{found:?}");
        assert!(found.findings[0].sentence.contains("100 % of its numbers of public.own.id are used"), "{found:?}");
        assert_eq!(
            commands(&found),
            [
                "alter table public.own alter column id type bigint",
                "alter table public.casts alter column id type bigint",
                "alter table public.narrow alter column id type bigint",
            ]
        );
        for command in commands(&found) {
            sql(&client, command).await;
        }
        assert_eq!(keys(&report(&database, "sequence-end", "").await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_sequence_with_an_end_of_its_own_does_not_get_further_by_another_type() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table ordered (no int primary key); create sequence order_no maxvalue 1000 owned by ordered.no;
             alter table ordered alter no set default nextval('order_no'); create sequence short as int maxvalue 1000;
             create table small (no smallint); create sequence large as int maxvalue 50000 owned by small.no;
             select setval('order_no', 950), setval('short', 950), setval('large', 32000)",
        )
        .await;
        let found = report(&database, "sequence-end", "").await;
        assert_eq!(keys(&found), ["public.large", "public.order_no", "public.short"]);
        assert_eq!(commands(&found), ["alter table public.small alter column no type bigint"]);
        let larger = &found.findings[1].repair.as_ref().unwrap().sentence;
        assert!(larger.contains("let it have a larger end"), "{found:?}");
    })
    .await;
}

/// Thresholds for small tables.
const FEW_ROWS: &str = "[threshold.foreign-key-without-index]\nrows = 100";

#[tokio::test]
async fn a_partial_index_of_rows_with_a_value_serves_a_foreign_key() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table shop (id int, \"(n\" int, note text, unique (id, \"(n\"));
             insert into shop select n, n from generate_series(1, 1000) as n; delete from shop where id > 900;
             create table sale (shop int, \"(n\" int, foreign key (shop, \"(n\") references shop (id, \"(n\"));
             insert into sale select n % 9 + 1, n % 9 + 1 from generate_series(1, 500) as n; analyze sale;
             create index good on sale (shop, \"(n\") where \"(n\" is not null and shop is not null",
        )
        .await;
        let unused = "[threshold.unused-index]\nindex_mb = 0\ndays = 0";
        assert_eq!(keys(&report(&database, "foreign-key-without-index", FEW_ROWS).await), [""; 0]);
        assert_eq!(subjects(&report(&database, "unused-index", unused).await), [""; 0], "the key needs it");
        sql(&client, "create index half on sale (shop, \"(n\") where shop is not null; drop index good").await;
        assert_eq!(keys(&report(&database, "foreign-key-without-index", FEW_ROWS).await), [""; 0]);
        let other = "create index bad on sale (shop, \"(n\") where shop is not null and \"(n\" > 5; drop index half";
        sql(&client, other).await;
        let found = report(&database, "foreign-key-without-index", FEW_ROWS).await;
        assert_eq!(keys(&found).len(), 1, "{found:?}");
        assert_eq!(subjects(&report(&database, "unused-index", unused).await), ["public.bad"]);
    })
    .await;
}

#[tokio::test]
async fn an_index_that_finds_few_rows_for_a_part_of_a_foreign_key_is_enough() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table customer (tenant int, id int, primary key (tenant, id));
             insert into customer select n % 20, n from generate_series(1, 2000) as n;
             create table bill (id int primary key, tenant int, customer int, note text,
                 foreign key (tenant, customer) references customer);
             insert into bill select n, n % 20, n, n::text from generate_series(1, 1500) as n; analyze bill;
             delete from customer where id > 1900",
        )
        .await;
        let unused = "[threshold.unused-index]\nindex_mb = 0\ndays = 0";
        let all = "may read all of public.bill: no valid index that has all rows and finds single ones begins with a column of \
                   the key";
        for (clause, sentence, is_needed) in [
            ("(customer)", "", true),
            ("(customer, note)", "", true),
            ("using hash (customer)", "", true),
            ("(customer) include (note)", "", true),
            ("(customer desc) where customer is not null", "", true),
            ("(customer, tenant)", "", true),
            ("(tenant)", "may read 75 rows of public.bill, because public.i finds a part of the key only", true),
            ("(note, customer)", all, false),
            ("(note) include (tenant, customer)", all, false),
            ("(customer) where id > 5", all, false),
            ("using brin (note)", all, false),
            ("using brin (tenant, customer)", all, true),
        ] {
            sql(&client, &format!("create index i on bill {clause}")).await;
            let found =
                report(&database, "foreign-key-without-index", "[threshold.foreign-key-without-index]\nrows = 50")
                    .await;
            let sentences: Vec<&str> = found.findings.iter().map(|one| one.sentence.as_str()).collect();
            let is_right = match sentence {
                "" => sentences.is_empty(),
                _ => sentences.len() == 1 && sentences[0].ends_with(sentence),
            };
            assert!(is_right, "{clause}: {sentences:?}");
            let dropped = subjects(&report(&database, "unused-index", unused).await);
            assert_eq!(dropped.is_empty(), is_needed, "{clause}: {dropped:?}");
            sql(&client, "drop index i").await;
        }
        // One that is not valid is to be mended, and not built once more.
        sql(&client, "create index i on bill (tenant, customer)").await;
        sql(&client, "update pg_index set indisvalid = false where indexrelid = 'i'::regclass").await;
        let found = report(&database, "foreign-key-without-index", FEW_ROWS).await;
        assert_eq!((keys(&found).len(), commands(&found)), (1, Vec::new()), "{found:?}");
    })
    .await;
}

#[tokio::test]
async fn an_update_that_cannot_change_a_key_needs_no_index_of_a_foreign_key() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table shop (id int primary key, visits int) with (fillfactor = 40);
             insert into shop select n, 0 from generate_series(1, 500) as n;
             create table sale (shop int references shop);
             insert into sale select n from generate_series(1, 500) as n; analyze sale;
             update shop set visits = 1",
        )
        .await;
        assert_eq!(keys(&report(&database, "foreign-key-without-index", FEW_ROWS).await), [""; 0]);
        sql(&client, "insert into shop values (501); update shop set id = 502 where id = 501").await;
        assert_eq!(
            keys(&report(&database, "foreign-key-without-index", FEW_ROWS).await),
            ["public.sale.sale_shop_fkey"]
        );
    })
    .await;
}

#[tokio::test]
async fn foreign_keys_of_partitioned_tables_are_seen_on_both_sides() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table shop (id int primary key) partition by range (id);
             create table shop_1 partition of shop for values from (0) to (1000);
             insert into shop select n from generate_series(1, 500) as n;
             create table sale (day int, shop int references shop) partition by range (day);
             create table sale_1 partition of sale for values from (1) to (2);
             create table sale_2 (shop int, gone int, day int); alter table sale_2 drop gone;
             alter table sale attach partition sale_2 for values from (2) to (3);
             insert into sale select 1 + n % 2, n from generate_series(1, 500) as n; analyze sale_1; analyze sale_2;
             create table visit (shop int references shop);
             insert into visit select n from generate_series(1, 500) as n; analyze visit",
        )
        .await;
        assert_eq!(keys(&report(&database, "foreign-key-without-index", FEW_ROWS).await), [""; 0]);
        sql(&client, "insert into shop values (999); delete from shop where id = 999").await;
        let found = report(&database, "foreign-key-without-index", FEW_ROWS).await;
        assert_eq!(keys(&found), ["public.sale.sale_shop_fkey", "public.visit.visit_shop_fkey"]);
        assert_eq!(commands(&found)[0], "create index on public.sale (shop)");
        let tables = |report: &Report| evidence(&report.findings[0], "partitions without an index").map(str::to_owned);
        assert_eq!(tables(&found).as_deref(), Some("2"));
        // An index of the partition alone serves as well.
        sql(&client, "create index on sale_2 (shop); create index on visit (shop)").await;
        let found = report(&database, "foreign-key-without-index", FEW_ROWS).await;
        assert_eq!(
            (keys(&found), tables(&found).as_deref()),
            (vec!["public.sale.sale_shop_fkey".to_owned()], Some("1"))
        );
        sql(&client, commands(&found)[0]).await;
        assert_eq!(keys(&report(&database, "foreign-key-without-index", FEW_ROWS).await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_published_table_without_a_key_cannot_be_updated() {
    let settings = "[threshold.table-without-key]\nrows = 100";
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table sent (a int); insert into sent select generate_series(1, 1000); analyze sent;
             create table whole (a int); insert into whole select generate_series(1, 1000); analyze whole;
             alter table whole replica identity full; create publication all_keys for table sent, whole",
        )
        .await;
        let report = report(&database, "table-without-key", settings).await;
        let levels: Vec<(&str, Level)> =
            report.findings.iter().map(|finding| (finding.subject.as_str(), finding.level)).collect();
        assert_eq!(levels, [("public.sent", Level::Warning), ("public.whole", Level::Info)]);
        client.execute("update whole set a = a", &[]).await.unwrap();
        client.execute("update sent set a = a", &[]).await.unwrap_err();
    })
    .await;
}
