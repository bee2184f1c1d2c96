//! Members of a group load one topic, and a test decides as their group would: in any order, too early and too late.

use crate::fake::{Fake, Questions};
use crate::scene::{Warnings, request, run, stored, surroundings, total};
use millstream_engine::{StopReason, Surroundings};
use millstream_kafka::{Begin, ClientError, Error, Group, Lot, Outcome, TopicRequest, Until, load};
use millstream_testkit::{Cases, TestDatabase, database, each_build, until};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

const KEY: &str = "id:text";

/// What each member is asked for.
fn wanted(into: &str) -> TopicRequest {
    let mut wanted = request(into, KEY, "sum:value");
    wanted.until = Until::Stopped;
    wanted.load.batch_rows = 200;
    wanted.group = Some(Group::new("g"));
    wanted
}

/// A process that loads as a member of the group.
struct Process {
    topic: Arc<Fake>,
    around: Surroundings,
    warnings: Arc<Warnings>,
    wanted: TopicRequest,
}

impl Process {
    fn new(db: &TestDatabase, topic: Arc<Fake>, wanted: &TopicRequest) -> Self {
        let (around, warnings) = surroundings(db);
        Self { topic, around, warnings, wanted: wanted.clone() }
    }

    /// Loads until it is stopped. Its accounts must balance.
    async fn load(&self) -> Outcome {
        let outcome = Box::pin(load(&self.wanted, Arc::clone(&self.topic), &self.around)).await.expect("it begins");
        let counters = outcome.account.counters;
        assert_eq!(counters.read, counters.accounted(), "{outcome:?}");
        outcome
    }

    fn stop(&self) {
        self.around.stop.stop(StopReason::Terminated);
    }

    /// Documents that it has committed.
    fn documents(&self) -> u64 {
        self.around.tally.documents()
    }

    async fn joins(&self) {
        until("it is a member", async || self.topic.is_member()).await;
    }

    async fn commits(&self, documents: u64) {
        until("it has committed so many documents", async || self.documents() >= documents).await;
    }

    async fn says(&self, words: &str) {
        until("it says so", async || self.warnings.text().contains(words)).await;
    }
}

async fn loads_all(client: &Client, table: &str, sum: i64) {
    until("everything is loaded", async || total(client, table).await == sum).await;
}

fn ended_well(outcome: &Outcome) {
    assert!(outcome.error.is_none() && outcome.stopped == Some(StopReason::Terminated), "{outcome:?}");
}

/// How a partition goes.
#[derive(Debug, Clone, Copy)]
enum Goes {
    /// The group has taken it away already.
    Lost,
    /// The group waits until it is released.
    Revoked,
    /// The group does not wait, and may assign it again before it is released.
    InHaste,
}

const GOES: [Goes; 3] = [Goes::Lost, Goes::Revoked, Goes::InHaste];

