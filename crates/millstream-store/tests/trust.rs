//! Which schemas are trusted, by which roles. `mallory` is a role without rights of its own.

use millstream_pg::Explained;
use millstream_store::{Access, Error, Schema, foreign_code, segments};
use millstream_testkit::{TestDatabase, connect, every_build, until};
use tokio_postgres::Client;

/// Our tables, made by a superuser, and a login role of this test alone.
struct Place {
    superuser: Client,
    url: String,
    mallory: String,
}

impl Place {
    async fn new(db: &TestDatabase) -> Self {
        let mut superuser = db.client().await;
        schema().ensure(&mut superuser).await.expect("our tables can be made");
        let mallory = format!("{}_mallory", db.name);
        let place = Self { superuser, url: db.url(), mallory };
        place.run("create role MALLORY login password 'm'; grant usage, create on schema millstream to MALLORY").await;
        place
    }

    /// Runs statements as superuser.
    async fn run(&self, sql: &str) {
        let sql = sql.replace("MALLORY", &self.mallory);
        self.superuser.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// How a role of this server connects.
    fn of(&self, role: &str) -> String {
        let address = self.url.rsplit_once('@').expect("it names a user").1;
        format!("postgres://{role}:m@{address}")
    }

    /// Runs statements, which may fail, in a session of mallory's.
    async fn run_as_mallory(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        connect(&self.of(&self.mallory)).await.batch_execute(&sql.replace("MALLORY", &self.mallory)).await
    }

    /// The problem and the owner that the check names, `None` if it trusts the schema.
    async fn problem(client: &Client, schema: &Schema) -> Option<(String, Option<String>)> {
        match schema.require_trusted(client).await {
            Ok(()) => None,
            Err(Error::Untrusted { problem, owner, .. }) => Some((problem, owner)),
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn end(self) {
        self.run("reassign owned by MALLORY to current_user; drop owned by MALLORY cascade; drop role MALLORY").await;
    }
}

fn schema() -> Schema {
    Schema::new("millstream")
}

/// What somebody can do to our schema, and how the refusal begins. `true`: the refusal names mallory as the owner.
const CASES: &[(&str, &str, bool)] = &[
    ("alter schema millstream owner to MALLORY", "it belongs to role", true),
    ("alter table millstream.load owner to MALLORY", "its relation load belongs to role", true),
    ("alter sequence millstream.run_number owner to MALLORY", "its relation run_number belongs to role", true),
    ("alter function millstream.merge_deep(jsonb, jsonb) owner to MALLORY", "its function merge_deep belongs", true),
    (
        "set role MALLORY; create function millstream.merge_deep(jsonb, text) returns jsonb language sql as 'select $1'; \
         reset role",
        "its function merge_deep belongs to role",
        true,
    ),
    ("set role MALLORY; create view millstream.segment_7 as select 1; reset role", "its relation segment_7", true),
    (
        "alter table millstream.load rename to load0; create view millstream.load as select * from millstream.load0",
        "load is not the table that Millstream makes",
        false,
    ),
    ("create rule heard as on insert to millstream.load do also select 1", "table load has the rule heard", false),
    ("alter table millstream.meta enable row level security", "table meta has row-level security", false),
    (
        "set role MALLORY; create table millstream.segment_8 (id text); \
         alter table millstream.segment_8 enable row level security; reset role",
        "table segment_8 has row-level security",
        false,
    ),
    (
        "create schema theirs authorization MALLORY; grant trigger on millstream.load to MALLORY; set role MALLORY; \
         create function theirs.hear() returns trigger language plpgsql as 'begin return new; end'; \
         create trigger heard before update on millstream.load for each row execute function theirs.hear(); reset role",
        "table load has the trigger heard",
        false,
    ),
    (
        "grant trigger on millstream.load to MALLORY; set role MALLORY; \
         create trigger heard before update on millstream.load for each row when (query_to_xml(new.mode, true, true, '') \
         is not null) execute function suppress_redundant_updates_trigger(); reset role",
        "table load has the trigger heard",
        false,
    ),
    (
        "create function public.now() returns timestamptz language sql as 'select pg_catalog.now()'; \
         alter table millstream.load alter column started_at set default public.now()",
        "column started_at of table load has the default public.now()",
        false,
    ),
    (
        "alter table millstream.load add check (collection <> 'x')",
        "table load has the check load_collection_check",
        false,
    ),
    ("create index odd on millstream.load (lower(state))", "table load has the index odd", false),
    ("create index odd on millstream.load (state) where lanes > 1", "table load has the index odd", false),
    ("create statistics odd on mode, state from millstream.load", "table load has the statistics odd", false),
    (
        "create table public.child () inherits (millstream.segment)",
        "table segment inherits, or is inherited from",
        false,
    ),
    (
        "create domain public.short as text; alter table millstream.reject alter detail type public.short",
        "column detail of table reject has a type that is not PostgreSQL's own",
        false,
    ),
    (
        "create table public.fk (id bigint references millstream.load on delete cascade)",
        "table fk references table load",
        false,
    ),
    // Planning a query of it is enough to run such code.
    (
        "set role MALLORY; create table millstream.segment_9 (id text); \
         create index odd on millstream.segment_9 (lower(id)); reset role",
        "table segment_9 has the index odd",
        false,
    ),
    (
        "set role MALLORY; create table millstream.segment_9 (id text, doc text); \
         create statistics millstream.odd on id, doc from millstream.segment_9; reset role",
        "table segment_9 has the statistics odd",
        false,
    ),
    (
        "set role MALLORY; create table millstream.change_9 (id text check (id <> '')); reset role",
        "table change_9 has the check change_9_id_check",
        false,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_in_which_others_could_run_code_is_refused() {
    every_build(async |db| {
        let place = Place::new(&db).await;
        assert_eq!(Place::problem(&place.superuser, &schema()).await, None);
        for (change, expected, names_owner) in CASES {
            place.run(&format!("begin; {change}")).await;
            let (problem, owner) = Place::problem(&place.superuser, &schema()).await.expect(change);
            assert!(problem.starts_with(expected), "{change}: {problem}");
            assert_eq!(owner.as_ref() == Some(&place.mallory), *names_owner, "{change}: {owner:?}");
            if *names_owner {
                let trusting = schema().trusting(vec![place.mallory.clone()]);
                assert_eq!(Place::problem(&place.superuser, &trusting).await, None, "{change}");
            }
            place.run("rollback").await;
        }
        place.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_harms_nobody_is_trusted() {
    every_build(async |db| {
        let place = Place::new(&db).await;
        for change in [
            // A segment, a model and a change record of another role that loads and publishes.
            "set role MALLORY; create table millstream.segment_7 (id text primary key); \
             create table millstream.model_7 (g int) partition by list (g); reset role",
            "create view millstream.mine as select * from millstream.load",
            "set role MALLORY; create view millstream.nuisance as select 1; reset role",
            "create function public.audit() returns trigger language plpgsql as 'begin return new; end'; \
             create trigger audit after update on millstream.load for each row execute function public.audit()",
            "create role other_MALLORY superuser; alter schema millstream owner to other_MALLORY",
        ] {
            place.run(&format!("begin; {change}")).await;
            assert_eq!(Place::problem(&place.superuser, &schema()).await, None, "{change}");
            place.run("rollback").await;
        }
        let nowhere = Schema::new("nowhere");
        assert_eq!(Place::problem(&place.superuser, &nowhere).await, None);
        place.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_rights_that_somebody_gave_make_an_owner_trusted() {
    every_build(async |db| {
        let place = Place::new(&db).await;
        let loader = format!("{}_loader", db.name);
        place
            .run(&format!("create role {loader} login password 'm'; grant usage on schema millstream to {loader}"))
            .await;
        let as_loader = connect(&place.of(&loader)).await;
        assert_eq!(Place::problem(&as_loader, &schema()).await, None, "a superuser's schema");

        place.run("alter schema millstream owner to MALLORY").await;
        let is_refused = async |client: &Client, why: &str| {
            let (_, owner) = Place::problem(client, &schema()).await.expect(why);
            assert_eq!(owner.as_ref(), Some(&place.mallory), "{why}");
        };
        is_refused(&as_loader, "a stranger's schema").await;
        // Before PostgreSQL 16, every role may do so.
        let granted = place.run_as_mallory(&format!("grant MALLORY to {loader}")).await.is_ok();
        println!("mallory can make others members: {granted}");
        is_refused(&as_loader, "a membership that the owner gave").await;
        let superuser: String =
            place.superuser.query_one("select current_user::text", &[]).await.expect("the server answers").get(0);
        let _ = place.run_as_mallory(&format!("grant MALLORY to {superuser}")).await;
        is_refused(&place.superuser, "a membership that the owner gave to a superuser").await;
        place.run("set role MALLORY").await;
        is_refused(&place.superuser, "the session is still a superuser's").await;
        place.run(&format!("reset role; revoke MALLORY from {superuser}; revoke MALLORY from {loader}")).await;
        place.run(&format!("grant MALLORY to {loader}")).await;
        // The schema alone is mallory's. Our tables belong to the superuser.
        assert_eq!(Place::problem(&as_loader, &schema()).await, None, "a member");
        let as_mallory = connect(&place.of(&place.mallory)).await;
        assert_eq!(Place::problem(&as_mallory, &schema()).await, None, "the owner");

        let own =
            format!("alter schema millstream owner to pg_database_owner; alter database {} owner to MALLORY", db.name);
        place.run(&own).await;
        let (problem, _) = Place::problem(&place.superuser, &schema()).await.expect("the database's owner");
        assert!(problem.starts_with("it belongs to role"), "{problem}");
        assert_eq!(Place::problem(&as_mallory, &schema()).await, None, "the database's owner");
        place
            .run(&format!(
                "alter database {} owner to current_user; drop owned by {loader}; drop role {loader}",
                db.name
            ))
            .await;
        place.end().await;
    })
    .await;
}

/// Statements that make the table `events`, and what is named of mallory's code in it.
const CODE: &[(&str, Option<&str>)] = &[
    ("create table events (id text primary key, doc jsonb not null)", None),
    ("set role MALLORY; create table events (id text primary key, doc jsonb not null)", None),
    (
        "set role MALLORY; create table events (id text primary key, doc jsonb not null check (theirs.is_good(doc)), \
         at timestamptz default now(), n int generated always as (1) stored); \
         create index odd on events (theirs.is_good(doc)); \
         create trigger heard before insert on events for each row execute function theirs.hear()",
        Some("check events_doc_check, default of at, default of n, index odd, trigger heard"),
    ),
    (
        "create table events (id text primary key, doc jsonb not null); grant trigger on events to MALLORY; \
         set role MALLORY; create trigger heard before insert on events for each row execute function theirs.hear()",
        Some("trigger heard"),
    ),
    (
        "create table events (id text primary key, doc jsonb not null check (theirs.is_good(doc)))",
        Some("check events_doc_check"),
    ),
    ("create table events (id theirs.short primary key, doc jsonb not null)", Some("domain short")),
    (
        "create table events (id text primary key, doc jsonb not null) partition by hash (id); set role MALLORY; \
         create table events_0 (id text not null, doc jsonb not null check (theirs.is_good(doc))); reset role; \
         alter table events attach partition events_0 for values with (modulus 1, remainder 0)",
        Some("check events_0_doc_check"),
    ),
    (
        "set role MALLORY; create table events (id text primary key, doc jsonb not null); \
         create statistics theirs.odd on (lower(id)), (upper(id)) from events",
        Some("statistics odd"),
    ),
    (
        "create table events (id text primary key, doc jsonb not null); grant references on events to MALLORY; \
         set role MALLORY; create table theirs.fk (id text references public.events on delete cascade); \
         create trigger heard after delete on theirs.fk for each row execute function theirs.hear()",
        Some("trigger heard"),
    ),
    (
        "create table events (id text primary key, doc jsonb not null); grant trigger on events to MALLORY; \
         set role MALLORY; alter function theirs.hear() security definer; \
         create trigger heard before insert on events for each row when (theirs.is_good(new.doc)) \
         execute function theirs.hear()",
        Some("trigger heard"),
    ),
    // It may leave a cursor open, which the commit reads, and mallory may take `security definer` away.
    (
        "create table events (id text primary key, doc jsonb not null); grant trigger on events to MALLORY; \
         set role MALLORY; alter function theirs.hear() security definer; \
         create trigger heard before insert on events for each row execute function theirs.hear()",
        Some("trigger heard"),
    ),
    // A row that a foreign key references is looked up. Nothing else of that table runs.
    (
        "set role MALLORY; grant usage on schema theirs to public; \
         create table theirs.kinds (id text primary key, kind theirs.short default lower('A') check (kind <> ''), \
         doc jsonb); create index looked_up on theirs.kinds (theirs.is_good(doc)); \
         create trigger heard before insert on theirs.kinds for each row execute function theirs.hear(); \
         grant references on theirs.kinds to public; reset role; \
         create table events (id text primary key references theirs.kinds, doc jsonb not null)",
        Some("index looked_up"),
    ),
    (
        "create table events (id text primary key, doc jsonb not null); grant usage on schema theirs to public; \
         create table events_more () inherits (events); alter table events_more owner to MALLORY; set role MALLORY; \
         alter table events_more add check (theirs.is_good(doc))",
        Some("check events_more_doc_check"),
    ),
    (
        "create table events (id text, doc jsonb not null) partition by list (theirs.is_good(doc))",
        Some("partition key of events"),
    ),
    (
        "create table theirs.above (id text, doc jsonb not null) partition by list (theirs.is_good(doc)); \
         create table events partition of theirs.above for values in (true)",
        Some("partition key of above"),
    ),
    (
        "create table events (id text, doc jsonb not null) partition by range (id theirs.odd)",
        Some("partition key of events"),
    ),
    (
        "create table events (id text primary key, doc jsonb not null); create index odd on events (id theirs.odd)",
        Some("index odd"),
    ),
    (
        "create type theirs.pair as (name theirs.short); \
         create table events (id text primary key, doc jsonb not null, more theirs.pair[])",
        Some("domain short"),
    ),
    (
        "create domain theirs.wide as theirs.short; \
         create type theirs.span as range (subtype = theirs.wide, multirange_type_name = theirs.spans); \
         create table events (id text primary key, doc jsonb not null, more theirs.spans)",
        Some("domain short"),
    ),
    (
        "create domain theirs.wide as jsonb check (theirs.is_good(value)); \
         create table events (id text primary key, doc jsonb not null, more theirs.wide)",
        Some("domain wide"),
    ),
    (
        "create type theirs.span as range (subtype = float8, subtype_diff = theirs.far); \
         create table events (id text primary key, doc jsonb not null, more theirs.span)",
        Some("type span"),
    ),
    (
        "set role MALLORY; create type theirs.colour as enum ('red'); \
         create function theirs.shown(theirs.colour) returns json language sql return 'null'::json; \
         create cast (theirs.colour as json) with function theirs.shown(theirs.colour); reset role; \
         create table events (id text primary key, doc jsonb not null, more theirs.colour[])",
        Some("type colour"),
    ),
    (
        "create table events (id text primary key, doc jsonb not null check ((doc ->> 'a')::theirs.short is not null))",
        Some("domain short"),
    ),
    // The trigger of a change record on a table of mallory's: who may not call its function has not made it.
    (
        "revoke execute on function millstream.change_7_key() from public; \
         create table events (id text primary key, doc jsonb not null); alter table events owner to MALLORY; \
         create trigger ours after update on events for each row when (old.id <> new.id) \
         execute function millstream.change_7_key()",
        None,
    ),
    (
        "revoke execute on function millstream.change_7_key() from public; \
         create table events (id text primary key, doc jsonb not null); alter table events owner to MALLORY; \
         create trigger ours after update on events for each row when (theirs.is_good(new.doc)) \
         execute function millstream.change_7_key()",
        Some("trigger ours"),
    ),
    (
        "revoke execute on function millstream.change_7_record() from public; \
         create table events (id text primary key, doc jsonb not null); alter table events owner to MALLORY; \
         create trigger ours after insert on events for each statement execute function millstream.change_7_record()",
        None,
    ),
    (
        "create table events (id text primary key, doc jsonb not null); alter table events owner to MALLORY; \
         create trigger ours after insert on events for each statement execute function millstream.change_7_record()",
        Some("trigger ours"),
    ),
    (
        "set role MALLORY; create table events (id text primary key, doc jsonb not null); \
         create trigger ours after update on events for each row when (old.id <> new.id) \
         execute function millstream.change_7_key()",
        Some("trigger ours"),
    ),
];

/// Code of mallory's, an operator class that a superuser made of it, and functions of ours.
const SCENE: &str = "create schema theirs authorization MALLORY; set role MALLORY; \
     create function theirs.is_good(jsonb) returns bool language plpgsql immutable as 'begin return true; end'; \
     create function theirs.hear() returns trigger language plpgsql as 'begin return new; end'; \
     create function theirs.far(float8, float8) returns float8 language sql immutable as 'select $1 - $2'; \
     create function theirs.compare(text, text) returns int language plpgsql immutable \
     as 'begin return bttextcmp($1, $2); end'; \
     create domain theirs.short as text check (length(value) < 9); reset role; \
     create operator class theirs.odd for type text using btree as operator 1 <, operator 2 <=, operator 3 =, \
     operator 4 >=, operator 5 >, function 1 theirs.compare(text, text); \
     create function millstream.change_7_key() returns trigger language plpgsql security definer \
     as 'begin return null; end'; \
     create function millstream.change_7_record() returns trigger language plpgsql security definer \
     as 'begin return null; end'";

#[tokio::test(flavor = "multi_thread")]
async fn code_of_others_in_a_collection_is_named_to_those_with_more_rights() {
    every_build(async |db| {
        let place = Place::new(&db).await;
        place.run("grant create on schema public to MALLORY").await;
        let named = async |client: &Client, schema: &Schema, access: Access| {
            let oid = client.query_one("select 'public.events'::regclass::oid", &[]).await.expect("a table").get(0);
            foreign_code(client, schema, oid, access).await.expect("the server answers")
        };
        let (whole, plain) = (schema(), format!("{}_plain", db.name));
        let [member, boss, runner, reader] =
            ["member", "boss", "runner", "reader"].map(|role| format!("{}_{role}", db.name));
        place
            .run(&format!(
                "create role {plain} login password 'm'; create role {boss} bypassrls; \
                 create role {member} login password 'm' noinherit in role {boss}; \
                 create role {runner} login password 'm' in role pg_execute_server_program; \
                 create role {reader} login password 'm' in role pg_read_all_data, pg_write_all_data"
            ))
            .await;
        let as_plain = connect(&place.of(&plain)).await;
        let mut powerful = Vec::new();
        for role in [&member, &runner, &reader] {
            powerful.push(connect(&place.of(role)).await);
        }
        for (make, code) in CODE {
            place.run(&format!("set search_path = public; {SCENE}; {make}; reset role")).await;
            let owner = &place.mallory;
            let warning = |code: &str, when: &str| {
                format!("code of role {owner} runs with your rights {when}: {code}; connect as {owner} instead")
            };
            let expected = Vec::from_iter(code.map(|code| warning(code, "for each document")));
            assert_eq!(named(&place.superuser, &whole, Access::Write).await, expected, "{make}");
            for client in &powerful {
                assert_eq!(named(client, &whole, Access::Write).await, expected, "{make}");
            }
            // Checks count where there are partitions or children, and what a row references only when it is written.
            let is_planned = |part: &&str| {
                let is_member = part.starts_with("check events_0") || part.starts_with("check events_more");
                let is_kind = |kind: &&str| part.starts_with(*kind);
                *part != "index looked_up"
                    && (is_member || ["index ", "statistics ", "partition ", "type "].iter().any(is_kind))
            };
            let planned: Vec<&str> = code.iter().flat_map(|code| code.split(", ")).filter(is_planned).collect();
            let planned = (!planned.is_empty()).then(|| planned.join(", "));
            let expected = Vec::from_iter(planned.map(|code| warning(&code, "when the collection is read")));
            assert_eq!(named(&place.superuser, &whole, Access::Read).await, expected, "{make}");
            let trusting = schema().trusting(vec![place.mallory.clone()]);
            assert_eq!(named(&place.superuser, &trusting, Access::Write).await, [""; 0], "{make}");
            assert_eq!(named(&as_plain, &whole, Access::Write).await, [""; 0], "{make}");
            let clear = "drop schema theirs cascade; drop table if exists events cascade; \
                         drop function millstream.change_7_key() cascade; \
                         drop function millstream.change_7_record() cascade";
            place.run(clear).await;
        }
        place.run(&format!("drop role {plain}, {member}, {runner}, {reader}, {boss}")).await;
        place.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_of_others_are_named_to_a_role_that_they_bind() {
    every_build(async |db| {
        let place = Place::new(&db).await;
        let runner = format!("{}_runner", db.name);
        place
            .run(&format!(
                "create role {runner} login password 'm' in role pg_execute_server_program; \
                 grant create on schema public to MALLORY; set role MALLORY; \
                 create table public.events (id text primary key, doc jsonb not null); \
                 create policy own on public.events using (id <> ''); reset role"
            ))
            .await;
        let row = place.superuser.query_one("select 'public.events'::regclass::oid", &[]).await.expect("a table");
        let oid: u32 = row.get(0);
        let runner_client = connect(&place.of(&runner)).await;
        let named = async |client: &Client| {
            foreign_code(client, &schema(), oid, Access::Read).await.expect("the server answers")
        };
        assert_eq!(named(&runner_client).await, [""; 0], "they are off");
        place.run("alter table public.events enable row level security").await;
        assert_eq!(named(&place.superuser).await, [""; 0], "they do not bind a superuser");
        let expected = format!(
            "code of role {0} runs with your rights when the collection is read: policy own; connect as {0} instead",
            place.mallory
        );
        assert_eq!(named(&runner_client).await, [expected]);
        place.run(&format!("drop role {runner}")).await;
        place.end().await;
    })
    .await;
}

/// A collection's table of a superuser with one segment, which is mallory's.
const SEGMENT: &str = "create table public.events (id text primary key, doc jsonb not null); grant select on public.events to MALLORY; \
     insert into millstream.segment (segment_id, table_oid, load_id, run_order, documents, bytes) \
         values (7, 'public.events'::regclass, 1, 1, 1, 2); \
     set role MALLORY; create table millstream.segment_7 (id text, doc text); \
     insert into millstream.segment_7 values ('a', '{}'); reset role";

async fn hold(client: &Client, schema: &Schema) -> Result<usize, Error> {
    let oid = client.query_one("select 'public.events'::regclass::oid", &[]).await.expect("a table").get(0);
    let held = segments::hold(client, schema, oid, &"events".parse().expect("a name")).await;
    if held.is_ok() {
        client.batch_execute("rollback").await.expect("the server answers");
    }
    held.map(|segments| segments.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_more_powerful_role_reads_no_segments_of_a_role_that_it_does_not_trust() {
    every_build(async |db| {
        let place = Place::new(&db).await;
        place.run(SEGMENT).await;
        let refused = hold(&place.superuser, &schema()).await.expect_err("it is mallory's");
        assert!(refused.to_string().ends_with(&format!("belong to role {}", place.mallory)), "{refused}");
        let hint = refused.hint().expect("a way out");
        assert!(hint.contains(&format!("connect as {0}", place.mallory)) && hint.contains("--trust-owner"), "{hint}");
        let trusting = schema().trusting(vec![place.mallory.clone()]);
        assert_eq!(hold(&place.superuser, &trusting).await.expect("it is trusted"), 1);
        let plain = format!("{}_plain", db.name);
        let grants = format!(
            "create role {plain} login password 'm'; grant usage on schema millstream to {plain};
             grant select on public.events, millstream.segment, millstream.segment_7 to {plain}"
        );
        place.run(&grants).await;
        assert_eq!(hold(&connect(&place.of(&plain)).await, &schema()).await.expect("it has no more rights"), 1);
        // Whoever has the rights of a superuser by a membership is as powerful.
        place.run(&format!("create role {plain}_boss superuser; grant {plain}_boss to {plain}")).await;
        hold(&connect(&place.of(&plain)).await, &schema()).await.expect_err("it can become a superuser");
        place.run("alter table public.events owner to MALLORY").await;
        assert_eq!(hold(&place.superuser, &schema()).await.expect("the table is mallory's too"), 1);
        place.run(&format!("drop owned by {plain}; drop role {plain}, {plain}_boss")).await;
        place.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_became_a_view_before_it_was_locked_is_not_read() {
    every_build(async |db| {
        let place = Place::new(&db).await;
        place.run(&format!("{SEGMENT}; alter table public.events owner to MALLORY")).await;
        let mallory = connect(&place.of(&place.mallory)).await;
        let swap = "begin; alter table millstream.segment_7 rename to kept;
                    create view millstream.segment_7 as select * from millstream.kept";
        mallory.batch_execute(swap).await.expect("both are mallory's");
        let reader = db.client().await;
        let reading = tokio::spawn(async move { hold(&reader, &schema()).await });
        let waits = "select count(*) from pg_locks where not granted and relation = 'millstream.segment_7'::regclass";
        until("the reader waits for the segment", async || {
            assert!(!reading.is_finished(), "it waits");
            place.superuser.query_one(waits, &[]).await.expect("the server answers").get::<_, i64>(0) > 0
        })
        .await;
        mallory.batch_execute("commit").await.expect("the server answers");
        let refused = reading.await.expect("it runs").expect_err("it is a view now");
        assert!(refused.to_string().contains("its relation segment_7 belongs to role"), "{refused}");
        drop(mallory);
        place.end().await;
    })
    .await;
}
