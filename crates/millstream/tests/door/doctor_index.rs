//! Indexes that the doctor builds and takes back.

use crate::process::{Run, command, doctor, killed, run};
use millstream_testkit::{Build, Server, Settings, builds, connect, dealt_builds, skip};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use tokio_postgres::Client;

/// Small tables and few calls count.
const SETTINGS: &str = "[threshold.foreign-key-without-index]\nrows = 100\n\
    [threshold.sort-index]\nrows = 1000\ncalls = 1\nblocks_per_row = 10\n\
    [threshold.missed-index]\nrows = 100\ncalls = 1\n";

/// A server that counts statements, and a journal of its own.
struct Place {
    server: Server,
    client: Client,
    home: tempfile::TempDir,
}

impl Place {
    async fn new(build: &'static Build) -> Self {
        let settings = Settings::with(&["shared_preload_libraries = 'pg_stat_statements'"]);
        let server = Server::start(build, settings).await;
        let client = connect(&server.url("postgres")).await;
        let place = Self { server, client, home: tempfile::tempdir().unwrap() };
        let passwords = place.home.path().join("passwords");
        std::fs::write(&passwords, "*:*:*:shop:p\n").unwrap();
        std::fs::set_permissions(&passwords, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(place.home.path().join("doctor.toml"), SETTINGS).unwrap();
        place.sql("create extension pg_stat_statements; create role shop login password 'p'").await;
        place
    }

    async fn sql(&self, text: &str) {
        // Vacuum refuses to be one of several statements that are sent together.
        for statement in text.split(';') {
            self.client.batch_execute(statement).await.unwrap();
        }
        self.client.batch_execute("select pg_stat_force_next_flush()").await.unwrap();
        self.client.batch_execute("select 1").await.unwrap();
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = doctor(args, &self.server.url("postgres"), self.home.path());
        command.env("PGPASSFILE", self.home.path().join("passwords"));
        command
    }

    fn doctor(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }

    /// The newest change.
    fn change(&self) -> Value {
        let mut command = command(&["doctor", "changes", "--output", "json"]);
        let changes = run(command.env("MILLSTREAM_HOME", self.home.path())).ends(0).json();
        changes.as_array().unwrap().last().unwrap().clone()
    }

    /// The definition of an index behind its first words, if the index is there, and whether it is valid.
    async fn index(&self, name: &str) -> Option<(String, bool)> {
        let sql = "select pg_get_indexdef(indexrelid), indisvalid from pg_index where indexrelid = to_regclass($1)";
        let row = self.client.query_opt(sql, &[&name]).await.unwrap();
        row.map(|row| (behind(row.get(0)), row.get(1)))
    }
}

/// What follows the first words of a definition.
fn behind(definition: &str) -> String {
    definition.split_once(" INDEX ").unwrap().1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_for_a_foreign_key_is_built_and_taken_back() {
    for build in dealt_builds().await {
        let place = Place::new(build).await;
        place
            .sql(
                "create table customer (id int primary key, n int default 0);
                 insert into customer select generate_series(1, 1000);
                 create table \"Visit\" (a int, customer int references customer);
                 insert into \"Visit\" select n, n from generate_series(1, 1000) as n; analyze \"Visit\";
                 update customer set n = 1 where id = 7",
            )
            .await;
        let (key, name) =
            ("foreign-key-without-index:postgres:public.\"Visit\".\"Visit_customer_fkey\"", "\"Visit_customer_idx\"");
        let definition = "\"Visit_customer_idx\" ON public.\"Visit\" USING btree (customer)";
        place.doctor(&["fix", key, "--yes"]).ends(0);
        let there = place.index(name).await.unwrap();
        assert_eq!(there, (definition.to_owned(), true));
        let change = place.change();
        assert_eq!(
            (&change["before"], behind(change["value"].as_str().unwrap())),
            (&Value::Null, definition.to_owned())
        );
        assert_eq!(change["state"], "verified");
        let again = place.doctor(&["fix", key, "--yes"]).ends(2);
        assert!(again.stderr.contains("there is no finding foreign-key-without-index"), "{again:?}");
        place.doctor(&["confirm"]).ends(0);
        // The definition does not tell it, so it would not come back.
        place.sql(&format!("alter table \"Visit\" cluster on {name}")).await;
        let marked = place.doctor(&["undo", "1"]).ends(2);
        assert!(marked.stderr.contains("has the mark of cluster"), "{marked:?}");
        place.sql("alter table \"Visit\" set without cluster").await;
        place.doctor(&["undo", "1"]).ends(0);
        assert_eq!(place.index(name).await, None);

        // An undo does not find what has another name by now.
        place.doctor(&["fix", key, "--yes"]).ends(0);
        place.sql(&format!("alter index {name} rename to other")).await;
        let gone = place.doctor(&["undo"]).ends(0);
        assert!(gone.stderr.contains("postgres/public.\"Visit_customer_idx\" is none already"), "{gone:?}");
        assert!(gone.stderr.contains("if it was renamed, the change is still in effect"), "{gone:?}");
        assert!(place.index("other").await.is_some());
        place.sql("drop index other").await;

        // What somebody else has put in its place stays.
        place.doctor(&["fix", key, "--yes"]).ends(0);
        place.sql(&format!("drop index {name}; create index {name} on \"Visit\" (a)")).await;
        let theirs = place.doctor(&["undo"]).ends(2);
        assert!(theirs.stderr.contains("changed postgres/public.\"Visit_customer_idx\" since"), "{theirs:?}");
        assert!(place.index(name).await.is_some());
        // The name is taken now.
        let other = place.doctor(&["fix", key, "--yes"]).ends(0);
        assert!(other.stderr.contains("\"Visit_customer_idx2\": none -> create index"), "{other:?}");
        place.doctor(&["undo"]).ends(0);
        place.sql(&format!("drop index {name}")).await;
        place.doctor(&["undo"]).ends(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_with_a_type_of_another_role_is_not_dropped_as_it_could_not_come_back_safely() {
    for build in dealt_builds().await {
        let place = Place::new(build).await;
        place
            .sql(
                "create table t (id int primary key); create role mallory; create domain dom as int8 check (value > 0);
                 alter domain dom owner to mallory;
                 create index twin_a on t (id) where '{1}'::dom[] is not null and id > 0;
                 create index twin_b on t (id) where '{1}'::dom[] is not null and id > 0",
            )
            .await;
        let found = place.doctor(&["--check", "duplicate-index", "--one-database", "--output", "json"]);
        let key = found.json()["findings"][0]["key"].as_str().expect("two are the same").to_owned();
        let refused = place.doctor(&["fix", &key, "--yes"]).ends(2);
        assert!(refused.stderr.contains("names the type public.dom[] of role mallory"), "{refused:?}");
        assert!(place.index("twin_a").await.is_some() && place.index("twin_b").await.is_some());
        place.sql("alter domain dom owner to current_user").await;
        place.doctor(&["fix", &key, "--yes"]).ends(0);
        place.doctor(&["undo"]).ends(0);
        assert!(place.index("twin_a").await.is_some() && place.index("twin_b").await.is_some());
    }
}

/// A table and a view of mallory's. A literal of the view runs mallory's code when somebody reads it, which is counted if that
/// is a superuser.
const EVIL: &str = "create role mallory; create schema evil authorization mallory; set role mallory; \
     create sequence evil.calls; \
     create function evil.good(text) returns bool language plpgsql as $$ begin \
         if current_setting('is_superuser') = 'on' then perform nextval('evil.calls'); end if; return true; end $$; \
     create domain evil.dom as text check (evil.good(value)); \
     create function evil.g(text, evil.dom[]) returns text language sql immutable strict as 'select $1'; \
     create table evil.t (a text); insert into evil.t select to_hex(n) from generate_series(1, 10000) as n; \
     create index t_a on evil.t (a); \
     create view evil.v as select a, evil.g(a, '{x}'::evil.dom[]) as k from evil.t; \
     grant usage on schema evil to shop; grant select on evil.t, evil.v to shop; reset role; analyze evil.t; \
     select pg_stat_statements_reset(); select from evil.v where k = 'a1'; select pg_stat_force_next_flush()";

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_may_call_code_of_another_role_is_made_by_hand() {
    for build in builds().await {
        let place = Place::new(build).await;
        // As one query string, the last statement would not be counted by itself.
        for statement in EVIL.split_inclusive("$$;").flat_map(whole_statements) {
            place.client.batch_execute(&statement).await.unwrap();
        }
        place.sql("select 1").await;
        let args = ["--check", "missed-index", "--plan-as", "shop", "--one-database", "--output", "json"];
        let found = place.doctor(&args).json();
        let key = found["findings"][0]["key"].as_str().unwrap_or_else(|| panic!("{found}")).to_owned();
        let refused = place.doctor(&["fix", &key, "--plan-as", "shop", "--yes"]).ends(2);
        assert!(refused.stderr.contains("would run code of role mallory with your rights"), "{refused:?}");
        assert!(refused.stderr.contains("create the index by hand: create index concurrently"), "{refused:?}");
        let called: bool = place.client.query_one("select is_called from evil.calls", &[]).await.unwrap().get(0);
        assert!(!called, "{refused:?}");
    }
}

/// The statements of a text. A body in dollar quotes stays whole.
fn whole_statements(text: &str) -> Vec<String> {
    match text.split_once("create function evil.good") {
        Some((before, body)) => {
            let mut statements = whole_statements(before);
            statements.push(format!("create function evil.good{body}"));
            statements
        }
        None => text.split(';').filter(|one| !one.trim().is_empty()).map(str::to_owned).collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_build_that_broke_off_has_left_is_removed() {
    for build in dealt_builds().await {
        let place = Place::new(build).await;
        place
            .sql(
                "create table customer (id int primary key, n int default 0);
                 insert into customer select generate_series(1, 1000);
                 create table visit (a int, customer int references customer);
                 insert into visit select n, n from generate_series(1, 1000) as n; analyze visit;
                 update customer set n = 1 where id = 7",
            )
            .await;
        let (key, name) = ("foreign-key-without-index:postgres:public.visit.visit_customer_fkey", "visit_customer_idx");
        for (point, left) in [("change-planned", None), ("change-written", Some(true))] {
            killed(&mut place.command(&["fix", key, "--yes"]), &format!("{point}=kill"));
            assert_eq!(place.change()["state"], "planned");
            assert_eq!(place.index(name).await.map(|(_, is_valid)| is_valid), left, "{point}");
            if left.is_none() {
                place.sql(&format!("create index {name} on visit (customer)")).await;
            }
            // As the server leaves it when it is killed in the middle of the build.
            place.sql(&format!("update pg_index set indisvalid = false where indexrelid = '{name}'::regclass")).await;
            if left.is_none() {
                // The change is closed, and its index stays.
                let closed = place.doctor(&["undo", "--keep"]).ends(0).stderr;
                assert_eq!(place.index(name).await.map(|(_, is_valid)| is_valid), Some(false));
                let (_, drop) = closed.split_once("then run this in the database postgres: ").expect(&closed);
                assert_eq!(drop.trim_end(), format!("drop index concurrently if exists public.{name}"));
                place.sql(drop).await;
            } else {
                let undone = place.doctor(&["undo"]).ends(0).stderr;
                let says = "is none again: what the interrupted change had left of it is removed";
                assert!(undone.contains(says) && !undone.contains("already"), "{undone}");
            }
            assert_eq!(place.index(name).await, None, "{point}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_was_proven_is_built_in_the_words_of_the_server() {
    for build in dealt_builds().await {
        let place = Place::new(build).await;
        place
            .sql(
                "create table event (id int primary key, kind int, note text) with (autovacuum_enabled = off);
                 insert into event
                 select n, case when n > 19800 then 77 else n % 50 end, repeat('x', 200)
                 from generate_series(1, 20000) as n;
                 create index event_kind on event (kind); vacuum analyze event;
                 create table modem (mac text, n int, name text collate \"C.utf8\");
                 insert into modem select to_hex(n), n, n::text from generate_series(1, 10000) as n;
                 create unique index modem_mac on modem (lower(mac)); create index modem_n on modem (n);
                 create index modem_name on modem (name); analyze modem; grant select on event, modem to shop;
                 set enable_sort = off; select pg_stat_statements_reset();
                 select id from event where kind = 77 order by id limit 10; select from modem where mac = 'a1';
                 select from modem where n = 5::numeric; select from modem where name like 'b%'",
            )
            .await;
        let unproven = place.doctor(&["fix", "missed-index:postgres:public.modem_mac", "--yes"]).ends(2);
        assert!(unproven.stderr.contains("give fix the same --prove or --plan-as"), "{unproven:?}");
        for (key, name, definition) in [
            ("sort-index:postgres:public.event_pkey", "event_kind_id_idx", "public.event USING btree (kind, id)"),
            ("missed-index:postgres:public.modem_mac", "modem_mac_idx", "public.modem USING btree (mac)"),
            (
                "missed-index:postgres:public.modem_n",
                "modem_n_numeric_idx",
                "public.modem USING btree (((n)::numeric))",
            ),
            (
                "missed-index:postgres:public.modem_name",
                "modem_name_text_pattern_ops_idx",
                "public.modem USING btree (name text_pattern_ops)",
            ),
        ] {
            place.doctor(&["fix", key, "--plan-as", "shop", "--yes"]).ends(0);
            let definition = format!("{name} ON {definition}");
            assert_eq!(place.index(name).await, Some((definition.clone(), true)), "{key}");
            assert_eq!(behind(place.change()["value"].as_str().unwrap()), definition, "{key}");
            place.doctor(&["undo"]).ends(0);
            assert_eq!(place.index(name).await, None, "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_with_operators_of_an_extension_is_built_if_the_doctor_finds_them() {
    let mut was_tried = false;
    for build in builds().await {
        let place = Place::new(build).await;
        let there = "select exists (select from pg_available_extensions where name = 'pg_trgm')";
        if !place.client.query_one(there, &[]).await.unwrap().get::<_, bool>(0) {
            continue;
        }
        was_tried = true;
        place
            .sql(
                "create schema \"Own\"; create schema far; create extension pg_trgm schema public;
                 grant usage on schema \"Own\", far to shop; alter role shop set search_path = \"Own\", public, far;
                 create table \"Own\".modem (name text); create index modem_name on \"Own\".modem (name);
                 insert into \"Own\".modem select n::text from generate_series(1, 10000) as n; analyze \"Own\".modem;
                 alter table \"Own\".modem owner to shop; select pg_stat_statements_reset();
                 select from \"Own\".modem where name ilike 'b%'",
            )
            .await;
        let key = "missed-index:postgres:\"Own\".modem_name";
        let (name, clause) = ("modem_gin_name_gin_trgm_ops_idx", "\"Own\".modem USING gin (name");
        let fix = || place.doctor(&["fix", key, "--plan-as", "shop", "--yes"]);
        for schema in ["public", "\"Own\""] {
            place.sql(&format!("alter extension pg_trgm set schema {schema}")).await;
            fix().ends(0);
            let change = place.change();
            assert_eq!(
                behind(change["value"].as_str().unwrap()),
                format!("{name} ON {clause} {schema}.gin_trgm_ops)"),
                "other sessions find the operators, too"
            );
            assert_eq!(place.index(&format!("\"Own\".{name}")).await.map(|(_, is_valid)| is_valid), Some(true));
            place.doctor(&["undo"]).ends(0);
            assert_eq!(place.index(&format!("\"Own\".{name}")).await, None);
        }

        // Only sessions of the role look there.
        place.sql("alter extension pg_trgm set schema far").await;
        let refused = fix().ends(2).stderr;
        let why = "looks only into the schemas pg_catalog, \"Own\", public; create the index by hand: ";
        let (_, by_hand) = refused.split_once(why).expect(&refused);
        let by_hand = by_hand.lines().next().unwrap();
        assert!(by_hand.starts_with("create index concurrently modem_gin"), "{by_hand}");
        place.sql(&format!("set search_path = \"Own\", far; {by_hand}")).await;
        assert!(place.index(name).await.is_some());
    }
    if !was_tried {
        skip("no build has the extension pg_trgm");
    }
}
