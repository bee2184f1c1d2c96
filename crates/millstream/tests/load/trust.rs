//! Every command refuses a schema of ours whose owner could run code with the rights of the user.

use crate::process::{Run, command, millstream, run};
use millstream_testkit::{TestDatabase, each_build};
use serde_json::Value;
use tokio_postgres::Client;

/// What mallory, who owns the schema, makes of each of our tables: a view that makes mallory a superuser when a
/// superuser reads it.
const TRAP: &str = "
    create function millstream.pw(text) returns text language plpgsql as $$
    begin
        execute 'alter role MALLORY superuser';
        return $1;
    exception when others then
        return $1;
    end $$;
    do $$
    declare
        our record;
    begin
        for our in select relname from pg_class where relnamespace = 'millstream'::regnamespace and relkind = 'r' loop
            execute format('alter table millstream.%I rename to %I', our.relname, our.relname || '0');
            execute format('create view millstream.%I as select * from millstream.%I where millstream.pw(''a'') = ''a''',
                           our.relname, our.relname || '0');
        end loop;
    end $$";

/// Every command that names something in our schema, but for its target.
const COMMANDS: &[&[&str]] = &[
    &["collections"],
    &["loads"],
    &["loads", "forget", "1"],
    &["loads", "prune", "--older-than", "1d"],
    &["models"],
    &["get", "events", "1"],
    &["rejects", "events"],
    &["distinct", "events", "id"],
    &["drop", "events", "--yes"],
    &["compact", "events"],
    &["freeze", "events"],
    &["publish", "events", "--as", "events_read"],
    &["refresh", "events_read"],
    &["unpublish", "events_read"],
    &["explain-index", "events_read", "select * from events_read"],
    &["load", "FILE", "--into", "events", "--key", "id:bigint"],
    &["load", "FILE", "--into", "events", "--key", "id:bigint", "--dry-run"],
    &["verify", "FILE", "--into", "events", "--key", "id:bigint"],
];

/// A database of mallory's, in which a superuser has loaded and published.
pub(crate) struct Trap {
    client: Client,
    pub(crate) mallory: String,
    url: String,
    dir: tempfile::TempDir,
}

