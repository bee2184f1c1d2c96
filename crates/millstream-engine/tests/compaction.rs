//! Compactions that meet triggers, a full lock table, and sessions that the server ends; loads that meet the last, too.

use crate::scene::{
    Files, appending, collection, compacted, execute, request, run, schema, stored, until_held_up, waiting,
};
use millstream_engine::LoadRequest;
use millstream_pg::Explained;
use millstream_store::collections;
use millstream_testkit::{Server, Settings, StopMode, TestDatabase, dealt_builds, each_build};

/// Waits until a session of this name waits for a lock, then ends all sessions of this name.
async fn end_waiting(db: &TestDatabase, name: &str) {
    until_held_up(db, name).await;
    let end = "select pg_terminate_backend(pid) from pg_stat_activity
               where application_name = $1 and datname = current_database()";
    db.client().await.query(end, &[&name]).await.expect("they are ended");
}

/// A load of documents `{id, value}`, one in each segment.
fn one_by_one(table: &str, files: &Files, ids: std::ops::Range<u32>) -> LoadRequest {
    let text: String = ids.map(|n| format!("{{\"id\":\"{n:04}\",\"value\":{n}}}\n")).collect();
    let wanted = appending(table, &[files.write(&fastrand::u64(..).to_string(), text)], 1);
    LoadRequest { lanes: Some(1), chunk_bytes: 1, ..wanted }
}

