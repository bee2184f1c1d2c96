//! Who owns a model, with whose rights it is built, and which rights its readers need.

use crate::publish::{asked, publish_on, refresh_on, session, wanted};
use crate::republish::{materialized, number, things};
use crate::scene::{Files, appending, run, schema, surroundings};
use millstream_pg::Explained;
use millstream_publish::{Error, PublishRequest, Published, Refreshed, estimate, publish, refresh, unpublish};
use millstream_store::Schema;
use millstream_testkit::{TestDatabase, each_build, every_build};
use tokio_postgres::Client;

/// The roles of a test, and the collection `things`, which one of them owns.
struct Roles {
    client: Client,
    superuser: String,
    reader: String,
    owner: String,
    /// How the owner connects.
    owned: String,
}

impl Roles {
    async fn new(db: &TestDatabase) -> Self {
        let (client, superuser) = (things(db).await, db.url());
        let name: String =
            client.query_one("select current_database()::text", &[]).await.expect("the server answers").get(0);
        let (reader, owner) = (format!("{name}_reader"), format!("{name}_owner"));
        client
            .batch_execute(&format!(
                "create role {reader}; create role {owner} login password 'one';
                 grant usage on schema public to {reader}; grant all on schema public, millstream to {owner};
                 grant all on all tables in schema millstream to {owner};
                 grant all on all sequences in schema millstream to {owner};
                 alter table public.things owner to {owner}"
            ))
            .await
            .expect("the server answers");
        let address = superuser.rsplit_once('@').expect("it names a user").1;
        let owned = format!("postgres://{owner}:one@{address}");
        Self { client, superuser, reader, owner, owned }
    }

    /// Roles belong to the server and outlive the test's database.
    async fn end(self) {
        let Self { client, reader, owner, .. } = self;
        let drop = format!("drop owned by {reader}, {owner} cascade; drop role {reader}, {owner}");
        client.batch_execute(&drop).await.expect("the server answers");
    }
}

/// Our schema for a superuser, who trusts the other role: that role may write our tables.
fn trusting(url: &str) -> Schema {
    let database = url.rsplit_once('/').expect("it names a database").1;
    let database = database.split('?').next().expect("it is not empty");
    schema().trusting(vec![format!("{database}_owner")])
}

async fn publish_as(url: &str, request: &PublishRequest) -> Result<Published, Error> {
    let mut connection = session(url).await;
    let published = publish(&mut connection, &trusting(url), request).await;
    connection.close().await;
    published
}

async fn unpublish_as(url: &str, model: &str) -> Result<Option<String>, Error> {
    unpublish(&mut session(url).await, &trusting(url), &model.parse().expect("a name")).await
}

