//! Members of a group with a real broker, in this process and in processes that are killed, stopped and cut off.

use crate::broker::{Scene, numbered};
use crate::scene::{Warnings, request, surroundings, total};
use fastrand::Rng;
use krafka::admin::{CreatePartitionsOptions, DeleteTopicsOptions};
use millstream_engine::{Error as EngineError, Observer, Stop, StopReason, Surroundings, Tally};
use millstream_kafka::{Broker, Client, Error, Group, Outcome, Properties, TopicRequest, Until, connect, load};
use millstream_pg::{ConnInfo, Environment};
use millstream_testkit::process::{assert_runs, send};
use millstream_testkit::{Cases, Proxy, cases, until, until_some};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "id:text";

/// How the members of the tests' groups speak with the broker.
const PROTOCOLS: [&str; 2] = ["consumer", "classic"];

/// Settings of a member.
fn settings(protocol: &str, group: &str) -> String {
    let classic = match protocol {
        "classic" => "heartbeat.interval.ms=500\ntopic.metadata.refresh.interval.ms=500\n",
        _ => "",
    };
    format!("group.id={group}\ngroup.protocol={protocol}\nsession.timeout.ms=4000\n{classic}")
}

/// What a member is asked for.
fn of_member(wanted: &TopicRequest, properties: &Properties) -> TopicRequest {
    let mut wanted = wanted.clone();
    wanted.until = Until::Stopped;
    wanted.load.batch_rows = 200;
    let name = properties.group.clone().expect("it is one of a group");
    wanted.group = Some(Group { drain: Duration::from_secs(1), patience: properties.patience(), ..Group::new(name) });
    wanted
}

/// A member in this process.
struct Member {
    wanted: TopicRequest,
    client: Arc<Broker>,
    around: Surroundings,
    warnings: Arc<Warnings>,
}

impl Member {
    async fn new(scene: &Scene, wanted: &TopicRequest, settings: &str) -> Self {
        let properties = Properties::parse(settings, "a test").unwrap();
        let client = Arc::new(connect(&wanted.address, &properties).await.expect("the broker answers"));
        let (around, warnings) = surroundings(&scene.db);
        Self { wanted: of_member(wanted, &properties), client, around, warnings }
    }

    async fn load(&self) -> Result<Outcome, Error> {
        Box::pin(load(&self.wanted, Arc::clone(&self.client), &self.around)).await
    }

    fn stop(&self) {
        self.around.stop.stop(StopReason::Terminated);
    }

    /// How many partitions each member of the group has, in order.
    async fn divided(&self) -> Vec<usize> {
        divided(&self.client).await
    }
}

async fn divided(client: &Broker) -> Vec<usize> {
    let members = client.members().await.unwrap_or_default();
    let mut divided: Vec<usize> = members.iter().map(|member| member.partitions.len()).collect();
    divided.sort_unstable();
    divided
}

/// Asserts that a load ended without an error because it was stopped. It may not have begun: a group can assign partitions to a
/// member that is still joining.
fn assert_stopped(ended: Result<Outcome, Error>) {
    match ended {
        Ok(outcome) => assert!(outcome.error.is_none(), "{outcome:?}"),
        Err(error) => assert!(matches!(error, Error::Engine(EngineError::Stopped(_))), "{error:?}"),
    }
}

async fn loads_all(scene: &Scene, table: &str, sum: i64) {
    let client = scene.db.client().await;
    until("everything is loaded", async || total(&client, table).await == sum).await;
}

/// Partitions that are assigned to a process which was stopped while it joined would be nobody's until the group has missed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_that_is_stopped_while_it_joins_leaves_no_member_behind() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("joining", 2, &[]).await;
    let wanted = scene.wanted("joining", "joining", "sum:value");
    let usual = settings("classic", "of-joining");
    let first = Member::new(&scene, &wanted, &usual).await;
    let stopping = async {
        until("the first has all", async || first.divided().await == [2]).await;
        // The group waits longer for a silent member than this test waits for anything.
        let silent = usual.replace("session.timeout.ms=4000", "session.timeout.ms=600000");
        let second = Member::new(&scene, &wanted, &silent).await;
        tokio::select! {
            biased;
            () = until("it joins", async || first.divided().await.len() == 2) => {}
            joined = second.client.join(drop) => joined.expect("the broker answers"),
        }
        second.client.leave().await;
        until("the first is alone", async || first.divided().await == [2]).await;
        first.stop();
    };
    let (outcome, ()) = tokio::join!(first.load(), stopping);
    assert!(outcome.expect("it begins").error.is_none());
}