/// A partition may go and come back while something of it is still under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_any_order_of_decisions_each_message_counts_once() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.lots_of(7);
    let process = Process::new(&db, Arc::clone(&topic), &wanted("ordered"));
    // Each way to come and go after each other one. What is read before it goes is committed, or still being opened.
    let visits = GOES.map(|goes| [(true, goes), (false, goes)]).concat();
    let pairs = visits.iter().flat_map(|first| visits.iter().flat_map(move |second| [*first, *second]));
    let deciding = async {
        process.joins().await;
        let mut sum = 0;
        for (is_read, goes) in pairs {
            for n in 0..20 {
                topic.document(0, &format!("key-{n}"), n);
                sum += n;
            }
            let before = process.documents();
            topic.assigned(&[0]);
            if is_read {
                process.commits(before + 1).await;
            }
            match goes {
                Goes::Lost => topic.lost(&[0]),
                Goes::Revoked => topic.revoked(&[0]).await,
                Goes::InHaste => drop(topic.revoked(&[0])),
            }
        }
        topic.assigned(&[0]);
        loads_all(&db.client().await, "ordered", sum).await;
        process.stop();
    };
    let (outcome, ()) = tokio::join!(process.load(), deciding);
    ended_well(&outcome);
    let account = &outcome.account;
    assert_eq!((account.counters.read, account.partitions[0].offset), (topic.end(0), topic.end(0)));
    assert!(process.warnings.text().contains("has not heard of this process"), "{}", process.warnings.text());
    assert!(!topic.is_member() && topic.told()[&0] == topic.end(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn partitions_that_move_between_members_lose_and_double_nothing() {
    let db = database().await;
    for mut rng in Cases::new(3) {
        let into = format!("moved{}", rng.u32(..));
        let topic = Arc::new(Fake::new(6));
        topic.lots_of(rng.usize(1..100));
        let mut wanted = wanted(&into);
        wanted.name = Some(into.clone());
        let topics = [Arc::clone(&topic), Arc::new(topic.another()), Arc::new(topic.another())];
        let members = topics.map(|topic| Process::new(&db, topic, &wanted));
        let moving = async {
            for member in &members {
                member.joins().await;
            }
            let (mut owners, mut sum) = ([None; 6], 0);
            for step in 0..60 {
                for n in 0..rng.i64(1..100) {
                    topic.document(rng.i32(0..6), &format!("key-{}", rng.u8(0..20)), n);
                    sum += n;
                }
                // At last, nothing is nobody's.
                let place = if step < 54 { rng.usize(0..6) } else { step - 54 };
                let (number, next) = (i32::try_from(place).unwrap(), rng.usize(0..3));
                if let Some(owner) = owners[place].replace(next) {
                    let Process { topic, .. } = &members[owner];
                    match rng.choice(GOES).unwrap() {
                        Goes::Lost => topic.lost(&[number]),
                        Goes::Revoked => topic.revoked(&[number]).await,
                        Goes::InHaste => drop(topic.revoked(&[number])),
                    }
                }
                members[next].topic.assigned(&[number]);
            }
            loads_all(&db.client().await, &into, sum).await;
            members.iter().for_each(Process::stop);
        };
        let [a, b, c] = &members;
        let (a, b, c, ()) = tokio::join!(a.load(), b.load(), c.load(), moving);
        for (outcome, member) in [a, b, c].iter().zip(&members) {
            ended_well(outcome);
            assert!(!member.topic.is_member());
        }
        for (number, told) in topic.told() {
            assert_eq!(told, topic.end(number), "tools see no lag, seed {}", rng.get_seed());
        }
    }
}

/// Who waits for a partition that somebody else has must say so, and must not hold up the group.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_that_runs_outside_the_group_waits_and_says_for_whom() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(2));
        topic.document(0, "a", 1);
        let mut of_outsider = wanted("waiting");
        (of_outsider.group, of_outsider.partitions) = (None, Some(BTreeSet::from([0])));
        let outsider = Process::new(&db, Arc::clone(&topic), &of_outsider);
        let mut of_member = wanted("waiting");
        of_member.group.as_mut().unwrap().patience = Duration::ZERO;
        let member = Process::new(&db, Arc::new(topic.another()), &of_member);
        let deciding = async {
            outsider.commits(1).await;
            member.joins().await;
            member.topic.assigned(&[0, 1]);
            topic.document(1, "b", 2);
            member.commits(1).await;
            member.says("partition 0 waits: session ").await;
            // Nothing of it is held here, so the group need not wait.
            member.topic.revoked(&[0]).await;
            topic.document(0, "a", 4);
            outsider.commits(2).await;
            member.topic.assigned(&[0]);
            outsider.stop();
            topic.document(0, "a", 8);
            member.commits(2).await;
            member.stop();
        };
        let (ended, outcome, ()) = tokio::join!(outsider.load(), member.load(), deciding);
        ended_well(&ended);
        ended_well(&outcome);
        let said = member.warnings.text();
        assert!(said.contains("(millstream control") && said.contains("runs its load"), "{said}");
        assert!(!said.contains("did not release"), "{said}");
        assert_eq!(total(&db.client().await, "waiting").await, 15);
    })
    .await;
}