async fn refresh_as(url: &str, model: &str, way: Option<&str>) -> Result<Vec<Refreshed>, Error> {
    Box::pin(refresh(&surroundings(url).0.db, &trusting(url), &asked(&[model], way))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_need_the_view_alone() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, reader: reader_role, owned, .. } = &roles;
        publish_as(owned, &wanted("things", "model", &["a:int=a"], &["a"], None)).await.unwrap();
        refresh_as(owned, "model", Some("swap")).await.unwrap();
        client.batch_execute(&format!("grant select on public.model to {reader_role}")).await.unwrap();

        let reader = db.client().await;
        reader.batch_execute(&format!("set role {reader_role}")).await.unwrap();
        for hidden in ["public.things", "millstream.model", "millstream.model_1"] {
            let error = reader.query(&format!("select from {hidden}"), &[]).await.expect_err(hidden);
            assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{hidden}");
        }
        for _ in 0..2 {
            let done = refresh_as(owned, "model", Some("swap")).await.unwrap();
            assert!(done[0].way == "swap" && done[0].warnings.is_empty() && done[0].bloat_bytes == 0, "{done:?}");
            assert_eq!(number(&reader, "select count(*) from public.model where a = 7").await, 1);
        }
        drop(reader);
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_writers_of_the_collection_write_its_record() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, reader: writer, owned, .. } = &roles;
        publish_as(owned, &wanted("things", "model", &["a:int=a"], &["a"], None)).await.unwrap();
        refresh_as(owned, "model", None).await.unwrap();
        let grants = format!(
            "grant usage on schema millstream to {writer};
             grant select, insert, update, delete on public.things to {writer}; set role {writer};
             create temporary table own (id text)"
        );
        client.batch_execute(&grants).await.unwrap();
        let oid: String = client.query_one("select 'public.things'::regclass::oid::text", &[]).await.unwrap().get(0);
        for what in ["record", "key"] {
            let hang =
                format!("create trigger own after truncate on own execute function millstream.change_{oid}_{what}()");
            let error = client.batch_execute(&hang).await.expect_err(what);
            assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{error:?}");
        }
        let writes = "update public.things set doc = '{\"a\": -5}' where id = 'k7';
                      update public.things set id = 'other' where id = 'k8'; reset role; drop table own";
        client.batch_execute(writes).await.unwrap();
        refresh_as(owned, "model", Some("incremental")).await.unwrap();
        assert_eq!(number(client, "select count(*) from public.model where a = -5").await, 1);
        assert_eq!(number(client, "select count(*) from public.model where id in ('k8', 'other')").await, 1);
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_the_model_owner_cannot_restore_means_swaps() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, owner, owned, .. } = &roles;
        let grants = format!(
            "alter table public.things owner to current_user; grant select, trigger on public.things to {owner}"
        );
        client.batch_execute(&grants).await.unwrap();
        publish_as(owned, &wanted("things", "model", &["a:int=a"], &["a"], None)).await.unwrap();
        refresh_as(owned, "model", None).await.unwrap();
        client.batch_execute("alter table public.things disable trigger user").await.unwrap();
        for key in ["k7", "k8"] {
            let change = format!("update public.things set doc = '{{\"a\": -5}}' where id = '{key}'");
            client.batch_execute(&change).await.unwrap();
            let done = refresh_as(owned, "model", Some("incremental")).await.unwrap();
            let [instead, warning] = done[0].warnings.as_slice() else { panic!("{done:?}") };
            assert!(done[0].way == "swap" && instead.contains("a trigger of the collection is disabled"), "{done:?}");
            assert!(warning.contains("could not be created again: permission denied for table things"), "{warning}");
        }
        assert_eq!(number(client, "select count(*) from public.model where a = -5").await, 2);
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_is_refused_without_rights_on_the_change_record() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owner, owned, .. } = &roles;
        publish_as(superuser, &wanted("things", "first", &[], &[], None)).await.unwrap();
        let other = wanted("things", "second", &["a:int=a"], &["a"], None);
        let error = publish_as(owned, &other).await.expect_err("the record is another role's");
        let hint = error.hint().expect("a way out");
        let grant = hint.strip_prefix("as that role: ").expect("a statement");
        assert!(error.to_string().contains("belongs to another role") && grant.ends_with(owner), "{error}: {hint}");
        client.batch_execute(grant).await.unwrap();
        publish_as(owned, &other).await.unwrap();
        refresh_as(owned, "second", None).await.unwrap();
        client.batch_execute("update public.things set doc = '{\"a\": -5}' where id = 'k7'").await.unwrap();
        let done = refresh_as(owned, "second", None).await.unwrap();
        assert_eq!((done[0].way, done[0].warnings.len()), ("incremental", 0), "{done:?}");
        assert_eq!(number(client, "select count(*) from public.second where a = -5").await, 1);
        assert_eq!(unpublish_as(superuser, "first").await.unwrap(), None);
        // The last model is removed, but the record stays, because another role owns it.
        let name = client.query_one("select current_user::text", &[]).await.unwrap().get::<_, String>(0);
        assert_eq!(unpublish_as(owned, "second").await.unwrap(), Some(name));
        assert_eq!(number(client, "select count(*) from millstream.model").await, 0);
        publish_as(superuser, &wanted("things", "first", &[], &[], None)).await.unwrap();
        assert_eq!(unpublish_as(superuser, "first").await.unwrap(), None);
        let left = "select count(*) from pg_class where relname like 'change\\_%' and relkind = 'r'";
        assert_eq!(number(client, left).await, 0);
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_of_another_role_do_not_block_a_refresh() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owned, .. } = &roles;
        publish_as(owned, &wanted("things", "model", &["a:int=a"], &["a"], None)).await.unwrap();
        let files = Files::new();
        let waiting = files.write("waiting", "{\"id\":\"k7\",\"a\":-7}\n");
        run(superuser, &appending("things", &[waiting], 100)).await;
        let done = refresh_as(owned, "model", None).await.unwrap();
        assert_eq!(done[0].warnings.len(), 1, "{done:?}");
        assert!(done[0].warnings[0].starts_with("segments were left: segments of things belong to role"), "{done:?}");
        assert_eq!(number(client, "select count(*) from public.model where a = 7").await, 1);
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn model_code_runs_only_with_its_owners_rights() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owner, owned, .. } = &roles;
        // Takes superuser rights where it can, even if `set role` hides them.
        let grab = format!(
            "create function public.take() returns void language plpgsql as $$
             begin
                 if (select rolsuper from pg_roles where rolname = session_user) then
                     perform set_config('role', 'none', true);
                     alter role {owner} superuser;
                 end if;
             end $$;
             create function public.grab(text) returns text language plpgsql immutable as
                 'begin perform public.take(); return $1; end';
             alter function public.take() owner to {owner};
             alter function public.grab(text) owner to {owner}"
        );
        client.batch_execute(&grab).await.unwrap();
        let grabbing = |model: &str| {
            let mut request =
                wanted("things", model, &["a:int=a"], &["public.grab(id)"], Some("public.grab(id) is not null"));
            request.definition.select = Some("doc, public.grab(id) as grabbed".into());
            request
        };
        let (plain, kept) = (grabbing("plain"), materialized(grabbing("kept")));
        let refused = |error: Error| {
            assert!(error.to_string().contains(&format!("belongs to {owner}")), "{error}");
            assert_eq!(error.hint(), Some(format!("connect as {owner}")));
        };
        // Setting the owner's role is not enough, even if that role may see its session: one must connect as the owner.
        client.batch_execute(&format!("grant pg_read_all_stats to {owner}")).await.unwrap();
        let set = format!("{superuser}?options=-crole%3D{owner}");
        for request in [&plain, &kept] {
            let model = &request.model.table;
            publish_as(owned, request).await.unwrap();
            // Before and after the first build; with the same definition and with another one.
            for built in [false, true] {
                for behind in [superuser, &set] {
                    let dry = estimate(&surroundings(behind).0.db, &schema(), &asked(&[model], None)).await;
                    refused(dry.expect_err("a superuser"));
                    refused(refresh_as(behind, model, None).await.expect_err("a superuser"));
                }
                let mut other = request.clone();
                other.definition.indexes.push("a".into());
                for again in [request, &other] {
                    refused(publish_as(superuser, again).await.expect_err("a superuser"));
                }
                if !built {
                    refresh_as(owned, model, None).await.unwrap();
                }
            }
        }
        client.batch_execute("update public.things set doc = '{\"a\": -1}' where id = 'k7'").await.unwrap();
        for (model, way) in [("plain", "incremental"), ("plain", "swap"), ("kept", "materialized")] {
            refused(refresh_as(superuser, model, Some(way)).await.expect_err(way));
            refresh_as(owned, model, Some(way)).await.unwrap();
            assert_eq!(number(client, &format!("select count(*) from public.{model} where a = -1")).await, 1);
        }
        // A materialized view that was dropped by hand still has an owner.
        client.batch_execute("drop materialized view public.kept").await.unwrap();
        refused(refresh_as(superuser, "kept", None).await.expect_err("a superuser"));
        refresh_as(owned, "kept", None).await.unwrap();

        let grown = format!("select count(*) from pg_roles where rolname = '{owner}' and rolsuper");
        assert_eq!(number(client, &grown).await, 0);
        let others = format!(
            "select count(*) from pg_class where relowner <> '{owner}'::regrole
                 and (relname ~ '^model_[0-9]' or relname in ('plain', 'kept'))"
        );
        assert_eq!(number(client, &others).await, 0, "all of it is the owner's");
        roles.end().await;
    })
    .await;
}