/// A partition that is added must be read by somebody, without a process being started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn members_divide_a_topic_also_after_partitions_were_added() {
    let Some(scene) = Scene::new().await else { return };
    for protocol in PROTOCOLS {
        scene.create(protocol, 2, &[]).await;
        let wanted = scene.wanted(protocol, protocol, "sum:value");
        let settings = settings(protocol, &format!("of-{protocol}"));
        let first = Member::new(&scene, &wanted, &settings).await;
        let second = Member::new(&scene, &wanted, &settings).await;
        let moving = async {
            until("both have a partition", async || first.divided().await == [1, 1]).await;
            for partition in 0..2 {
                scene.write(protocol, partition, numbered(0..100)).await;
            }
            let of_hundred: i64 = (0..100).sum();
            loads_all(&scene, protocol, 2 * of_hundred).await;
            let more = [(protocol, 4)];
            let made = scene.admin().await.create_partitions(more, CreatePartitionsOptions::default()).await.unwrap();
            assert!(made.values().all(Result::is_ok), "{made:?}");
            until("both have two partitions", async || first.divided().await == [2, 2]).await;
            for partition in 0..4 {
                scene.write(protocol, partition, numbered(0..100)).await;
            }
            loads_all(&scene, protocol, 6 * of_hundred).await;
            second.stop();
            until("the first has all", async || first.divided().await == [4]).await;
            for partition in 0..4 {
                scene.write(protocol, partition, numbered(0..100)).await;
            }
            loads_all(&scene, protocol, 10 * of_hundred).await;
            first.stop();
        };
        let (one, other, ()) = tokio::join!(first.load(), second.load(), moving);
        for (outcome, member) in [one, other].into_iter().zip([&first, &second]) {
            let outcome = outcome.expect("it begins");
            assert!(outcome.error.is_none(), "{protocol}: {outcome:?}");
            let said = member.warnings.text();
            assert!(!said.contains("did not release"), "{protocol}: {said}");
        }
        assert!(first.divided().await.is_empty(), "both have left");
    }
}

/// A static member that is started again must be let in, and the others keep their partitions meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_static_member_keeps_its_partitions_while_it_is_started_again() {
    let Some(scene) = Scene::new().await else { return };
    for protocol in PROTOCOLS {
        let topic = format!("static-{protocol}");
        scene.create(&topic, 2, &[]).await;
        let into = format!("static_{protocol}");
        let wanted = scene.wanted(&topic, &into, "sum:value");
        let of = |instance: &str| format!("{}group.instance.id={instance}\n", settings(protocol, &topic));
        let stays = Member::new(&scene, &wanted, &of("a")).await;
        let goes = Member::new(&scene, &wanted, &of("b")).await;
        let back = Member::new(&scene, &wanted, &of("b")).await;
        // What each member of the group has, by its own name.
        let divided = async || {
            let members = stays.client.members().await.unwrap_or_default();
            let mut divided: Vec<_> = members.into_iter().map(|member| (member.instance, member.partitions)).collect();
            divided.sort();
            divided
        };
        let of_one: i64 = (0..100).sum();
        let leaving = async {
            let before = until_some("both have a partition", async || {
                Some(divided().await).filter(|all| all.len() == 2 && all.iter().all(|(_, has)| has.len() == 1))
            })
            .await;
            goes.stop();
            before
        };
        let staying = async {
            let (gone, before) = tokio::join!(goes.load(), leaving);
            assert_stopped(gone);
            assert_eq!(divided().await, before, "{protocol}: its partition waits for it");
            let loading = async {
                for partition in 0..2 {
                    scene.write(&topic, partition, numbered(0..100)).await;
                }
                loads_all(&scene, &into, 2 * of_one).await;
                assert_eq!(divided().await, before, "{protocol}: nothing has moved");
                back.stop();
                stays.stop();
            };
            let (back, ()) = tokio::join!(back.load(), loading);
            assert!(back.expect("it begins").error.is_none());
        };
        let (stayed, ()) = tokio::join!(stays.load(), staying);
        assert!(stayed.expect("it begins").error.is_none());
    }
}