/// A process that was stopped for long wakes, and must not write what others have read meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_that_sleeps_loses_its_partition_and_nothing_else() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    let mut wanted = wanted("slept");
    let short = Duration::from_millis(200);
    wanted.group = Some(Group { drain: short, patience: short, ..Group::new("g") });
    let sleeper = Process::new(&db, Arc::clone(&topic), &wanted);
    let other = Process::new(&db, Arc::new(topic.another()), &wanted);
    topic.document(0, "a", 1);
    topic.document(1, "b", 2);
    let mut sleeping = Box::pin(sleeper.load());
    let before = async {
        sleeper.joins().await;
        topic.assigned(&[0, 1]);
        sleeper.commits(2).await;
    };
    tokio::select! {
        ended = &mut sleeping => panic!("{ended:?}"),
        () = before => {}
    }
    // Nobody polls it from here on, and its sessions live.
    topic.document(0, "a", 4);
    let mut loading = Box::pin(other.load());
    let meanwhile = async {
        other.joins().await;
        other.topic.assigned(&[0]);
        other.commits(1).await;
    };
    tokio::select! {
        ended = &mut loading => panic!("{ended:?}"),
        () = meanwhile => {}
    }
    let said = other.warnings.text();
    assert!(said.contains("did not release load"), "{said}");
    topic.document(0, "a", 8);
    topic.document(1, "b", 16);
    let waking = async {
        sleeper.says("partition 0 ends here").await;
        assert!(!topic.reads(0), "nobody here wants what is read of it");
        sleeper.commits(3).await;
        other.commits(2).await;
        // At last it learns of it.
        topic.lost(&[0]);
        topic.document(1, "b", 32);
        sleeper.commits(4).await;
        sleeper.stop();
        other.stop();
    };
    let (slept, loaded, ()) = tokio::join!(sleeping, loading, waking);
    ended_well(&slept);
    ended_well(&loaded);
    assert_eq!((sleeper.documents(), other.documents()), (4, 2));
    assert_eq!(total(&db.client().await, "slept").await, 63);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_that_is_killed_leaves_its_partition_to_another_one() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    (0..1_000).for_each(|n| topic.document(0, &format!("key-{}", n % 7), n));
    let wanted = wanted("killed");
    let killed = Process::new(&db, Arc::clone(&topic), &wanted);
    let other = Process::new(&db, Arc::new(topic.another()), &wanted);
    let before = async {
        killed.joins().await;
        topic.assigned(&[0]);
        killed.commits(1).await;
    };
    tokio::select! {
        ended = killed.load() => panic!("{ended:?}"),
        () = before => {}
    }
    let after = async {
        other.joins().await;
        other.topic.assigned(&[0]);
        loads_all(&db.client().await, "killed", (0..1_000).sum()).await;
        other.stop();
    };
    let (outcome, ()) = tokio::join!(other.load(), after);
    ended_well(&outcome);
    assert_eq!(outcome.account.counters.read, 1_000);
}

/// Somebody who ends a process while the database does not answer must not hear that nothing was loaded.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_that_cannot_close_in_time_has_ended_as_it_was_asked_to() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.document(0, "a", 1);
    let mut wanted = wanted("unclosed");
    wanted.load.stop_wait = Duration::from_millis(100);
    let process = Process::new(&db, Arc::clone(&topic), &wanted);
    let deciding = async {
        process.joins().await;
        topic.assigned(&[0]);
        process.commits(1).await;
        let locker = db.client().await;
        locker.batch_execute("begin; lock table millstream.load in access exclusive mode").await.unwrap();
        process.stop();
        until("it has left", async || !topic.is_member()).await;
        locker.batch_execute("commit").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(process.load(), deciding);
    ended_well(&outcome);
    let said = process.warnings.text();
    assert!(said.contains("partition 0 could not be closed in time"), "{said}");
    let again = Process::new(&db, Arc::new(topic.another()), &wanted);
    let deciding = async {
        again.joins().await;
        topic.document(0, "a", 2);
        again.topic.assigned(&[0]);
        loads_all(&db.client().await, "unclosed", 3).await;
        again.stop();
    };
    let (outcome, ()) = tokio::join!(again.load(), deciding);
    ended_well(&outcome);
}