/// Asserts that a role has got no rights.
async fn has_nothing(client: &Client, role: &str) {
    let grown = format!("select count(*) from pg_roles where rolname = '{role}' and rolsuper");
    assert_eq!(number(client, &grown).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_its_owner_did_not_publish_is_not_run() {
    every_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owner: other, owned: as_other, .. } = &roles;
        let grab = format!(
            "create schema theirs authorization {other};
             create function theirs.take(text) returns bool language plpgsql immutable as
                 'begin alter role {other} superuser; return true; end';
             alter function theirs.take(text) owner to {other};
             create table public.secrets (id text primary key, doc jsonb not null);
             insert into public.secrets values ('k1', '{{\"a\": 1}}');
             grant usage on schema theirs to public"
        );
        client.batch_execute(&grab).await.unwrap();
        let plain = wanted("things", "plain", &["a:int=a"], &["a"], Some("a >= 0"));
        let kept = materialized(wanted("things", "kept", &["a:int=a"], &["a"], None));
        for request in [&plain, &kept] {
            publish_as(superuser, request).await.unwrap();
            refresh_as(superuser, &request.model.table, None).await.unwrap();
        }
        let intruder = millstream_testkit::connect(as_other).await;
        let before = "create table public.before as table millstream.model";
        client.batch_execute(before).await.unwrap();
        for change in [
            "definition = jsonb_set(definition, '{condition}', '\"theirs.take(id)\"')",
            "definition = jsonb_set(definition, '{select}', '\"doc, theirs.take(id) as b\"')",
            "definition = jsonb_set(definition, '{indexes,0}', '\"(theirs.take(id))\"')",
            "definition = jsonb_set(definition, '{columns,0,type_name}', '\"int) || theirs.take(id\"')",
            "definition = definition || '{\"materialized\": true, \"condition\": \"theirs.take(id)\"}', shows = null",
            "wanted = jsonb_set(definition, '{condition}', '\"theirs.take(id)\"')",
            "wanted = jsonb_set(definition, '{columns}', '[]')",
        ] {
            intruder.batch_execute(&format!("update millstream.model set {change}")).await.expect(change);
            for (model, way) in [("plain", None), ("plain", Some("swap")), ("kept", None)] {
                let error = refresh_as(superuser, model, way).await.expect_err(change);
                let text = error.to_string();
                let refused = ["has another definition in our tables", "cannot be refreshed by swap"];
                assert!(refused.iter().any(|part| text.contains(part)), "{change}: {error}");
            }
            let back = "update millstream.model m set definition = b.definition, wanted = b.wanted, shows = b.shows
                        from public.before b where b.model_id = m.model_id";
            client.batch_execute(back).await.unwrap();
        }
        let redirect = "update millstream.model set table_oid = 'public.secrets'::regclass;
                        insert into millstream.collection
                        select (jsonb_populate_record(c, jsonb_build_object('table_oid', 'public.secrets'::regclass::oid,
                                'schema_name', 'public', 'table_name', 'secrets'))).*
                        from millstream.collection c where c.table_oid = 'public.things'::regclass";
        intruder.batch_execute(redirect).await.unwrap();
        let error = refresh_as(superuser, "plain", None).await.expect_err("another table");
        assert!(error.to_string().contains("belongs to another collection in our tables"), "{error}");
        let forged = intruder.batch_execute("comment on table millstream.model_1 is '{}'").await;
        assert_eq!(forged.expect_err("not the owner").code().map(|code| code.code()), Some("42501"));
        client
            .batch_execute("update millstream.model set table_oid = 'public.things'::regclass; drop table public.secrets, public.before")
            .await
            .unwrap();
        for model in ["plain", "kept"] {
            refresh_as(superuser, model, None).await.unwrap();
        }
        client.batch_execute("comment on table millstream.model_1 is null").await.unwrap();
        let error = refresh_as(superuser, "plain", None).await.expect_err("nothing says what it is");
        assert!(error.to_string().contains("has lost the comment on its table"), "{error}");
        assert_eq!(
            publish_as(superuser, &plain).await.unwrap(),
            Published::Reindexed { made: 0, dropped: 0, in_use: 0 }
        );
        refresh_as(superuser, "plain", None).await.unwrap();
        has_nothing(client, other).await;
        drop(intruder);
        client.batch_execute("drop schema theirs cascade").await.unwrap();
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_means_by_each_name_what_publish_meant() {
    every_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owner: other, owned: as_other, .. } = &roles;
        let mut plain = wanted(
            "things",
            "plain",
            &["b:varchar=b", "a:int=a", "f:own=a"],
            &["(lower(b)) where b <> 'x'", "(b varchar_pattern_ops) where lower(b) > 'a'"],
            Some("b <> 'k7' and a >= 0"),
        );
        plain.definition.select = Some("doc, upper(b) as big, array_length(array[a, 1], 1) as two, b || 'x' as more".into());
        let mut kept = materialized(plain.clone());
        kept.model.table = "kept".into();
        client.batch_execute("create domain public.own as int").await.unwrap();
        for request in [&plain, &kept] {
            publish_as(superuser, request).await.unwrap();
        }
        let intruder = millstream_testkit::connect(as_other).await;
        let mut decoys = format!(
            "create function public.take() returns void language plpgsql as
                 'begin alter role {other} superuser; exception when insufficient_privilege then end';"
        );
        for (n, (name, takes, gives, value)) in [
            ("lower", "varchar", "text", "'decoy'"),
            ("upper", "varchar", "text", "'decoy'"),
            ("array_length", "int[], int", "int", "0"),
            ("ne", "varchar, varchar", "bool", "false"),
            ("joined", "varchar, varchar", "text", "'decoy'"),
        ]
        .into_iter()
        .enumerate()
        {
            decoys.push_str(&format!(
                "create function public.{name}({takes}) returns {gives} language plpgsql immutable as
                     $decoy{n}$begin perform public.take(); return {value}; end$decoy{n}$;"
            ));
        }
        for (operator, function) in [("<>", "ne"), ("||", "joined")] {
            decoys.push_str(&format!(
                "create operator public.{operator} (leftarg = varchar, rightarg = varchar, function = public.{function});"
            ));
        }
        intruder.batch_execute(&decoys).await.unwrap();
        let right = |model: &str| {
            format!(
                "select count(*) from public.{model} where big = upper(b::text) and two = 2 and more = b::text || 'x'
                     and f = a and lower(b::text) <> 'decoy'"
            )
        };
        let mut documents = number(client, "select count(*) from public.things").await;
        for (model, way) in [("plain", "swap"), ("kept", "materialized"), ("plain", "incremental"), ("plain", "swap")] {
            refresh_as(superuser, model, Some(way)).await.unwrap();
            assert_eq!(number(client, &right(model)).await, documents, "{model} {way}");
            has_nothing(client, other).await;
            if model == "kept" {
                client.batch_execute("delete from public.things where id = 'k9'").await.unwrap();
                documents -= 1;
            }
        }
        // A view that was dropped by hand is made again.
        client.batch_execute("drop materialized view public.kept").await.unwrap();
        refresh_as(superuser, "kept", None).await.unwrap();
        assert_eq!(number(client, &right("kept")).await, documents);
        has_nothing(client, other).await;
        let decoys = "select count(*) from pg_depend d join pg_proc p on p.oid = d.refobjid
                      join pg_index i on i.indexrelid = d.objid
                      where d.refclassid = 'pg_proc'::regclass and p.pronamespace = 'public'::regnamespace";
        assert_eq!(number(client, decoys).await, 0, "no index uses them");
        drop(intruder);
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_keeps_its_meaning_when_its_surroundings_change() {
    every_build(async |db| {
        let client = things(&db).await;
        let path = "create schema mine;
                    create function mine.twice(int) returns int immutable language sql as 'select 2 * $1';
                    create function mine.lost(int) returns int immutable language plpgsql as 'begin return twice($1); end';
                    alter table public.things add unused int, add used int;
                    do $$ begin execute format('alter database %I set search_path = public, mine', current_database()); end $$";
        client.batch_execute(path).await.unwrap();
        publish_on(&db, &wanted("things", "model", &["a:int=a"], &["(twice(a))", "a) where (a > 1"], Some("twice(a) >= 0")))
            .await
            .unwrap();
        publish_on(&db, &wanted("things", "wide", &[], &[], Some("used is null"))).await.unwrap();
        publish_on(&db, &wanted("things", "bad", &["a:int=a"], &[], Some("lost(a) >= 0"))).await.unwrap();
        refresh_on(&db, &["model", "wide"], None).await.unwrap();
        let error = refresh_on(&db, &["bad"], None).await.expect_err("it calls a function without its schema");
        let hint = error.hint().expect("a way out");
        assert!(error.to_string().contains("twice(integer) does not exist") && hint.contains("search_path"), "{error}");
        client.batch_execute("alter function mine.lost(int) set search_path = mine").await.unwrap();
        refresh_on(&db, &["bad"], None).await.unwrap();

        let moved = "alter table public.things drop unused; alter table public.things rename to moved;
                     alter function mine.twice(int) set schema public;
                     create function mine.twice(int) returns int immutable language sql as 'select -1';
                     alter function mine.lost(int) set search_path = public";
        client.batch_execute(moved).await.unwrap();
        for model in ["wide", "bad"] {
            refresh_on(&db, &[model], Some("swap")).await.unwrap();
        }
        // The name is the schema's, as in a dump.
        refresh_on(&db, &["model"], Some("swap")).await.unwrap();
        assert_eq!(number(&client, "select count(*) from public.model").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_that_cannot_name_its_operator_is_refused() {
    every_build(async |db| {
        let client = things(&db).await;
        // As of an extension: its equality is not that of the type below it.
        let loose = "create type public.loose as enum ('1', '7', '70');
                     create function public.same(loose, loose) returns bool language sql immutable as
                         'select pg_catalog.left($1::text, 1) = pg_catalog.left($2::text, 1)';
                     create operator public.= (leftarg = loose, rightarg = loose, function = public.same)";
        client.batch_execute(loose).await.unwrap();
        let columns = ["b:loose=b"];
        for condition in
            ["(b is distinct from '7') is not true", "nullif(b, '7'::loose) is null", "case b when '7' then true end"]
        {
            let odd = wanted("things", "odd", &columns, &[], Some(condition));
            let error = publish_on(&db, &odd).await.expect_err(condition);
            let (text, hint) = (error.to_string(), error.hint().expect("a way out"));
            assert!(
                text.contains("=(public.loose,public.loose)") && hint.contains("operator(public.=)"),
                "{condition}: {error}"
            );
            let odd = wanted("things", "odd", &columns, &[&format!("(id) where {condition}")], None);
            publish_on(&db, &odd).await.expect_err(condition);
        }
        for condition in
            ["b = '7'", "b in ('7', '7')", "b = any (array['7'::loose])", "not b <> all (array['7'::loose])"]
        {
            let odd = condition.contains("<>");
            let fine = wanted("things", "fine", &columns, &[], Some(condition));
            publish_on(&db, &fine).await.unwrap_or_else(|error| panic!("{condition}: {error}"));
            refresh_on(&db, &["fine"], None).await.unwrap();
            let shown = number(&client, "select count(*) from public.fine where b::text = '70'").await;
            assert_eq!(shown, i64::from(!odd), "{condition}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_does_nothing_that_roles_it_does_not_trust_could_have_written() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owner, owned, .. } = &roles;
        let model = wanted("things", "model", &["a:int=a"], &["a"], None);
        publish_as(superuser, &model).await.unwrap();
        refresh_as(superuser, "model", None).await.unwrap();
        let name: millstream_model::CollectionName = "model".parse().unwrap();
        let results = async || {
            let mut connection = session(superuser).await;
            let published = publish(&mut connection, &schema(), &model).await.map(drop);
            let conninfo = surroundings(superuser).0.db;
            let refreshed = Box::pin(refresh(&conninfo, &schema(), &asked(&["model"], None))).await.map(drop);
            let unpublished = unpublish(&mut connection, &schema(), &name).await.map(drop);
            [published, refreshed, unpublished]
        };
        for error in results().await.map(|result| result.expect_err("the owner may write")) {
            assert!(error.to_string().starts_with(&format!("role {owner} may write in the schema")), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("trust-owner") && hint.contains(owner)), "{error:?}");
        }
        // What such a role has made before it lost its rights.
        let part = "create table millstream.model_1_7 (millstream_generation smallint, id text, doc jsonb)";
        millstream_testkit::connect(owned).await.batch_execute(part).await.unwrap();
        let error = refresh_as(superuser, "model", None).await.expect_err("a table of another role");
        assert!(error.to_string().contains("has a table of another role among its own"), "{error}");
        client.batch_execute("drop table millstream.model_1_7; update millstream.model set serving = 7").await.unwrap();
        let error = refresh_as(superuser, "model", None).await.expect_err("there is no such generation");
        assert!(error.to_string().contains("has another definition"), "{error}");
        let restored = format!(
            "update millstream.model set serving = 2; revoke all on schema millstream from {owner};
             revoke all on all tables in schema millstream from {owner}"
        );
        client.batch_execute(&restored).await.unwrap();
        for result in results().await {
            result.expect("nobody else may write");
        }
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_calls_nothing_that_roles_it_does_not_trust_could_replace() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owner, .. } = &roles;
        let made = format!(
            "revoke all on schema millstream from {owner}; revoke all on all tables in schema millstream from {owner};
             create schema ours;
             create function public.any(anyelement) returns bool immutable language sql as 'select true';
             create function ours.any(anyelement) returns bool immutable language sql as 'select true';
             create function ours.theirs(int) returns int immutable language sql as 'select $1';
             alter function ours.theirs(int) owner to {owner};
             create domain ours.small as int check (value < 100); alter domain ours.small owner to {owner};
             create type ours.pair as (one ours.small[], two int);
             create schema theirs authorization {owner}; create domain theirs.money as int;
             create view ours.rates as select 1 as rate; alter view ours.rates owner to {owner};
             create view ours.rate as select rate from ours.rates"
        );
        client.batch_execute(&made).await.unwrap();
        type Parts<'a> = (&'a str, &'a [&'a str], &'a [&'a str], Option<&'a str>);
        let refused: [Parts<'_>; 6] = [
            ("condition", &["a:int=a"], &[], Some("public.any(a)")),
            ("index", &["a:int=a"], &["(id) where public.any(a)"], None),
            ("function", &["a:int=a"], &["(ours.theirs(a))"], None),
            ("domain", &["a:ours.small=a"], &[], None),
            ("pair", &["a:ours.pair=a"], &[], None),
            ("schema", &["a:theirs.money=a"], &[], None),
        ];
        let mut models: Vec<PublishRequest> = refused
            .iter()
            .map(|(name, columns, indexes, condition)| wanted("things", name, columns, indexes, *condition))
            .collect();
        for (name, view) in [("direct", "ours.rates"), ("nested", "ours.rate")] {
            let mut model = wanted("things", name, &[], &[], None);
            model.definition.materialized = true;
            model.definition.select = Some(format!("(select rate from {view}) as rate"));
            models.push(model);
        }
        for model in models {
            let name = model.model.to_string();
            let error = publish(&mut session(superuser).await, &schema(), &model).await.expect_err(&name);
            let expected = match model.definition.materialized {
                true => format!("the relation ours.rates belongs to role {owner}"),
                false => format!("role {owner} may change what the model's functions"),
            };
            assert!(error.to_string().starts_with(&expected), "{name}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.ends_with(owner.as_str())), "{name}: {error:?}");
            publish_as(superuser, &model).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let model = wanted("things", "fine", &["a:int=a"], &[], Some("ours.any(a)"));
        let published = async || publish(&mut session(superuser).await, &schema(), &model).await;
        published().await.unwrap();
        let conninfo = surroundings(superuser).0.db;
        let refreshed = async || Box::pin(refresh(&conninfo, &schema(), &asked(&["fine"], None))).await;
        refreshed().await.unwrap();
        client.batch_execute("grant create on schema ours to public").await.unwrap();
        let error = refreshed().await.expect_err("everybody may create there by now");
        assert!(error.to_string().starts_with("every role may change"), "{error}");
        client.batch_execute("revoke create on schema ours from public").await.unwrap();
        refreshed().await.unwrap();
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_any_option_gets_its_comment_back() {
    each_build(async |db| {
        let client = things(&db).await;
        let plain = wanted("things", "model", &[], &[], None);
        publish_on(&db, &plain).await.unwrap();
        refresh_on(&db, &["model"], None).await.unwrap();
        client.batch_execute("comment on table millstream.model_1 is null").await.unwrap();
        refresh_on(&db, &["model"], None).await.expect_err("nothing says what it is");
        publish_on(&db, &plain).await.unwrap();
        refresh_on(&db, &["model"], None).await.unwrap();
    })
    .await;
}

/// Makes the role superuser if a superuser calls it, as a function of the schema `app`, which comes first on the search path.
/// It is called once while SQL of the user's is planned.
const TAKES: &str = "
    create schema app authorization OWNER; create schema far authorization OWNER; set role OWNER;
    create function app.take() returns bool language plpgsql as $$
    begin
        alter role OWNER superuser;
        return true;
    exception when insufficient_privilege then
        return true;
    end $$;
    create function app.sep(text) returns text language plpgsql immutable as 'begin perform app.take(); return $1; end';
    create function far.lower(text) returns text language plpgsql immutable as 'begin perform app.take(); return $1; end';
    create function app.upper(text) returns text language plpgsql immutable as 'begin perform app.take(); return $1; end';
    create domain app.dom as text check (app.take());
    reset role; grant usage on schema app, far to public;
    alter table public.things add n int;
    do $$ begin execute format('alter database %I set search_path = app, public', current_database()); end $$;
    revoke all on schema millstream from OWNER; revoke all on all tables in schema millstream from OWNER";

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_has_nothing_parsed_that_names_code_of_roles_it_does_not_trust() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owner, .. } = &roles;
        client.batch_execute(&TAKES.replace("OWNER", owner)).await.unwrap();
        let published =
            async |request: &PublishRequest| publish(&mut session(superuser).await, &schema(), request).await;
        let called = "(coalesce(doc->>'name', sep('-')))";
        let queried = |query: &str| {
            let mut request = materialized(wanted("things", "model", &[], &[], None));
            request.definition.query = Some(query.to_owned());
            request
        };
        let mut selecting = wanted("things", "model", &[], &[], None);
        selecting.definition.select = Some("doc, (doc->>'name').sep as named".into());
        let refused = [
            wanted("things", "model", &[], &[called], None),
            materialized(wanted("things", "model", &[], &[called], None)),
            PublishRequest {
                definition: millstream_store::Definition {
                    indexes: vec!["(coalesce(id, sep('-')))".into()],
                    ..queried("select id, doc from things").definition
                },
                ..queried("")
            },
            wanted("things", "model", &[], &[], Some("app . \"sep\"('-') = doc->>'name'")),
            selecting,
        ];
        for request in &refused {
            let error = published(request).await.expect_err("it names code of the owner");
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("role {owner} may change what the model's functions")),
                "{request:?}: {text}"
            );
            let hint = error.hint().unwrap_or_default();
            assert!(
                hint.contains(&format!("connect as {owner}")) && hint.ends_with(owner.as_str()),
                "{request:?}: {hint}"
            );
            has_nothing(client, owner).await;
        }
        let fine = "lower(doc->>'x') is null and upper(doc->>'sep') is null and doc->>'a' <> 'sep(1)'";
        let model = wanted("things", "model", &["a:int=a"], &["lower(id)"], Some(fine));
        published(&model).await.unwrap();
        // An index of a model that is there, too.
        let mut more = model.clone();
        more.definition.indexes.push(called.into());
        let error = published(&more).await.expect_err("it names a function of the owner");
        assert!(error.to_string().contains("the function sep(text)"), "{error}");
        has_nothing(client, owner).await;
        client.batch_execute("alter table public.things add tags app.dom[]").await.unwrap();
        for mut request in [
            wanted("things", "model", &[], &[], None),
            wanted("things", "model", &[], &[], Some("tags = '{x}'")),
            queried("select id from things where tags = '{x}'"),
            queried("select id from things as t where t = '(1,{},1,{x})'"),
        ] {
            request.model = "tagged".parse().unwrap();
            let error = published(&request).await.expect_err("the owner may change what runs for a column");
            let expected = format!(" of the column tags of things belongs to role {owner}");
            let text = error.to_string();
            assert!(text.starts_with("the type dom") && text.contains(&expected), "{request:?}: {text}");
            has_nothing(client, owner).await;
        }
        // Whoever is trusted passes.
        publish_as(superuser, &wanted("things", "other", &[], &[], Some("far.lower(id) is not null"))).await.unwrap();
        client.batch_execute(&format!("alter role {owner} nosuperuser")).await.unwrap();
        roles.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_refreshes_nothing_that_means_code_of_others_by_now() {
    each_build(async |db| {
        let roles = Roles::new(&db).await;
        let Roles { client, superuser, owner, .. } = &roles;
        client.batch_execute(&TAKES.replace("OWNER", owner)).await.unwrap();
        client
            .batch_execute(
                "create schema lib; create domain lib.d as text;
                 create function lib.same(text) returns text immutable language sql return $1",
            )
            .await
            .unwrap();
        let conninfo = surroundings(superuser).0.db;
        let refreshed = async |model: &str| Box::pin(refresh(&conninfo, &schema(), &asked(&[model], None))).await;
        for request in [
            wanted("things", "cast", &[], &[], Some("n is null or n > 0")),
            wanted("things", "shown", &[], &[], Some("to_jsonb(n) is not null")),
            wanted("things", "typed", &["z:lib.d=a"], &[], None),
            wanted("things", "indexed", &[], &["lib.same(id)"], None),
            wanted("things", "called", &[], &[], Some("lib.same(id) is not null")),
        ] {
            publish(&mut session(superuser).await, &schema(), &request).await.unwrap();
            refreshed(&request.model.table).await.unwrap();
        }
        let owners =
            |role: &str| format!("alter domain lib.d owner to {role}; alter function lib.same(text) owner to {role}");
        client.batch_execute(&owners(owner)).await.unwrap();
        for model in ["typed", "indexed", "called"] {
            let error = refreshed(model).await.expect_err(model);
            assert!(error.to_string().starts_with(&format!("role {owner} may change")), "{model}: {error}");
            has_nothing(client, owner).await;
        }
        client.batch_execute(&owners("current_user")).await.unwrap();
        for model in ["cast", "typed", "indexed", "called"] {
            refreshed(model).await.unwrap_or_else(|error| panic!("{model}: {error}"));
        }
        // The cast would run in the condition of one of them, and no model is built whose collection has such a column.
        let changed = format!(
            "set role {owner}; create type app.e as enum ('a', 'b');
             create function app.number(app.e) returns int language plpgsql immutable as
                 'begin perform app.take(); return 1; end';
             create cast (app.e as int) with function app.number(app.e) as implicit;
             create function app.shown(app.e) returns json language plpgsql as
                 'begin perform app.take(); return null; end';
             create cast (app.e as json) with function app.shown(app.e);
             alter table public.things alter n type app.e using 'a'; reset role"
        );
        client.batch_execute(&changed).await.unwrap();
        for model in ["cast", "shown", "typed", "indexed", "called"] {
            let error = refreshed(model).await.expect_err(model);
            let expected = format!("the type app.e of the column n of public.things belongs to role {owner}");
            assert!(error.to_string().starts_with(&expected), "{model}: {error}");
            has_nothing(client, owner).await;
        }
        roles.end().await;
    })
    .await;
}