/// Two processes of one name must not take the partitions from each other for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_second_process_of_the_same_name_does_not_load() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("named", 1, &[]).await;
    let wanted = scene.wanted("named", "named", "sum:value");
    let settings = format!("{}group.instance.id=a\n", settings("consumer", "named"));
    let first = Member::new(&scene, &wanted, &settings).await;
    let second = Member::new(&scene, &wanted, &settings).await;
    let patient = settings.replace("session.timeout.ms=4000", "session.timeout.ms=600000");
    let patient = Member::new(&scene, &wanted, &patient).await;
    let trying = async {
        until("the first has the partition", async || first.divided().await == [1]).await;
        let said = || patient.warnings.text().matches("a member that is named a (--group-instance)").count();
        let hearing = async {
            until("it says for what it waits", async || said() > 0).await;
            patient.stop();
        };
        let (waited, ()) = tokio::join!(patient.load(), hearing);
        assert!(matches!(waited, Err(Error::Engine(EngineError::Stopped(_)))), "{waited:?}");
        assert_eq!(said(), 1, "{}", patient.warnings.text());
        let refused = match second.load().await {
            Err(error) => error,
            Ok(outcome) => outcome.error.expect("it is not let in"),
        };
        assert!(refused.to_string().contains("--group-instance"), "{refused}");
        scene.write("named", 0, numbered(0..10)).await;
        loads_all(&scene, "named", 45).await;
        first.stop();
    };
    let (outcome, ()) = tokio::join!(first.load(), trying);
    assert!(outcome.expect("it begins").error.is_none());
}

/// The offsets of a topic that was made again are those of other messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_topic_that_is_made_again_under_a_group_is_refused() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("again", 2, &[]).await;
    let wanted = scene.wanted("again", "again", "sum:value");
    let member = Member::new(&scene, &wanted, &settings("consumer", "again")).await;
    let making = async {
        for partition in 0..2 {
            scene.write("again", partition, numbered(0..100)).await;
        }
        loads_all(&scene, "again", 2 * (0..100).sum::<i64>()).await;
        scene.admin().await.delete_topics(["again"], DeleteTopicsOptions::default()).await.unwrap();
        scene.create("again", 2, &[]).await;
    };
    let (outcome, ()) = tokio::join!(member.load(), making);
    // The client may notice it before the offsets do.
    assert!(outcome.as_ref().is_ok_and(|outcome| outcome.error.is_some()), "{outcome:?}");
    for partition in 0..2 {
        scene.write("again", partition, numbered(0..300)).await;
    }
    let next = Member::new(&scene, &wanted, &settings("consumer", "again")).await;
    let error = next.load().await.expect("it begins").error.expect("it is refused again");
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
    loads_all(&scene, "again", 2 * (0..100).sum::<i64>()).await;
}

/// Variables that make a process of a test a member: the topic, the database, and the settings of its client.
const TOPIC: &str = "MILLSTREAM_TEST_MEMBER_TOPIC";
const DATABASE: &str = "MILLSTREAM_TEST_MEMBER_DATABASE";
const SETTINGS: &str = "MILLSTREAM_TEST_MEMBER_SETTINGS";

/// The collection of those processes.
const INTO: &str = "moved";

