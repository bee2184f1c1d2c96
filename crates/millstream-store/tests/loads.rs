//! The record of a load: whose it is, which load takes it over, and when it may be deleted.

use crate::scene::{Scene, key};
use millstream_model::KeyType;
use millstream_store::load::Unfinished;
use millstream_store::{Error, Identity, close_lost_run, load, loads, lock_unfinished, runs};
use millstream_testkit::{each_build, until};

/// Two runs that both took the load for theirs would store its documents twice.
#[tokio::test]
async fn a_load_belongs_to_the_session_that_records_it_until_that_ends() {
    each_build(async |db| {
        let mut scene = Scene::new(db).await;
        let (schema, oid) = (scene.schema.clone(), scene.table_oid);
        let mut owner = scene.db.client().await;
        let identity = Identity { sources: vec!["log".into()], ..scene.identity() };
        let load_id = load::insert(&mut owner, &schema, &identity, 2).await.unwrap();
        let pid: i32 = owner.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        let locked = load::lock(&scene.client, &schema, load_id).await;
        let forgotten = loads::forget(&mut scene.client, &schema, load_id).await.map(|_| ());
        let transaction = scene.client.transaction().await.unwrap();
        let unfinished = lock_unfinished(&transaction, &schema, oid).await.map(|_| ());
        transaction.rollback().await.unwrap();
        for busy in [locked, forgotten, unfinished].map(Result::unwrap_err) {
            let Error::LoadRunning { load_id: of, backend } = busy else { panic!("{busy:?}") };
            assert_eq!((of, backend), (load_id, Some(pid)));
        }
        assert!(!close_lost_run(&mut scene.client, &schema, load_id, "it runs").await.unwrap());
        let state = async || loads::find(&scene.client, &schema, load_id).await.unwrap().unwrap().state;
        assert_eq!(state().await, "running");
        drop(owner);
        until("the load has no session", async || state().await == "crashed").await;
        let run = &runs::runs(&scene.client, &schema, oid).await.unwrap()[0];
        assert!(run.load_id == load_id && run.lost && !run.at_work && !run.appends && !run.followed, "{run:?}");
        assert!(close_lost_run(&mut scene.client, &schema, load_id, "a test began").await.unwrap());
        let load = loads::find(&scene.client, &schema, load_id).await.unwrap().unwrap();
        assert_eq!(load.stop_reason.as_deref(), Some("its sessions were lost, and a test began"));
        for (source, expected) in [("log", 1), ("another", 0)] {
            assert_eq!(loads::list_of(&scene.client, &schema, 9, source).await.unwrap().len(), expected);
        }
        assert!(loads::forget(&mut scene.client, &schema, load_id).await.unwrap());
        assert!(!loads::forget(&mut scene.client, &schema, load_id).await.unwrap());
    })
    .await;
}

/// A stream of a cluster leaves a load for each task of each batch.
#[tokio::test]
async fn the_loads_of_a_stream_are_found_among_many_by_an_index() {
    each_build(async |db| {
        let scene = Scene::new(db).await;
        let schema = scene.schema.clone();
        let mut owner = scene.db.client().await;
        let identity = Identity { sources: vec!["task 0".into()], ..scene.identity() };
        let first = load::insert(&mut owner, &schema, &identity, 1).await.unwrap();
        let copies = "insert into {schema}.load overriding system value select copy.* \
                      from {schema}.load l cross join generate_series(1, 5000) n \
                      cross join lateral jsonb_populate_record(null::{schema}.load, to_jsonb(l) || jsonb_build_object( \
                          'load_id', l.load_id + n, 'state', 'finished', 'sources', array['task ' || n])) copy";
        scene.client.batch_execute(&schema.sql(copies)).await.unwrap();
        scene.client.batch_execute(&schema.sql("analyze {schema}.load")).await.unwrap();
        let found = loads::list_of(&owner, &schema, 9, "task 4000").await.unwrap();
        assert_eq!(found.iter().map(|load| load.load_id).collect::<Vec<_>>(), [first + 4_000]);
        owner.execute("select pg_stat_force_next_flush()", &[]).await.unwrap();
        let sql = "select idx_scan > 0 from pg_stat_user_indexes where indexrelname = 'load_sources'";
        until("the index is used", async || scene.one(sql).await).await;
    })
    .await;
}

/// Changes what a request is.
type Change = fn(&mut Identity);

/// What another request may differ in, and how that is said.
const DIFFERENCES: [(Change, Option<&str>); 9] = [
    (|_| {}, None),
    (|other| other.sources.push("c".into()), None),
    (|other| other.mode = "keep".into(), Some("in another mode")),
    (|other| other.key = key(KeyType::Bigint), Some("by a key of another name, place or type")),
    (|other| other.format = "csv".into(), Some("in another format")),
    (|other| other.layout = "log", Some("in another layout")),
    (|other| other.transforms.push("trim".into()), Some("with other enrichments")),
    (|other| other.sources.reverse(), Some("together with other sources or in another order")),
    (|other| other.resumable = false, Some("together with a stream that has no --source-name")),
];

