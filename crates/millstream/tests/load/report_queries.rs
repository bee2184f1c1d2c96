//! Queries of reports: which columns tell their rows apart, and what they may name and call.

use crate::process::millstream;
use crate::reports::{SUMS, Scene};
use millstream_testkit::{each_build, every_build};
use serde_json::json;

/// Queries for which the unique columns are found.
const FOUND: &[(&str, &[&str])] = &[
    (SUMS, &["shop"]),
    ("select count(*) as n, doc->>'shop' as shop from sales group by 2 order by 1 limit 5", &["shop"]),
    (
        "select doc->>'shop' as shop, id % 3 as rest, max(id) as last from sales group by 1, 2 having count(*) > 0",
        &["shop", "rest"],
    ),
    ("select distinct doc->>'shop' as shop, id > 3 as late from sales", &["shop", "late"]),
    ("select distinct on (doc->>'shop') id, doc->>'shop' as shop from sales order by doc->>'shop', id", &["shop"]),
    ("select count(*) as n, max(id) as last from sales", &["n"]),
    ("select id, doc->'price' as price from sales where id > 2", &["id"]),
    ("select (doc->'price')::json as price, id as number from sales", &["number"]),
    ("select doc->>'shop' as shop from sales union select 'none'", &["shop"]),
    (
        "with big as (select * from sales where id > 2) select doc->>'shop' as shop, count(*) as n from big group by 1",
        &["shop"],
    ),
];