/// A member that commits for too long must not hold up the group, nor be taken for dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_cannot_be_committed_in_time_is_left_to_the_next_owner() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    let mut wanted = wanted("drained");
    wanted.group.as_mut().unwrap().drain = Duration::from_millis(200);
    let slow = Process::new(&db, Arc::clone(&topic), &wanted);
    let next = Process::new(&db, Arc::new(topic.another()), &wanted);
    topic.document(0, "a", 1);
    let deciding = async {
        slow.joins().await;
        next.joins().await;
        topic.assigned(&[0]);
        slow.commits(1).await;
        let (locker, looker) = (db.client().await, db.client().await);
        locker.batch_execute("begin; lock table public.drained in exclusive mode").await.unwrap();
        topic.document(0, "a", 2);
        let waiting =
            "select exists (select from pg_locks where relation = 'public.drained'::regclass and not granted)";
        until("a batch waits for the table", async || looker.query_one(waiting, &[]).await.unwrap().get(0)).await;
        topic.revoked(&[0]).await;
        next.topic.assigned(&[0]);
        locker.batch_execute("commit").await.unwrap();
        next.commits(1).await;
        slow.stop();
        next.stop();
    };
    let (before, after, ()) = tokio::join!(slow.load(), next.load(), deciding);
    ended_well(&before);
    ended_well(&after);
    assert_eq!((slow.documents(), after.account.partitions[0].offset), (1, 2));
    assert_eq!(total(&db.client().await, "drained").await, 3);
}

/// Records that were fetched before a partition went must not let what lies between be skipped once it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_on_its_way_of_an_earlier_reading_is_not_taken() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    let process = Process::new(&db, Arc::clone(&topic), &wanted("earlier"));
    topic.document(0, "a", 1);
    let deciding = async {
        process.joins().await;
        topic.assigned(&[0]);
        process.commits(1).await;
        let reading = topic.reading(0).expect("it is read");
        topic.revoked(&[0]).await;
        topic.assigned(&[0]);
        until("it is read again", async || topic.reading(0).is_some_and(|other| other != reading)).await;
        topic.leave_over(Lot { partition: 0, reading, records: Vec::new(), next: 1_000 });
        topic.document(0, "a", 2);
        process.commits(2).await;
        process.stop();
    };
    let (outcome, ()) = tokio::join!(process.load(), deciding);
    ended_well(&outcome);
    assert_eq!(outcome.account.partitions[0].offset, 2);
}

/// Messages of a partition that is added are new, so none may be lost, also by who begins at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_that_is_added_begins_at_its_start_and_the_others_where_they_are_asked_to() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.document(0, "old", 1);
    let mut wanted = wanted("grown");
    wanted.from = Begin::End;
    let process = Process::new(&db, Arc::clone(&topic), &wanted);
    let deciding = async {
        process.joins().await;
        topic.add_partition(1);
        topic.document(1, "new", 2);
        topic.assigned(&[0, 1]);
        until("the old one is read", async || topic.reading(0).is_some()).await;
        topic.document(0, "later", 4);
        process.commits(2).await;
        process.stop();
    };
    let (outcome, ()) = tokio::join!(process.load(), deciding);
    ended_well(&outcome);
    assert_eq!(total(&db.client().await, "grown").await, 6);
}