/// A load that is taken for another one would skip documents that it never stored.
#[tokio::test]
async fn an_unfinished_load_of_the_same_sources_is_found_and_told_from_another() {
    each_build(async |db| {
        let mut scene = Scene::new(db).await;
        let (schema, identity) = (scene.schema.clone(), scene.identity());
        let first = scene.begin(&identity, 1).await;
        for (change, expected) in DIFFERENCES {
            let mut other = identity.clone();
            change(&mut other);
            let found = load::find_unfinished(&scene.client, &schema, &other).await.unwrap().unwrap();
            let Unfinished { load_id, difference, other_transforms, emptied, .. } = found;
            assert_eq!((load_id, difference.as_deref(), emptied), (first, expected, None));
            assert_eq!(other_transforms, (!other.transforms.is_empty()).then(Vec::new), "{expected:?}");
        }
        let apart = Identity { sources: vec!["c".into()], ..identity.clone() };
        assert!(load::find_unfinished(&scene.client, &schema, &apart).await.unwrap().is_none());
        // The next load of some of its sources abandons it.
        let second = scene.begin(&identity, 1).await;
        let resumable = "select array_agg(resumable order by load_id) from millstream.load";
        assert_eq!(scene.one::<Vec<bool>>(resumable).await, [false, true]);
        assert_eq!(load::find_unfinished(&scene.client, &schema, &identity).await.unwrap().unwrap().load_id, second);
        scene.end(second, "finished", Some("{}")).await;
        assert!(load::find_unfinished(&scene.client, &schema, &identity).await.unwrap().is_none());

        // A table that is made anew has none of the documents.
        let third = scene.begin(&identity, 1).await;
        scene.client.batch_execute("drop table events; create table events (id text)").await.unwrap();
        load::require_table(&scene.client, &identity).await.unwrap_err();
        let table_oid = scene.one("select 'events'::regclass::oid").await;
        let anew = Identity { table_oid, ..identity };
        assert!(load::find_unfinished(&scene.client, &schema, &anew).await.unwrap().is_none());
        assert_eq!(load::find_orphaned(&scene.client, &schema, &anew).await.unwrap(), Some(third));
    })
    .await;
}

/// Who asks how far a group is behind would count what was committed as missing, or the other way round.
#[tokio::test]
async fn unfinished_loads_of_streams_say_how_far_they_are() {
    each_build(async |db| {
        let mut scene = Scene::new(db).await;
        let stream = |name: &str| Identity { sources: vec![name.into()], format: "stream".into(), ..scene.identity() };
        let (first, second, files) = (stream("t/0"), stream("t/1"), scene.identity());
        let new = scene.begin(&first, 1).await;
        let begun = scene.begin(&second, 1).await;
        scene.begin(&files, 1).await;
        let placed = "update millstream.lane set byte_offset = 70, prefix_hash = '\\x01' where load_id = $1";
        scene.client.execute(placed, &[&begun]).await.unwrap();
        let names = ["t/0", "t/1", "t/2", "a"].map(str::to_owned);
        let (asker, schema) = (scene.db.client().await, scene.schema.clone());
        let found = async || {
            let found = loads::of_streams(&asker, &schema, &names).await.unwrap();
            found.into_iter().map(|one| (one.load_id, one.name, one.state, one.committed)).collect::<Vec<_>>()
        };
        let of = |load_id, name: &str, committed| (load_id, name.to_owned(), "running".to_owned(), committed);
        assert_eq!(found().await, [of(new, "t/0", None), of(begun, "t/1", Some(70))]);
        // Its next run has read nothing yet.
        scene.run(begun, &second, 1, true).await;
        assert_eq!(found().await[1], of(begun, "t/1", Some(70)));
        scene.client.batch_execute("update millstream.load set state = 'finished'").await.unwrap();
        assert!(found().await.is_empty());
    })
    .await;
}

/// A load that is forgotten too early starts over, and one in mode `sum` counts its documents twice.
#[tokio::test]
async fn stopped_loads_are_pruned_by_their_age_unless_they_add_up_or_somebody_works_for_them() {
    each_build(async |db| {
        let mut scene = Scene::new(db).await;
        let schema = scene.schema.clone();
        let of =
            |mode: &str, name: &str| Identity { mode: mode.into(), sources: vec![name.into()], ..scene.identity() };
        let all =
            [("replace", "old"), ("replace", "young"), ("sum:n", "added"), ("replace", "held"), ("keep", "crashed")];
        let identities = all.map(|(mode, name)| of(mode, name));
        let mut ids = Vec::new();
        for identity in &identities {
            ids.push(scene.begin(identity, 1).await);
        }
        let [old, young, added, held, crashed] = ids[..] else { panic!("{ids:?}") };
        for load_id in [old, young, added, held] {
            scene.end(load_id, "stopped", None).await;
        }
        let holder = scene.db.client().await;
        // The session that began them holds their locks.
        scene.client = scene.db.client().await;
        let free = async || loads::find(&scene.client, &schema, crashed).await.unwrap().unwrap().state == "crashed";
        until("the loads have no session", free).await;
        load::lock(&holder, &schema, held).await.unwrap();
        let age = "update millstream.load set ended_at = now() - interval '1 hour' where load_id <> all ($1)";
        scene.client.execute(age, &[&vec![young, crashed]]).await.unwrap();
        assert!(loads::prune_stopped(&mut scene.client, &schema, 7_200).await.unwrap().is_empty());
        assert_eq!(loads::prune_stopped(&mut scene.client, &schema, 1_800).await.unwrap(), [old]);
        let mut left: Vec<i64> =
            loads::list(&scene.client, &schema, 9).await.unwrap().iter().map(|load| load.load_id).collect();
        left.reverse();
        assert_eq!(left, [young, added, held, crashed]);
        let resumed = load::find_unfinished(&scene.client, &schema, &identities[3]).await.unwrap();
        assert_eq!(resumed.map(|found| found.load_id), Some(held), "it can be resumed");
    })
    .await;
}