/// Loads as a member until its input ends, if this process is one.
async fn is_member_process() -> bool {
    let [Ok(topic), Ok(database), Ok(settings)] = [TOPIC, DATABASE, SETTINGS].map(std::env::var) else { return false };
    let mut wanted = request(INTO, KEY, "sum:value");
    wanted.address = topic.parse().unwrap();
    let properties = Properties::parse(&settings, "a test").unwrap();
    let wanted = of_member(&wanted, &properties);
    let db = ConnInfo::parse(&database, &Environment::default()).unwrap();
    let (stop, observer) = (Stop::default(), Arc::new(Warnings::default()) as Arc<dyn Observer>);
    let around = Surroundings { db, stop: stop.clone(), observer, tally: Arc::new(Tally::default()) };
    // It ends with the test too, however that ends.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.stop(StopReason::Terminated);
    });
    let client = Arc::new(connect(&wanted.address, &properties).await.expect("the broker answers"));
    assert_stopped(Box::pin(load(&wanted, client, &around)).await);
    true
}

/// A process that is a member. It is killed when this is dropped.
struct Process(Child);

impl Process {
    /// Stops it in good order.
    fn finish(mut self) {
        drop(self.0.stdin.take());
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let ended = self.0.wait().unwrap();
        assert!(ended.success(), "{ended}: {said}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What happens to members.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Killed,
    /// Stopped for longer than the group waits, and continued.
    Stopped,
    /// Another one comes, and goes.
    Added,
    CutOffFromKafka,
    CutOffFromDatabase,
}

const FAULTS: [Fault; 5] =
    [Fault::Killed, Fault::Stopped, Fault::Added, Fault::CutOffFromKafka, Fault::CutOffFromDatabase];

const PARTITIONS: i32 = 6;
const MEMBERS: usize = 3;

/// The member whose connections can be cut.
const FAR: usize = 2;

/// Members of a group that are processes of their own.
struct Members<'a> {
    scene: &'a Scene,
    /// The test that they run.
    test: &'a str,
    protocol: &'a str,
    /// What is between the far one and the database.
    database: Proxy,
    processes: Vec<Process>,
    sum: i64,
    documents: i64,
}

impl Members<'_> {
    fn topic(&self) -> String {
        format!("moved-{}", self.protocol)
    }

    /// Starts a process. `place` says which one it is.
    fn start(&self, place: usize) -> Process {
        let Scene { broker, db } = self.scene;
        let (kafka, database) = match place {
            FAR => (broker.far().address.to_string(), db.server.url_at(&self.database.address.to_string(), &db.name)),
            _ => (broker.address(), db.url()),
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", self.test, "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).env(TOPIC, format!("kafka://{kafka}/{}", self.topic())).env(DATABASE, database);
        Process(command.env(SETTINGS, settings(self.protocol, &self.topic())).spawn().unwrap())
    }

    /// Writes some documents into all partitions.
    async fn write(&mut self, rng: &mut Rng) {
        for partition in 0..PARTITIONS {
            let values: Vec<(String, i64)> =
                (0..rng.i64(1..300)).map(|_| (format!("key-{}", rng.u8(0..20)), rng.i64(-1_000..1_000))).collect();
            self.sum += values.iter().map(|(_, value)| value).sum::<i64>();
            self.documents += i64::try_from(values.len()).unwrap();
            self.scene.write(&self.topic(), partition, values).await;
        }
    }

    /// Waits until everything that was written is loaded, once, while all processes run.
    async fn load_all(&mut self) {
        let client = self.scene.db.client().await;
        until("everything is loaded", async || {
            self.processes.iter_mut().for_each(|process| assert_runs(&mut process.0));
            let read = documents(&client).await;
            assert!(read <= self.documents, "{read} of {} documents", self.documents);
            read == self.documents && total(&client, INTO).await == self.sum
        })
        .await;
    }