impl Trap {
    async fn new(db: &TestDatabase) -> Self {
        let trap = Self {
            client: db.client().await,
            mallory: format!("{}_mallory", db.name),
            url: db.url(),
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::write(trap.dir.path().join("events.ndjson"), "{\"id\":1}\n{\"id\":2}\n").unwrap();
        trap.millstream(&["load", "FILE", "--into", "events", "--key", "id:bigint"]).ends(0);
        trap.millstream(&["publish", "events", "--as", "events_read"]).ends(0);
        trap.run("create role MALLORY login password 'm'; alter schema millstream owner to MALLORY").await;
        trap.run(
            "do $$ declare our text; begin
                 for our in select format('alter table millstream.%I owner to MALLORY', relname) from pg_class
                            where relnamespace = 'millstream'::regnamespace and relkind in ('r', 'p')
                 loop execute our; end loop;
             end $$",
        )
        .await;
        trap
    }

    /// The same database, but the superuser owns the schema.
    pub(crate) async fn beside_the_schema(db: &TestDatabase) -> Self {
        let trap = Self::new(db).await;
        trap.run(
            "alter schema millstream owner to current_user;
                  reassign owned by MALLORY to current_user;",
        )
        .await;
        trap
    }

    pub(crate) async fn run(&self, sql: &str) {
        let sql = sql.replace("MALLORY", &self.mallory);
        self.client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub(crate) fn millstream(&self, args: &[&str]) -> Run {
        let file = self.dir.path().join("events.ndjson");
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "FILE" { file.to_str().unwrap() } else { arg }).collect();
        millstream(&[&args[..], &["--db", &self.url]].concat())
    }

    pub(crate) async fn mallory_is_superuser(&self) -> bool {
        let sql = "select rolsuper from pg_roles where rolname = $1";
        self.client.query_one(sql, &[&self.mallory]).await.unwrap().get(0)
    }

    pub(crate) async fn end(self) {
        self.run("reassign owned by MALLORY to current_user; drop owned by MALLORY; drop role MALLORY").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_runs_code_of_the_schemas_owner() {
    each_build(async |db| {
        let trap = Trap::new(&db).await;
        trap.run(&format!("set role MALLORY; {TRAP}; reset role")).await;
        for args in COMMANDS {
            let refused = trap.millstream(args).ends(2);
            let expected =
                format!("error: schema \"millstream\" is not safe to use: it belongs to role {}", trap.mallory);
            assert!(refused.stderr.contains(&expected), "{args:?}: {refused:?}");
            assert!(refused.stderr.contains(&format!("--trust-owner {}", trap.mallory)), "{args:?}: {refused:?}");
            assert!(!trap.mallory_is_superuser().await, "{args:?}");
        }
        let doctor = trap.millstream(&["doctor", "--check", "model-behind,log-not-compacted", "--one-database"]);
        assert!(doctor.code < 2 && !trap.mallory_is_superuser().await, "{doctor:?}");
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_the_user_trusts_is_no_obstacle() {
    each_build(async |db| {
        let trap = Trap::new(&db).await;
        trap.millstream(&["collections"]).ends(2);
        let listed = trap.millstream(&["collections", "--trust-owner", &trap.mallory]).ends(0);
        assert!(listed.stdout.contains("events"), "{listed:?}");
        let mut by_variable = command(&["collections", "--db", &trap.url]);
        run(by_variable.env("MILLSTREAM_TRUST_OWNER", &trap.mallory)).ends(0);
        trap.millstream(&["load", "FILE", "--into", "more", "--key", "id:bigint", "--trust-owner", &trap.mallory])
            .ends(0);
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_is_warned_of_code_of_the_tables_owner() {
    each_build(async |db| {
        let trap = Trap::new(&db).await;
        trap.run("reassign owned by MALLORY to current_user").await;
        trap.run(
            "create schema theirs authorization MALLORY; set role MALLORY;
             create table theirs.events (id bigint primary key, doc jsonb not null check (doc is not null)); reset role",
        )
        .await;
        let into = ["--into", "theirs.events", "--key", "id:bigint", "--adopt"];
        let warning = format!("warning: code of role {} runs with your rights", trap.mallory);
        let loaded = trap.millstream(&[&["load", "FILE"], &into[..]].concat()).ends(0);
        assert!(loaded.stderr.contains(&warning) && loaded.stderr.contains("check events_doc_check"), "{loaded:?}");
        let mut trusting = into.to_vec();
        trusting.extend(["--trust-owner", &trap.mallory]);
        let loaded = trap.millstream(&[&["load", "FILE"], &trusting[..]].concat()).ends(0);
        assert!(!loaded.stderr.contains("runs with your rights"), "{loaded:?}");
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_reads_no_view_in_the_place_of_a_table_and_drops_nothing_for_others() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        // Mallory owns the collection's table and may write the records of it.
        trap.run(
            "grant usage on schema millstream to MALLORY; grant create on schema public to MALLORY;
             grant select, insert, update, delete on all tables in schema millstream to MALLORY;
             create table public.kept (id text primary key, doc jsonb not null);
             alter table public.events owner to MALLORY; set role MALLORY;
             create function public.grab(jsonb) returns bool language plpgsql as $$
             begin
                 execute 'alter role MALLORY superuser';
                 return true;
             exception when others then
                 return true;
             end $$;
             create index traced on public.events ((doc ->> 'a')); reset role",
        )
        .await;
        let read = [&["get", "events", "1"][..], &["distinct", "events", "id"]];
        let verify = ["verify", "FILE", "--into", "events", "--key", "id:bigint"];
        for args in read.iter().chain(&[&verify[..]]) {
            let found = trap.millstream(args);
            let warned = format!(
                "code of role {} runs with your rights when the collection is read: index traced",
                trap.mallory
            );
            assert!(found.code == 0 && (found.stderr + &found.stdout).contains(&warned), "{args:?}");
        }
        for args in ["drop", "freeze"] {
            let refused = trap.millstream(&[args, "events", "--yes"]).ends(2);
            assert!(refused.stderr.contains("may write in the schema"), "{args}: {refused:?}");
        }
        trap.run(
            "set role MALLORY; alter table public.events rename to moved;
             create view public.events as select * from public.moved where public.grab(doc); reset role;
             update millstream.collection set table_oid = 'public.events'::regclass where table_name = 'events'",
        )
        .await;
        for args in read.iter().chain(&[&verify[..]]) {
            let refused = trap.millstream(args);
            assert!(refused.code == 2, "{args:?}: {refused:?}");
            assert!(!trap.mallory_is_superuser().await, "{args:?}");
        }
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_plans_nothing_that_another_role_may_change_meanwhile() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        trap.run(
            "grant all on schema millstream, public to MALLORY;
             grant all on all tables in schema millstream to MALLORY;
             grant all on all sequences in schema millstream to MALLORY; create schema evil authorization MALLORY;
             set role MALLORY;
             create function evil.take() returns bool language plpgsql as $$
             begin
                 execute 'alter role MALLORY createrole';
                 return true;
             exception when others then
                 return true;
             end $$;
             create function evil.grab() returns bool language plpgsql immutable as 'begin return evil.take(); end';
             create function evil.eq(name, name) returns bool language sql as 'select evil.grab() and $1::text = $2::text';
             create operator evil.= (leftarg = name, rightarg = name, function = evil.eq); reset role",
        )
        .await;
        let address = trap.url.rsplit_once('@').expect("it names a user").1;
        let theirs = format!("postgres://{}:m@{address}", trap.mallory);
        let file = trap.dir.path().join("events.ndjson");
        let load = ["load", file.to_str().unwrap(), "--into", "theirs", "--key", "id:bigint"];
        for args in [&load[..], &["publish", "theirs", "--as", "theirs_read"]] {
            millstream(&[args, &["--db", &theirs]].concat()).ends(0);
        }
        let waiting = |run: Run| -> Value {
            let models: Value = serde_json::from_str(&run.stdout).unwrap();
            let model = models.as_array().unwrap().iter().find(|model| model["name"]["table"] == "theirs_read");
            model.unwrap_or_else(|| panic!("{models}"))["waiting_changes"].clone()
        };
        let models = ["models", "--output", "json"];
        assert_eq!(waiting(millstream(&[&models[..], &["--db", &theirs]].concat()).ends(0)), 0);
        // It would plan a query of a table to which mallory can give an index at any moment.
        assert_eq!(waiting(trap.millstream(&models).ends(0)), Value::Null);

        trap.run(
            "set role MALLORY;
             do $$ begin
                 execute format('create or replace view public.theirs_read as select * from (%s) as shown where evil.grab()',
                                rtrim(pg_get_viewdef('public.theirs_read'::regclass), ';'));
             end $$;
             reset role",
        )
        .await;
        let explain = ["explain-index", "theirs_read", "select from theirs_read where id = 1"];
        let refused = trap.millstream(&explain).ends(2);
        assert!(refused.stderr.contains(&format!("a view of role {}", trap.mallory)), "{refused:?}");
        trap.run(
            "do $$ begin
                 execute format('alter database %I set search_path = evil, pg_catalog', current_database());
             end $$",
        )
        .await;
        trap.millstream(&["get", "public.events", "1"]).ends(0);
        let sql = "select rolcreaterole from pg_roles where rolname = $1";
        assert!(!trap.client.query_one(sql, &[&trap.mallory]).await.unwrap().get::<_, bool>(0));
        trap.end().await;
    })
    .await;
}

/// Code of mallory's in the schema `app`, which comes first on the search path. A superuser who calls it makes mallory one.
const APP: &str = "
    create schema app authorization MALLORY; set role MALLORY;
    create function app.take() returns bool language plpgsql as $$
    begin
        execute 'alter role MALLORY superuser';
        return true;
    exception when others then
        return true;
    end $$;
    create function app.sep(text) returns text language plpgsql immutable as 'begin perform app.take(); return $1; end';
    create domain app.dom as text check (app.take());
    create table app.w (id bigint primary key, doc jsonb not null, tags app.dom[]);
    create view app.v as select id, app.sep('-') as s from app.w; reset role;
    do $$ begin execute format('alter database %I set search_path = app, public', current_database()); end $$";

#[tokio::test(flavor = "multi_thread")]
async fn a_check_or_a_query_that_names_code_of_others_is_refused_to_a_superuser() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        trap.run(APP).await;
        let load = ["load", "FILE", "--into", "public.fresh", "--key", "id:bigint"];
        let check = ["--check", "sep('-') = '-'"];
        for more in [&check[..], &[check[0], check[1], "--dry-run"]] {
            let refused = trap.millstream(&[&load[..], more].concat()).ends(2);
            let expected = format!("role {} may change what the check's functions", trap.mallory);
            assert!(refused.stderr.contains(&expected), "{more:?}: {refused:?}");
            assert!(refused.stderr.contains(&format!("--trust-owner {}", trap.mallory)), "{more:?}: {refused:?}");
            assert!(!trap.mallory_is_superuser().await, "{more:?}");
        }
        let own = ["--check", "lower(doc->>'sep') is null"];
        trap.millstream(&[&load[..], &own].concat()).ends(0);
        let mut adopt = load.to_vec();
        (adopt[3], adopt[5]) = ("app.w", "id");
        adopt.push("--adopt");
        trap.millstream(&[&adopt[..], &["--check", "tags is null or tags <> '{x}'"]].concat()).ends(2);
        trap.millstream(&adopt).ends(0);
        for (query, expected) in [
            ("select from public.events where doc->>'a' = sep('-')", "may change what the query's functions"),
            ("select s from public.events join app.v using (id)", "the relation v belongs to role"),
        ] {
            let refused = trap.millstream(&["explain-index", "public.events", query]).ends(2);
            assert!(refused.stderr.contains(expected), "{query}: {refused:?}");
        }
        assert!(!trap.mallory_is_superuser().await);
        trap.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_is_warned_before_code_of_others_runs_and_not_of_ours() {
    each_build(async |db| {
        let trap = Trap::beside_the_schema(&db).await;
        trap.run(
            "grant create on schema public to MALLORY; alter table public.events owner to MALLORY; set role MALLORY;
             create index traced on public.events ((doc ->> 'a')); reset role",
        )
        .await;
        let traced = format!("code of role {} runs with your rights when the collection is read", trap.mallory);
        let failing = ["publish", "events", "--as", "failing", "--where", "1 / (id - id) = 1"];
        let failed = trap.millstream(&failing).ends(2);
        assert_eq!(failed.stderr.matches(&traced).count(), 1, "{failed:?}");
        let (warned, error) = (failed.stderr.find(&traced), failed.stderr.find("error: "));
        assert!(warned < error, "{failed:?}");
        let refreshed = trap.millstream(&["refresh", "events_read"]).ends(0);
        assert_eq!(refreshed.stderr.matches(&traced).count(), 1, "{refreshed:?}");

        let loaded = trap.millstream(&["load", "FILE", "--into", "events", "--key", "id:bigint"]).ends(0);
        assert!(loaded.stderr.contains("index traced") && !loaded.stderr.contains("millstream_changed"), "{loaded:?}");
        let frozen = trap.millstream(&["freeze", "events", "--yes"]).ends(0);
        assert_eq!(frozen.stderr.matches(&traced).count(), 1, "{frozen:?}");

        // To plan a query in a read-only session fails.
        trap.run(
            "set role MALLORY;
             create function public.writes() returns bool language plpgsql immutable as $$
             begin
                 if current_setting('transaction_read_only') = 'on' then
                     raise 'it cannot write';
                 end if;
                 return true;
             end $$;
             create index writes on public.events (id) where public.writes(); reset role",
        )
        .await;
        let failed = trap.millstream(&["verify", "FILE", "--into", "events", "--key", "id:bigint"]).ends(2);
        assert_eq!(failed.stderr.matches(&traced).count(), 1, "{failed:?}");
        let (warned, error) = (failed.stderr.find(&traced), failed.stderr.find("it cannot write"));
        assert!(error.is_some() && warned < error, "{failed:?}");
        trap.end().await;
    })
    .await;
}
