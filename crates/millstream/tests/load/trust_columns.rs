//! A superuser runs nothing that hangs on the columns and relations of others: neither a model, nor a check, nor a plan.

use crate::trust::Trap;
use millstream_testkit::each_build;

/// Types of mallory's whose code makes mallory a superuser, tables that have columns of them, and a view. What is planned in
/// a read-only transaction cannot do that; there the refusal alone shows that nothing ran.
const TYPES: &str = "
    create schema evil authorization MALLORY; set role MALLORY; grant usage on schema evil to public;
    create function evil.take() returns bool language plpgsql as $$
    begin
        execute 'alter role MALLORY superuser';
        return true;
    exception when others then
        return true;
    end $$;
    create function evil.take_at_once() returns bool language plpgsql immutable as 'begin return evil.take(); end';
    create function evil.difference(float8, float8) returns float8 language plpgsql immutable as
        'begin perform evil.take(); return $1 - $2; end';
    create type evil.span as range (subtype = float8, subtype_diff = evil.difference);
    create table evil.spans (id bigint primary key, doc jsonb not null, span evil.span);
    insert into evil.spans select g, '{}', evil.span(g, g + 3) from generate_series(1, 500) g;
    analyze evil.spans;
    create type evil.mood as enum ('k1');
    create function evil.as_json(evil.mood) returns json language plpgsql as
        'begin perform evil.take(); return to_json(1); end';
    create cast (evil.mood as json) with function evil.as_json(evil.mood) as implicit;
    create table evil.moods (id bigint primary key, doc jsonb not null, mood evil.mood);
    insert into evil.moods select g, '{}', 'k1' from generate_series(3, 9) g;
    create type evil.pair as (one int, two evil.mood);
    create table evil.pairs (id bigint primary key, doc jsonb not null, pairs evil.pair[]);
    create table evil.later (id bigint primary key, doc jsonb not null, n int);
    create function evil.is_fine() returns bool language sql return true;
    create domain evil.number as bigint check (evil.is_fine());
    create table evil.numbers (id evil.number primary key, doc jsonb not null);
    create domain evil.tag as text check (evil.take());
    create table evil.tagged (id bigint, tags evil.tag[]);
    create view evil.spy as select 1::bigint as id where evil.take_at_once(); reset role;
    create view public.harmless as select id from evil.tagged";

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_publishes_no_columns_of_types_that_others_may_change() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        trap.run(TYPES).await;
        let refused = async |args: &[&str], what: &str| {
            let refused = trap.millstream(args).ends(2).stderr;
            let expected = format!("{what} belongs to role {}, whose code the ", trap.mallory);
            assert!(refused.contains(&expected), "{args:?}: {refused}");
            assert!(refused.contains(&format!("--trust-owner {}", trap.mallory)), "{args:?}: {refused}");
            assert!(!trap.mallory_is_superuser().await, "{args:?}");
        };
        let load = |table| ["load", "FILE", "--into", table, "--key", "id", "--adopt"];
        let mood = "the type evil.mood of the column mood of evil.moods";
        let check = ["--check", "jsonb_typeof(to_jsonb(mood)) <> 'x'"];
        refused(&[&load("evil.moods")[..], &check].concat(), mood).await;
        for table in ["evil.spans", "evil.moods", "evil.pairs", "evil.later", "evil.numbers"] {
            trap.millstream(&load(table)).ends(0);
        }
        trap.run("create or replace function evil.is_fine() returns bool language sql return evil.take()").await;

        let span = "the type evil.span of the column span of evil.spans";
        let number = "the type evil.number of the column id of evil.numbers";
        let spanning = "select id from evil.spans where span @> 5::float8";
        for (table, more, what) in [
            ("evil.spans", &["--select", "span"][..], span),
            ("evil.spans", &["--where", "span @> 5::float8"], span),
            ("evil.spans", &["--materialized", "--query", spanning], span),
            ("evil.moods", &["--select", "to_jsonb(mood) as mood"], mood),
            ("evil.moods", &[], mood),
            ("evil.pairs", &[], "the type evil.mood of the column pairs of evil.pairs"),
            ("evil.numbers", &[], number),
        ] {
            if table == "evil.pairs" {
                trap.run("alter type evil.pair owner to current_user").await;
            }
            refused(&[&["publish", table, "--as", "public.model"][..], more].concat(), what).await;
        }
        refused(&["explain-index", "evil.spans", spanning], span).await;
        trap.millstream(&["publish", "evil.numbers", "--as", "public.model", "--trust-owner", &trap.mallory]).ends(0);
        trap.run("alter role MALLORY nosuperuser").await;
        refused(&["refresh", "public.model"], number).await;
        refused(&["refresh", "public.model", "--dry-run"], number).await;
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_refreshes_no_column_that_has_got_a_type_of_others() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        trap.run(TYPES).await;
        trap.millstream(&["load", "FILE", "--into", "evil.later", "--key", "id", "--adopt"]).ends(0);
        let query = "select id, to_jsonb(n) as j from evil.later";
        for model in [
            &["publish", "evil.later", "--as", "public.later", "--select", "to_jsonb(n) as j"][..],
            &["publish", "evil.later", "--as", "public.never", "--index", "id"],
            &["publish", "evil.later", "--as", "public.report", "--materialized", "--query", query, "--unique", "id"],
        ] {
            trap.millstream(model).ends(0);
        }
        trap.run("drop materialized view public.report").await;
        trap.run("set role MALLORY; alter table evil.later alter n type evil.mood using 'k1'; reset role").await;
        for model in ["public.later", "public.never", "public.report"] {
            let refused = trap.millstream(&["refresh", model]).ends(2).stderr;
            let expected = format!("the type evil.mood of the column n of evil.later belongs to role {}", trap.mallory);
            assert!(refused.contains(&expected), "{model}: {refused}");
            assert!(!trap.mallory_is_superuser().await, "{model}");
        }
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_plans_no_query_that_names_relations_of_others() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        trap.run(TYPES).await;
        trap.run("do $$ begin execute format('alter database %I set search_path = public, evil', current_database()); end $$")
            .await;
        for (query, what) in [
            ("select from events join evil.tagged as o using (id) where o.tags = '{x}'", "tagged"),
            ("select from events, \"tagged\" as o where o.tags = '{x}'", "tagged"),
            ("select from events, evil . spy", "spy"),
            ("select from events where id in (select id from only (evil.spans) where span @> 5::float8)", "spans"),
            ("with o as (table evil.spans) select from events", "spans"),
            ("select from events join harmless using (id)", "tagged"),
        ] {
            let refused = trap.millstream(&["explain-index", "events", query]).ends(2).stderr;
            let expected = format!("the relation {what} belongs to role {}, whose code the query", trap.mallory);
            assert!(refused.contains(&expected), "{query}: {refused}");
        }
        let query = "select e.id from events as e, evil.tagged as o where o.tags = '{x}'";
        let report = ["publish", "events", "--as", "report", "--materialized", "--query", query];
        let refused = trap.millstream(&report).ends(2).stderr;
        let expected = format!("the relation tagged belongs to role {}, whose code the model", trap.mallory);
        assert!(refused.contains(&expected), "{refused}");
        assert!(!trap.mallory_is_superuser().await);
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_has_no_sql_parsed_that_names_types_of_others_wherever_they_stand() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        trap.run(TYPES).await;
        // What `public.mood` is cast to json by belongs to mallory, as does the check of the column of `public.chest`.
        trap.run(
            "create type public.mood as enum ('k1'); create table public.moods (mood public.mood);
             create type public.case as (mood public.mood); create table public.chest (tags evil.tag);
             create function public.as_json(public.mood) returns json language sql as 'select to_json(1)';
             create cast (public.mood as json) with function public.as_json(public.mood);
             create function public.my_mood() returns public.mood language sql as 'select ''k1''::public.mood';
             alter function public.as_json(public.mood) owner to MALLORY",
        )
        .await;
        let load = ["load", "FILE", "--into", "public.fresh", "--key", "id:bigint"];
        // The names alone decide, so it does not matter which version knows these words.
        for (check, what) in [
            ("json_query(doc, '$' returning evil.tag) is null", "the type evil.tag"),
            ("json_value(doc, '$' returning chest) is null", "the type chest"),
            ("xmlserialize(content '<a/>'::xml as evil.tag) is null", "the type evil.tag"),
            ("'x'::setof evil.tag is null", "the type evil.tag"),
            ("exists (select from json_to_record('{}') as x(a chest))", "the type chest"),
            ("pg_input_is_valid('x', 'evil.tag')", "the type evil.tag"),
            ("pg_input_is_valid('x', $$chest$$)", "the type chest"),
            ("to_jsonb('k1'::mood) is null", "the type mood"),
            ("to_jsonb('(k1)'::public.case) is null", "the type \"case\""),
            ("to_jsonb(my_mood()) is null", "the function my_mood()"),
        ] {
            let refused = trap.millstream(&[&load[..], &["--check", check]].concat()).ends(2).stderr;
            let expected = format!("role {} may change what the check's functions", trap.mallory);
            assert!(refused.contains(&expected) && refused.contains(&format!("it may use {what}")), "{check}: {refused}");
        }
        let computed = [&load[..], &["--check", "pg_input_is_valid('x', 'evil.' || 'tag')"]].concat();
        let refused = trap.millstream(&computed).ends(2).stderr;
        assert!(refused.contains("whose type is no plain text, and nobody can say"), "{refused}");

        let query = "select from events, moods where to_jsonb(mood) is null";
        let refused = trap.millstream(&["explain-index", "events", query]).ends(2).stderr;
        let expected = format!("of the column mood of moods belongs to role {}, whose code the query", trap.mallory);
        assert!(refused.contains("the function as_json(mood)") && refused.contains(&expected), "{refused}");
        assert!(refused.contains("give it, its functions and those of its casts"), "{refused}");

        trap.run("grant create on schema public to public; create function public.own() returns bool return true").await;
        let refused = trap.millstream(&[&load[..], &["--check", "public.own()"]].concat()).ends(2).stderr;
        assert!(refused.contains("every role may change") && refused.contains("revoke create on schema"), "{refused}");
        assert!(!refused.contains("connect as public"), "{refused}");
        assert!(!trap.mallory_is_superuser().await);
        trap.run("revoke create on schema public from public; alter function public.as_json(public.mood) owner to current_user")
            .await;
        trap.millstream(&[&load[..], &["--check", "to_jsonb('k1'::mood) is not null"]].concat()).ends(0);
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_and_relations_of_ones_own_are_no_obstacle() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        trap.run(
            "create type public.mood as enum ('good'); create domain public.short as text check (length(value) < 9);
             create type public.span as range (subtype = float8, subtype_diff = float8mi);
             alter table public.events add mood public.mood, add short public.short[], add span public.span;
             create table public.others (id bigint, mood public.mood)",
        )
        .await;
        let select = "to_jsonb(mood) as mood, short, span";
        trap.millstream(&["publish", "events", "--as", "moods", "--select", select]).ends(0);
        trap.millstream(&["refresh", "moods"]).ends(0);
        let joined = "select from events join others as o using (id) where o.mood = 'good' and id = 1";
        trap.millstream(&["explain-index", "events", joined]).ends(0);
        trap.end().await;
    })
    .await;
}