    /// Lets something happen to a member, and sees that all goes on. `client` asks for the members.
    async fn go_through(&mut self, fault: Fault, client: &Broker, rng: &mut Rng) {
        let one = rng.usize(0..MEMBERS);
        match fault {
            Fault::Killed => {
                self.processes[one] = self.start(one);
                self.write(rng).await;
            }
            Fault::Stopped => {
                let pid = self.processes[one].0.id();
                send("STOP", pid);
                self.write(rng).await;
                // The others have loaded all of it, so they have its partitions.
                self.load_all().await;
                send("CONT", pid);
                self.write(rng).await;
            }
            Fault::Added => {
                self.processes.push(self.start(MEMBERS));
                until("it has a partition", async || {
                    let divided = divided(client).await;
                    divided.len() > MEMBERS && divided.iter().all(|partitions| *partitions > 0)
                })
                .await;
                self.write(rng).await;
                let last = self.processes.pop().unwrap();
                let goes = if one == FAR { last } else { std::mem::replace(&mut self.processes[one], last) };
                goes.finish();
            }
            Fault::CutOffFromKafka => {
                let far = self.scene.broker.far();
                far.set(|traffic| (traffic.requests_held, traffic.answers_held) = (true, true));
                self.write(rng).await;
                self.load_all().await;
                far.cut();
                far.set(|traffic| (traffic.requests_held, traffic.answers_held) = (false, false));
                self.write(rng).await;
            }
            Fault::CutOffFromDatabase => {
                let db = self.scene.db.client().await;
                let before = documents(&db).await;
                // What it commits now, it does not know to be committed.
                let is_deaf = rng.bool();
                self.database.set(|traffic| (traffic.requests_held, traffic.answers_held) = (is_deaf, true));
                self.write(rng).await;
                until("the others load on", async || documents(&db).await > before).await;
                self.database.cut();
                self.database.set(|traffic| (traffic.requests_held, traffic.answers_held) = (false, false));
            }
        }
        self.load_all().await;
        until("all are members", async || divided(client).await.len() == MEMBERS).await;
    }
}

/// How many documents the database has counted, over all runs of all loads.
async fn documents(client: &tokio_postgres::Client) -> i64 {
    let sql = "select (coalesce(sum(read), 0) + (select coalesce(sum(read), 0) from millstream.lane))::bigint
               from millstream.load";
    client.query_one(sql, &[]).await.map_or(0, |row| row.get(0))
}

/// Lets one thing after the other happen to members. `test` is the name of the test, which the processes run.
async fn go_through(test: &str, protocol: &str, rounds: usize) {
    if Box::pin(is_member_process()).await {
        return;
    }
    let Some(scene) = Scene::new().await else { return };
    let mut rng = Cases::new(1).next().unwrap();
    let database = Proxy::start(format!("127.0.0.1:{}", scene.db.server.port())).await;
    let mut members = Members { scene: &scene, test, protocol, database, processes: Vec::new(), sum: 0, documents: 0 };
    let topic = members.topic();
    scene.create(&topic, PARTITIONS, &[]).await;
    let properties = Properties::parse(&settings(protocol, &topic), "a test").unwrap();
    let client = connect(&scene.wanted(&topic, INTO, "sum:value").address, &properties).await.expect("it answers");
    members.processes = (0..MEMBERS).map(|place| members.start(place)).collect();
    until("all have partitions", async || divided(&client).await == [2, 2, 2]).await;
    members.write(&mut rng).await;
    members.load_all().await;
    for fault in FAULTS.into_iter().cycle().take(rounds) {
        Box::pin(members.go_through(fault, &client, &mut rng)).await;
    }
    members.processes.drain(..).for_each(Process::finish);
    let sql = "select count(*), sum(greatest(prefix_length, coalesce(byte_offset, 0)))::bigint
               from millstream.load left join millstream.lane using (load_id)";
    let row = scene.db.client().await.query_one(sql, &[]).await.unwrap();
    let (loads, offsets): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!((loads, offsets), (i64::from(PARTITIONS), members.documents), "offsets equal documents");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_happens_to_members_each_message_counts_once() {
    let test = "members::whatever_happens_to_members_each_message_counts_once";
    Box::pin(go_through(test, "consumer", cases(10))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_happens_to_members_that_divide_the_partitions_themselves_each_message_counts_once() {
    let test = "members::whatever_happens_to_members_that_divide_the_partitions_themselves_each_message_counts_once";
    Box::pin(go_through(test, "classic", cases(5))).await;
}