/// Queries for which they must be named.
const NAMED: &[(&str, &str)] = &[
    ("select id, doc from sales order by id limit 3", "ID"),
    ("select doc->>'shop' as shop, rank() over (order by id) as place from sales", "place"),
    ("select a.id, b.id as other from sales a join sales b on a.id < b.id", "id, other"),
    ("select doc->>'shop' as shop, count(*) as n from sales group by rollup (1)", "shop"),
    ("select id, one.value as x from sales, jsonb_each(doc) as one where one.key = 'price'", "id"),
    ("select s.id, n from sales s cross join lateral (select count(*) as n from sales u where u.id < s.id) t", "id"),
];

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_tell_rows_apart_are_found_or_named() {
    every_build(async |db| {
        let scene = Scene::new(&db).await;
        for (n, (query, unique)) in FOUND.iter().enumerate() {
            let model = format!("found{n}");
            scene.publish(&model, query, &[]).ends(0);
            assert_eq!(scene.model(&model)["definition"]["unique"], json!(unique), "{query}");
            scene.assert_shows(&model, query).await;
        }
        for (n, (query, unique)) in NAMED.iter().enumerate() {
            let model = format!("named{n}");
            let refused = scene.publish(&model, query, &[]).ends(2).stderr;
            assert!(refused.contains("--unique COLUMN[,COLUMN..]"), "{query}: {refused}");
            scene.publish(&model, query, &["--unique", unique]).ends(0);
            scene.assert_shows(&model, query).await;
        }
        scene
            .execute("insert into public.sales values (7, '{\"shop\": \"x\"}'); delete from public.sales where id = 1")
            .await;
        for (models, queries) in [
            ("found", FOUND.iter().map(|(query, _)| *query).collect::<Vec<_>>()),
            ("named", NAMED.iter().map(|(query, _)| *query).collect()),
        ] {
            for (n, query) in queries.iter().enumerate() {
                let model = format!("{models}{n}");
                scene.run(&["refresh", &model]).ends(0);
                scene.assert_shows(&model, query).await;
            }
        }
        let wrong = scene.publish("wrong", SUMS, &["--unique", "shop,nope"]).ends(2).stderr;
        assert!(wrong.contains("no column \"nope\"") && wrong.contains("shop, sold, total"), "{wrong}");
        let json =
            scene.publish("wrong", "select id, (doc->'price')::json as price from sales", &["--unique", "price"]);
        let json = json.ends(2).stderr;
        assert!(json.contains("the server refuses a unique index of price"), "{json}");
        assert!(scene.model("wrong").is_null());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_agree_in_the_unique_columns_stop_a_refresh() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        let agree = "several rows of its query agree in the unique columns \"";
        let early = scene.publish("early", "select doc->>'shop' as shop, id from sales", &["--unique", "shop"]).ends(2);
        assert!(early.stderr.contains(agree) && early.stderr.contains("--unique COLUMN"), "{early:?}");
        scene.publish("early", "select doc->>'shop' as shop, id from sales", &["--unique", "id"]).ends(0);

        // Rows that differ elsewhere, and rows that do not.
        let queries = [
            ("later", "select doc->>'price' as price, id from sales"),
            ("same", "select doc->>'price' as price from sales"),
        ];
        for (model, query) in queries {
            scene.publish(model, query, &["--unique", "price"]).ends(0);
        }
        let before = [scene.rows("later").await, scene.rows("same").await];
        scene.execute("update public.sales set doc = '{\"price\": 1}' where id < 3").await;
        for ((model, _), before) in queries.iter().zip(before) {
            let failed = scene.run(&["refresh", model]).ends(2).stderr;
            assert!(failed.contains(agree) && failed.contains("--unique COLUMN"), "{failed}");
            assert_eq!(scene.rows(model).await, before, "readers keep what they saw");
        }
        let (later, query) = queries[0];
        scene.publish(later, query, &["--unique", "price,id"]).ends(0);
        scene.assert_shows(later, query).await;
        // Nulls differ from each other.
        scene.execute("update public.sales set doc = '{}' where id < 3").await;
        for (model, query) in queries {
            for _ in 0..2 {
                scene.run(&["refresh", model]).ends(0);
                scene.assert_shows(model, query).await;
            }
        }
        scene.execute("update public.sales set doc = '{\"shop\": \"x\", \"price\": \"dear\"}' where id = 3").await;
        let failed = scene.publish("sums", SUMS, &[]).ends(2).stderr;
        assert!(
            failed.contains("invalid input syntax for type numeric") && failed.contains("leaves them out"),
            "{failed}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_reads_its_collection_alone_by_one_query() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        scene.run(&["publish", "sales", "--as", "plain"]).ends(0);
        scene
            .execute(
                "create table public.others (id bigint primary key); create sequence public.numbers;
                 create function public.wild(int, bigint) returns int volatile language sql as 'select 1';
                 create aggregate public.worst(bigint) (sfunc = public.wild, stype = int, initcond = '0')",
            )
            .await;
        let here = "select string_agg(oid::text || relname, ' ' order by oid) from pg_class where relnamespace in
                    ('public'::regnamespace, 'millstream'::regnamespace)";
        let before: String = scene.client.query_one(here, &[]).await.unwrap().get(0);
        for (query, expected) in [
            ("select id from sales join others using (id)", "may read sales alone, and it reads public.others"),
            ("select id from sales where id in (select id from others)", "it reads public.others"),
            ("with o as (table others) select sales.id from sales, o", "it reads public.others"),
            ("select id from plain", "it reads public.plain"),
            ("select oid from pg_class", "it reads pg_class"),
            ("select 1 as a", "does not read sales"),
            ("select id, random() as r from sales", "the volatile function random()"),
            ("select id, nextval('numbers') as n from sales", "the volatile function nextval(regclass)"),
            ("select worst(id) as n from sales", "the volatile function public.wild(integer,bigint)"),
            ("select id from sales; drop table sales", "multiple commands"),
            ("select id into copied from sales", "INTO"),
            ("with gone as (delete from sales returning id) select id from gone", "data-modifying"),
            ("insert into sales values (9, '{}')", "syntax error"),
            ("select id from sales where id = $1", "parameter $1"),
            ("select from sales", "has no columns"),
            ("select id, doc as id from sales", "specified more than once"),
            ("select id from nowhere", "does not exist"),
            ("select id from sales /* open", "unterminated"),
            ("", "syntax error"),
            ("select id from sales for update", "locks rows of sales"),
        ] {
            let refused = scene.publish("report", query, &[]).ends(2).stderr;
            assert!(refused.contains(expected) && refused.contains("hint: "), "{query}: {refused}");
        }
        let after: String = scene.client.query_one(here, &[]).await.unwrap().get(0);
        assert_eq!(after, before, "nothing is left");
        assert_eq!(scene.number("select count(*) from public.sales").await, 6);

        let plain = ["publish", "sales", "--as", "report"];
        for (more, expected) in [
            (&["--query", SUMS][..], "--materialized"),
            (&["--materialized", "--query", SUMS, "--where", "true"][..], "--where"),
            (&["--materialized", "--query", SUMS, "--select", "doc"][..], "--select"),
            (&["--materialized", "--query", SUMS, "--column", "a:int=a"][..], "--column"),
            (&["--materialized", "--unique", "id"][..], "--query"),
        ] {
            let refused = scene.run(&[&plain[..], more].concat()).ends(2).stderr;
            assert!(refused.contains(expected), "{more:?}: {refused}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_taken_as_it_is_typed() {
    every_build(async |db| {
        let scene = Scene::new(&db).await;
        for (n, query) in [
            "select id from sales;  ",
            "select id from sales -- all of them",
            "select id, 1 from sales /* ; */ ; -- end",
            "(select id from public.sales)",
            "select id as \"a\"\"b, c\" from sales",
            "select id from sales where id < 0",
            "select id, doc, doc->'price' as \"Price\", array[id] as ids from sales",
            "select id, current_date as today, id::text || ':$$' || 'it''s {key}' as label from sales",
            "select count(*) filter (where id > 3), bool_or(id = 1), array_agg(id order by id desc), \
             percentile_cont(0.5) within group (order by id) as median, jsonb_object_agg(id, doc) as all from sales",
        ]
        .iter()
        .enumerate()
        {
            let model = format!("typed{n}");
            scene.publish(&model, query, &[]).ends(0);
            scene.assert_shows(&model, query).await;
            scene.execute("update public.sales set doc = doc || '{\"price\": 3}' where id = 5").await;
            scene.run(&["refresh", &model]).ends(0);
            scene.assert_shows(&model, query).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_means_what_it_meant_and_runs_no_code_of_others() {
    each_build(async |db| {
        let (scene, mallory) = (Scene::new(&db).await, format!("{}_mallory", db.name));
        scene
            .execute(&format!(
                "create role {mallory}; grant create, usage on schema public to {mallory}; set role {mallory};
                 create function public.doubled(bigint) returns bigint immutable language sql as 'select 2 * $1';
                 create function public.defined(bigint) returns bigint immutable security definer
                     language sql as 'select 2 * $1';
                 create domain public.own as bigint; reset role"
            ))
            .await;
        for query in [
            "select doubled(id) as n from sales group by 1",
            "select defined(id) as n from sales group by 1",
            "select id::own as n, count(*) from sales group by 1",
        ] {
            let refused = scene.publish("report", query, &[]).ends(2).stderr;
            let expected = format!("role {mallory} may change what the model's functions");
            assert!(refused.contains(&expected), "{refused}");
            assert!(refused.contains(&format!("--trust-owner {mallory}")), "{refused}");
            scene.publish("report", query, &["--unique", "n", "--trust-owner", &mallory]).ends(0);
            scene.run(&["unpublish", "report", "--trust-owner", &mallory]).ends(0);
        }

        let query = "select lower((doc->>'shop')::varchar) as shop, count(*) as sold from sales group by 1";
        scene.publish("sums", query, &[]).ends(0);
        let before = scene.rows("sums").await;
        let decoy = format!(
            "set role {mallory};
             create function public.lower(varchar) returns text language sql immutable as $$ select 'decoy' $$; reset role"
        );
        scene.execute(&decoy).await;
        for drop in ["", "drop materialized view sums"] {
            scene.execute(drop).await;
            scene.run(&["refresh", "sums"]).ends(0);
            assert_eq!(scene.rows("sums").await, before, "{drop}");
        }
        // The table's name belongs to a view of hers, which nobody reads.
        let trap = format!(
            "drop materialized view sums; alter table public.sales rename to moved; grant select on public.moved to {mallory};
             set role {mallory};
             create function public.grab(bigint) returns bool language plpgsql as
                 'begin execute ''alter role {mallory} superuser''; return true; end';
             create view public.sales as select * from public.moved where public.grab(id); reset role"
        );
        scene.execute(&trap).await;
        let refused = scene.run(&["refresh", "sums"]).ends(2).stderr;
        assert!(refused.contains(&format!("the relation public.sales belongs to role {mallory}")), "{refused}");
        let is_super = format!("select count(*) from pg_roles where rolsuper and rolname = '{mallory}'");
        assert_eq!(scene.number(&is_super).await, 0);
        scene.execute(&format!("drop owned by {mallory} cascade; drop role {mallory}")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_below_row_security_gets_no_part_of_a_report() {
    each_build(async |db| {
        let (scene, clerk) = (Scene::new(&db).await, format!("{}_clerk", db.name));
        scene
            .execute(&format!(
                "create role {clerk} login password 'one'; grant all on schema public, millstream to {clerk};
                 grant all on all tables in schema millstream to {clerk};
                 grant all on all sequences in schema millstream to {clerk};
                 grant select, trigger on public.sales to {clerk};
                 alter table public.sales enable row level security;
                 create policy few on public.sales using (id < 3)"
            ))
            .await;
        let address = scene.url.rsplit_once('@').expect("it names a user").1;
        let url = format!("postgres://{clerk}:one@{address}");
        let publish = ["publish", "sales", "--as", "sums", "--materialized", "--query", SUMS, "--db", &url];
        let refused = millstream(&publish).ends(2).stderr;
        assert!(refused.contains("row-level security"), "{refused}");
        scene.execute("alter table public.sales disable row level security").await;
        millstream(&publish).ends(0);
        scene.assert_shows("sums", SUMS).await;
        // It is the clerk's, so nobody else runs it.
        let other = scene.run(&["refresh", "sums", "--trust-owner", &clerk]).ends(2).stderr;
        assert!(other.contains(&format!("belongs to {clerk}")), "{other}");
        scene.execute(&format!("drop owned by {clerk} cascade; drop role {clerk}")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_call_nothing_that_others_put_into_the_search_path() {
    each_build(async |db| {
        db.plant_decoys().await;
        let scene = Scene::new(&db).await;
        let query = "select doc operator(pg_catalog.->>) 'shop'::text as shop, count(*) as sold from sales group by 1";
        scene.publish("sums", query, &["--index", "sold"]).ends(0);
        scene.publish("sums", query, &["--index", "shop"]).ends(0);
        scene.publish("keys", "select id, doc from sales", &[]).ends(0);
        scene
            .load("{\"id\":7,\"shop\":\"new\",\"price\":1}\n", "sales", &["--publish", "sums", "--publish", "keys"])
            .ends(0);
        scene.run(&["models"]).ends(0);
        scene.run(&["unpublish", "sums"]).ends(0);
    })
    .await;
}