#[tokio::test]
async fn what_a_trigger_drops_keeps_its_segment() {
    each_build(async |db| {
        let files = Files::new();
        execute(
            &db,
            "create function public.drops() returns trigger language plpgsql as
                 $$begin return case when new.id = 'b' then null else new end; end$$;
             create function public.keeps() returns trigger language plpgsql as $$begin return null; end$$;
             create function public.renames() returns trigger language plpgsql as
                 $$begin new.id := new.id || '!'; return new; end$$;",
        )
        .await;
        let obstacles = [
            "create trigger obstacle before insert on {t} for each row execute function public.drops()",
            "create trigger obstacle before insert on {t} for each row execute function public.renames()",
            "create trigger obstacle before update on {t} for each row execute function public.keeps()",
            "create trigger obstacle before delete on {t} for each row execute function public.keeps()",
            "create rule obstacle as on insert to {t} do instead nothing",
        ];
        for (n, obstacle) in obstacles.into_iter().enumerate() {
            let table = format!("obstacle_{n}");
            let load = async |text: &str| {
                let file = files.write(&fastrand::u64(..).to_string(), text);
                let mut wanted = LoadRequest { lanes: Some(1), ..appending(&table, &[file], 100) };
                wanted.mode = wanted.mode.with_tombstone(Some("gone=true".parse().expect("it says what deletes")));
                run(&db.url(), &wanted).await;
            };
            // The rule meets an empty table, the others meet rows.
            if !obstacle.contains("rule") {
                load("{\"id\":\"a\",\"value\":1}\n{\"id\":\"c\",\"value\":1}\n").await;
                compacted(&db, &table, 1).await.expect("nothing is in the way");
            }
            load("{\"id\":\"a\",\"value\":2}\n{\"id\":\"b\",\"value\":2}\n{\"id\":\"c\",\"gone\":true}\n").await;
            execute(&db, &obstacle.replace("{t}", &format!("public.{table}"))).await;
            let error = compacted(&db, &table, 2).await.expect_err("rows are dropped");
            let message = if obstacle.contains("rule") { "it has rules" } else { "discarded" };
            assert!(error.to_string().contains(message), "{obstacle}: {error}");
            assert!(
                error.hint().is_some_and(|hint| hint.contains("nothing is lost")),
                "{obstacle}: {:?}",
                error.hint()
            );
            assert_eq!(waiting(&db, &table).await, 1, "{obstacle}");
            let object = if obstacle.contains("rule") { "rule" } else { "trigger" };
            execute(&db, &format!("drop {object} obstacle on public.{table}")).await;
            compacted(&db, &table, 2).await.expect("nothing is in the way");
            let rows: Vec<(String, i64)> = stored(&db, &format!("public.{table}")).await.into_iter().collect();
            assert_eq!(rows, [("a".to_owned(), 2), ("b".to_owned(), 2)], "{obstacle}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_trigger_that_keeps_rows_lets_a_compaction_pass() {
    each_build(async |db| {
        let files = Files::new();
        run(&db.url(), &one_by_one("stamped", &files, 0..20)).await;
        execute(
            &db,
            "create function public.stamps() returns trigger language plpgsql as
                 $$begin new.doc := new.doc || '{\"stamp\": true}'; return new; end$$;
             create trigger stamps before insert or update on public.stamped
                 for each row execute function public.stamps()",
        )
        .await;
        compacted(&db, "stamped", 2).await.expect("every row is written");
        assert_eq!((waiting(&db, "stamped").await, stored(&db, "public.stamped").await.len()), (0, 20));
    })
    .await;
}

/// A table that somebody has changed, so that documents cannot be merged as they were appended.
#[tokio::test]
async fn a_table_that_was_changed_is_not_merged_into_until_it_is_mended() {
    each_build(async |db| {
        for (n, (change, problem, mend)) in [
            ("drop constraint T_pkey", "no primary key (id)", "add primary key (id)"),
            ("alter column doc type json", "its column doc is of type json", "alter column doc type jsonb"),
            (
                "alter column id type varchar(9)",
                "its key column id is of type character varying(9)",
                "alter column id type text collate \"C\"",
            ),
            (
                "add column more int not null default 1; alter table T alter column more drop default",
                "has no default",
                "drop more",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let (files, table) = (Files::new(), format!("changed_{n}"));
            run(&db.url(), &one_by_one(&table, &files, 0..20)).await;
            let alter = async |what: &str| {
                execute(&db, &format!("alter table public.{table} {}", what.replace('T', &table))).await;
            };
            alter(change).await;
            let error = compacted(&db, &table, 2).await.expect_err("it is refused");
            assert!(error.to_string().contains(problem), "{change}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("nothing is lost")), "{change}: {:?}", error.hint());
            alter(mend).await;
            compacted(&db, &table, 2).await.expect("it is mended");
            assert_eq!((waiting(&db, &table).await, stored(&db, &format!("public.{table}")).await.len()), (0, 20));
        }
        let files = Files::new();
        run(&db.url(), &one_by_one("parent", &files, 0..20)).await;
        execute(&db, "create table public.child () inherits (public.parent)").await;
        let error = compacted(&db, "parent", 2).await.expect_err("it is refused");
        assert!(error.to_string().contains("other tables inherit from it"), "{error}");
        execute(&db, "drop table public.child").await;
        compacted(&db, "parent", 2).await.expect("it is mended");
    })
    .await;
}

/// More segments than the lock table has room for.
#[tokio::test]
async fn a_small_lock_table_is_enough_to_compact_and_to_drop() {
    const SEGMENTS: u32 = 140;
    for build in dealt_builds().await {
        let conf = ["max_locks_per_transaction = 10", "max_connections = 20", "autovacuum = off"];
        let server = Server::start(build, Settings::with(&conf)).await;
        let db = TestDatabase { name: "postgres".into(), server: Box::leak(Box::new(server)) };
        let files = Files::new();
        run(&db.url(), &one_by_one("crowd", &files, 0..SEGMENTS)).await;
        // Dropping a segment takes three locks.
        let other = db.client().await;
        let fill = "do $$begin
                        for n in 1..1000000 loop perform pg_advisory_lock(n); end loop;
                    exception when out_of_memory then null; end$$;
                    select pg_advisory_unlock(n) from generate_series(1, 150) n";
        other.batch_execute(fill).await.expect("it stops when the lock table is full");
        let done = compacted(&db, "crowd", 2).await.expect("fewer at once fit");
        assert_eq!((done.segments, done.keys), (SEGMENTS as usize, u64::from(SEGMENTS)), "{done:?}");
        assert_eq!((waiting(&db, "crowd").await, stored(&db, "public.crowd").await.len()), (0, SEGMENTS as usize));

        run(&db.url(), &one_by_one("crowd", &files, 0..SEGMENTS)).await;
        let mut client = db.client().await;
        execute(&db, "create view public.depends as select id from public.crowd").await;
        let found = collection(&client, "crowd").await;
        collections::drop(&mut client, &schema(), &found, true).await.expect_err("a view depends on the table");
        assert_eq!(waiting(&db, "crowd").await, SEGMENTS as usize, "nothing is lost");
        execute(&db, "drop view public.depends").await;
        let dropped = collections::drop(&mut client, &schema(), &found, true).await.expect("fewer at once fit");
        assert!(dropped.table && dropped.loads == 2, "{dropped:?}");
        let left = "select count(*) from pg_class where relname ~ '^(segment_[0-9]+|crowd)$'";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
        db.server.stop(StopMode::Immediate).await;
    }
}

#[tokio::test]
async fn a_compaction_survives_the_end_of_its_sessions() {
    each_build(async |db| {
        let files = Files::new();
        run(&db.url(), &one_by_one("ended", &files, 0..9)).await;
        let other = db.client().await;
        other.batch_execute("begin; lock table public.ended in access exclusive mode").await.unwrap();
        let ending = async {
            end_waiting(&db, "millstream compact").await;
            other.batch_execute("rollback").await.unwrap();
        };
        let (done, ()) = tokio::join!(compacted(&db, "ended", 2), ending);
        assert_eq!(done.expect("it begins again").left, 0);
        assert_eq!((waiting(&db, "ended").await, stored(&db, "public.ended").await.len()), (0, 9));
    })
    .await;
}

#[tokio::test]
async fn a_load_begins_although_the_server_ends_its_session() {
    each_build(async |db| {
        let files = Files::new();
        for layout in ["table", "log"] {
            let table = format!("begun_{layout}");
            let wanted = |text: &str| {
                let file = files.write(&fastrand::u64(..).to_string(), text);
                if layout == "log" { appending(&table, &[file], 100) } else { request(&table, "id:text", &[file]) }
            };
            run(&db.url(), &wanted("{\"id\":\"a\",\"value\":1}\n")).await;
            let other = db.client().await;
            // Recording the load waits for this.
            other.batch_execute("begin; lock table millstream.load in access exclusive mode").await.unwrap();
            let ending = async {
                end_waiting(&db, "millstream control").await;
                other.batch_execute("rollback").await.unwrap();
            };
            let second = wanted("{\"id\":\"b\",\"value\":2}\n");
            let url = db.url();
            let (outcome, ()) = tokio::join!(run(&url, &second), ending);
            assert!(outcome.receipt.finished && outcome.receipt.counters.read == 1, "{layout}: {:?}", outcome.receipt);
        }
    })
    .await;
}