/// A former owner must not write its offsets late: tools would show a lag that is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_the_owner_of_a_partition_tells_kafka_how_far_it_is() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    let wanted = wanted("told");
    let former = Process::new(&db, Arc::clone(&topic), &wanted);
    let owner = Process::new(&db, Arc::new(topic.another()), &wanted);
    topic.document(0, "a", 1);
    let deciding = async {
        former.joins().await;
        topic.assigned(&[0]);
        former.commits(1).await;
        topic.revoked(&[0]).await;
        topic.document(0, "a", 2);
        owner.joins().await;
        owner.topic.assigned(&[0]);
        owner.commits(1).await;
        owner.stop();
        until("the owner has left", async || !owner.topic.is_member()).await;
        assert_eq!(topic.told()[&0], 2);
        former.stop();
    };
    let (before, after, ()) = tokio::join!(former.load(), owner.load(), deciding);
    ended_well(&before);
    ended_well(&after);
    assert_eq!(topic.told()[&0], 2);
    // A receipt counts what all owners of the load had read by then.
    assert_eq!((before.account.counters.read, after.account.counters.read), (1, 2));
}

/// What is wrong with one partition is wrong wherever it goes: nobody skips it in silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_with_lost_records_ends_its_member_which_leaves_the_group() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    topic.document(0, "a", 1);
    let mut alone = wanted("gap");
    (alone.group, alone.until) = (None, Until::End);
    run(&db, &alone, &topic).await.unwrap();
    topic.outrun(0, 10);
    topic.document(1, "b", 2);
    let process = Process::new(&db, Arc::clone(&topic), &wanted("gap"));
    let deciding = async {
        process.joins().await;
        topic.assigned(&[1]);
        process.commits(1).await;
        topic.assigned(&[0]);
    };
    let (outcome, ()) = tokio::join!(process.load(), deciding);
    assert!(matches!(outcome.error, Some(Error::Gap { partition: 0, next: 1, .. })), "{outcome:?}");
    assert!(!topic.is_member());
    assert_eq!(total(&db.client().await, "gap").await, 3);
}

/// A partition without a leader cannot be opened. Nobody would know why nothing of it is loaded.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_that_does_not_answer_when_it_is_opened_is_named() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    (0..2).for_each(|number| topic.document(number, "a", 1));
    let process = Process::new(&db, Arc::clone(&topic), &wanted("silent"));
    let deciding = async {
        process.joins().await;
        topic.assigned(&[1]);
        process.commits(1).await;
        topic.questions(Questions::Failed(ClientError::Passing("it has no leader".into())));
        topic.assigned(&[0]);
        process.says("partition 0 of orders does not answer, and is asked again: it has no leader").await;
        topic.questions(Questions::Answered);
        process.commits(2).await;
        process.stop();
    };
    let (outcome, ()) = tokio::join!(process.load(), deciding);
    ended_well(&outcome);
}

