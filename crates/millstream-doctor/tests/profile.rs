//! A profile: many settings of a server, its kernel and its disk as one change with one undo.

use crate::checks::request;
use crate::machine::machine;
use millstream_change::{Changes, Journal, Kind, Place, Proposal};
use millstream_doctor::{Profile, ProfileKind, ProfileLine, ProfileStep, database_profile};
use millstream_model::{Class, Refusal};
use millstream_testkit as testkit;
use std::fs;

/// A machine whose kernel collects much, keeps memory apart, and orders the requests of a disk that does not rotate.
const FILES: &[(&str, &str)] = &[
    ("proc/sys/vm/dirty_background_bytes", "2000000000\n"),
    ("proc/sys/vm/zone_reclaim_mode", "1\n"),
    ("sys/block/sda/queue/scheduler", "none mq-deadline [bfq]\n"),
];

#[track_caller]
fn line<'a>(profile: &'a Profile, setting: &str) -> &'a ProfileLine {
    let found = profile.lines.iter().find(|line| line.setting == setting);
    found.unwrap_or_else(|| panic!("{setting}: {profile:?}"))
}

#[tokio::test]
async fn a_profile_is_one_change_of_server_kernel_and_disk_with_one_undo() {
    for build in testkit::builds().await {
        let server = testkit::Server::start(build, testkit::Settings::default()).await;
        let url = server.url("postgres");
        let (dir, db) = (machine(FILES), request(&url, &[], "").db);
        let judged = async || database_profile(&db, Some(dir.path())).await.unwrap();
        let profile = judged().await;
        for (setting, step, class) in [
            ("vm.dirty_background_bytes", ProfileStep::Change, Class::Hypothesis),
            ("vm.zone_reclaim_mode", ProfileStep::Change, Class::Fact),
            ("/sys/block/sda/queue/scheduler", ProfileStep::Change, Class::Hypothesis),
            ("effective_cache_size", ProfileStep::Change, Class::Arithmetic),
            ("checkpoint_timeout", ProfileStep::Change, Class::Hypothesis),
            ("checkpoint_completion_target", ProfileStep::Fits, Class::Fact),
            ("autovacuum_vacuum_scale_factor", ProfileStep::Change, Class::Hypothesis),
            ("shared_buffers", ProfileStep::ByHand, Class::Arithmetic),
            ("synchronous_commit off", ProfileStep::LeftOut, Class::Fact),
            ("sched_migration_cost_ns", ProfileStep::LeftOut, Class::Fact),
        ] {
            let found = line(&profile, setting);
            assert_eq!((found.step, found.class), (step, class), "{found:?}");
            assert!(!found.why.is_empty(), "{found:?}");
        }
        assert_eq!(line(&profile, "shared_buffers").commands[1], "-- and restart the server");

        let home = tempfile::tempdir().unwrap();
        let (kinds, journal): ([&dyn Kind; 1], _) = ([&ProfileKind], Journal::new(&home.path().join("changes")));
        let place = Place { server: Some(db.clone()), root: Some(dir.path().to_owned()), lab: None };
        let engine = Changes::new(&journal, &kinds, &place);
        let change = profile.change.clone().unwrap();
        let proposal = Proposal { change, from: None, reason: "a test".to_owned(), confirm_within: None };
        let watched = async |_: u32| Ok::<(), Refusal>(());
        let made = proposal.make(&engine, watched, Box::pin(async { Ok(()) }), &|_| {}).await.unwrap();
        let seen = async || {
            let client = testkit::connect(&url).await;
            let sql = "select current_setting('checkpoint_timeout'), current_setting('autovacuum_vacuum_scale_factor')";
            let row = client.query_one(sql, &[]).await.unwrap();
            let file = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap().trim().to_owned();
            let values: [String; 2] = [row.get(0), row.get(1)];
            (values, FILES.iter().map(|(path, _)| file(path)).collect::<Vec<String>>())
        };
        let changed = ["15min", "0.05"].map(str::to_owned);
        assert_eq!(seen().await, (changed, ["268435456", "0", "none"].map(str::to_owned).to_vec()));
        assert_eq!(judged().await.change, None, "nothing is left to do");

        engine.undo(made.number).await.unwrap();
        let (values, files) = seen().await;
        assert_eq!(values, ["5min", "0.2"]);
        assert_eq!(files, ["2000000000", "1", "bfq"]);
        let again = judged().await;
        assert_eq!(line(&again, "checkpoint_timeout").step, ProfileStep::Change);
    }
}

/// A change of which one part is refused would be taken back as a whole, so what a role may not write is left to others.
#[tokio::test]
async fn a_profile_changes_nothing_that_this_role_may_not() {
    for build in testkit::builds().await {
        let server = testkit::Server::start(build, testkit::Settings::default()).await;
        let client = testkit::connect(&server.url("postgres")).await;
        let sql = "create role plain login password 'p'; create role tuner login password 'p'; \
                   grant alter system on parameter bgwriter_delay to tuner; \
                   grant execute on function pg_reload_conf() to tuner";
        client.batch_execute(sql).await.unwrap();
        for (role, changes) in [("plain", &[][..]), ("tuner", &["bgwriter_delay"][..])] {
            let url = format!("postgres://{role}:p@127.0.0.1:{}/postgres", server.port());
            let (dir, db) = (machine(FILES), request(&url, &[], "").db);
            let profile = database_profile(&db, Some(dir.path())).await.unwrap();
            let settings = ["bgwriter_delay", "track_io_timing", "autovacuum_vacuum_scale_factor"];
            for setting in settings {
                let expected = if changes.contains(&setting) { ProfileStep::Change } else { ProfileStep::ByHand };
                assert_eq!(line(&profile, setting).step, expected, "{role}: {setting}");
            }
            let target = profile.change.as_ref().map_or("", |change| change.target.as_str());
            assert_eq!(target.matches("setting:").count(), changes.len(), "{role}: {target}");
            let wal = line(&profile, "max_wal_size");
            assert_eq!((wal.step, wal.why.contains("how much room")), (ProfileStep::LeftOut, true), "{role}: {wal:?}");
        }
    }
}