/// A process without partitions does not see by what it reads that the topic is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_topic_that_is_made_again_while_a_member_has_none_of_it_is_refused() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.document(0, "a", 1);
    let mut alone = wanted("again");
    (alone.group, alone.until) = (None, Until::End);
    run(&db, &alone, &topic).await.unwrap();
    let process = Process::new(&db, Arc::clone(&topic), &wanted("again"));
    let deciding = async {
        process.joins().await;
        topic.make_again(true);
        // Nothing is where the last record was, as after compaction.
        topic.hidden(0, 1);
        topic.document(0, "a", 2);
        topic.assigned(&[0]);
        process.commits(1).await;
    };
    let outcome = tokio::select! {
        outcome = process.load() => outcome,
        () = deciding => panic!("what it loads is another topic"),
    };
    assert!(matches!(outcome.error, Some(Error::Replaced { partition: 0, next: 1, .. })), "{outcome:?}");
    assert_eq!(total(&db.client().await, "again").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn errors_of_a_group_that_pass_are_said_and_others_end_the_load() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    let process = Process::new(&db, Arc::clone(&topic), &wanted("erring"));
    let deciding = async {
        process.joins().await;
        topic.decide(Err(ClientError::Passing("its coordinator moves".into())));
        process.says("group g does not answer, and is asked again: its coordinator moves").await;
        topic.assigned(&[0]);
        topic.document(0, "a", 1);
        process.commits(1).await;
        topic.decide(Err(ClientError::Final("another process has its name".into())));
    };
    let (outcome, ()) = tokio::join!(process.load(), deciding);
    let error = outcome.error.expect("it ends");
    assert!(error.to_string().contains("another process has its name"), "{error}");
    assert_eq!((outcome.account.counters.read, topic.is_member()), (1, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn types_of_a_new_collection_are_inferred_before_a_process_joins() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.push(0, None, Some(b"{\"id\":7,\"value\":1}"));
    let mut wanted = request("typed", "id", "sum:value");
    (wanted.until, wanted.group) = (Until::Stopped, Some(Group::new("g")));
    let process = Process::new(&db, Arc::clone(&topic), &wanted);
    let deciding = async {
        process.joins().await;
        topic.assigned(&[0]);
        process.commits(1).await;
        process.stop();
    };
    let (outcome, ()) = tokio::join!(process.load(), deciding);
    ended_well(&outcome);
    assert_eq!(stored(&db, "typed").await["7"], 1);
    let sql = "select pg_typeof(id)::text from public.typed";
    assert_eq!(db.client().await.query_one(sql, &[]).await.unwrap().get::<_, String>(0), "bigint");
}

/// A group divides the topic: of two tables, each would lack what the other one has.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_members_of_a_group_load_into_one_collection() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(2));
        topic.document(0, "a", 1);
        let process = Process::new(&db, Arc::clone(&topic), &wanted("one"));
        let deciding = async {
            process.joins().await;
            topic.assigned(&[0, 1]);
            process.commits(1).await;
            let second = Arc::new(topic.another());
            let error = run(&db, &wanted("other"), &second).await.unwrap_err();
            assert!(error.to_string().contains("load it into one; other would get a part"), "{error}");
            assert!(!second.is_member());
            // A group of its own gets all of the topic.
            let mut own = wanted("other");
            own.group = Some(Group::new("h"));
            let other = Process::new(&db, second, &own);
            let loading = async {
                other.joins().await;
                other.topic.assigned(&[0, 1]);
                other.commits(1).await;
                other.stop();
            };
            let (outcome, ()) = tokio::join!(other.load(), loading);
            ended_well(&outcome);
            process.stop();
        };
        let (outcome, ()) = tokio::join!(process.load(), deciding);
        ended_well(&outcome);
    })
    .await;
}

/// Two processes that come at once see no partition of each other yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_join_at_once_load_into_one_collection_too() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    topic.document(0, "a", 1);
    let first = Process::new(&db, Arc::clone(&topic), &wanted("one"));
    let second = Arc::new(topic.another());
    let late = wanted("other");
    let deciding = async {
        until("both are members", async || topic.is_member() && second.is_member()).await;
        topic.assigned(&[0]);
        first.commits(1).await;
        second.assigned(&[1]);
    };
    let refused = async {
        let error = run(&db, &late, &second).await.map(|outcome| outcome.error.expect("it is refused"));
        let error = error.unwrap_or_else(|error| error);
        assert!(error.to_string().contains("load it into one; other would get a part"), "{error}");
        first.stop();
    };
    let (outcome, (), ()) = tokio::join!(first.load(), deciding, refused);
    ended_well(&outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_group_decides_by_itself_is_not_asked_for() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    let mut wanted = wanted("asked");
    wanted.until = Until::End;
    let error = run(&db, &wanted, &topic).await.unwrap_err();
    assert!(error.to_string().contains("--until end does not go with --group"), "{error}");
    assert!(!topic.is_member());
}
