//! A real broker, started from its published jars.

use crate::scene::{End, request, stored, surroundings, total};
use krafka::admin::{
    AdminClient, CreatePartitionsOptions, CreateTopicsOptions, DeleteRecordsOptions, DeleteTopicsOptions,
    ListConsumerGroupOffsetsOptions, NewTopic, TopicPartition,
};
use krafka::{Kafka, Record};
use millstream_engine::StopReason;
use millstream_kafka::{Broker, Client, Error, Messages, Outcome, Properties, TopicRequest, Until, connect, load};
use millstream_model::KeyRequest;
use millstream_pg::Explained as _;
use millstream_testkit::{Cases, KafkaBroker, TestDatabase, database, until, until_some};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "id:text";

/// A broker and a database.
pub(crate) struct Scene {
    pub(crate) broker: KafkaBroker,
    pub(crate) db: TestDatabase,
}

impl Scene {
    pub(crate) async fn new() -> Option<Self> {
        let broker = KafkaBroker::start().await?;
        Some(Self { broker, db: database().await })
    }

    /// A client of the tests' own, which remembers nothing of a topic that was made again.
    async fn kafka(&self) -> Kafka {
        until_some("the broker takes clients", async || Kafka::builder(self.broker.address()).connect().await.ok())
            .await
    }

    pub(crate) async fn admin(&self) -> AdminClient {
        self.kafka().await.admin()
    }

    pub(crate) async fn create(&self, topic: &str, partitions: i32, configs: &[(&str, &str)]) {
        self.create_on(1, topic, partitions, configs).await;
    }

    /// Makes a topic whose partitions are on so many brokers each.
    async fn create_on(&self, brokers: i16, topic: &str, partitions: i32, configs: &[(&str, &str)]) {
        let new = NewTopic::new(topic, partitions, brokers).unwrap();
        let new = configs.iter().fold(new, |new, (name, value)| new.with_config(*name, *value));
        // A topic that is being deleted keeps its name for a moment.
        until("the topic is made", async || {
            let made = self.admin().await.create_topics([new.clone()], CreateTopicsOptions::default()).await;
            made.is_ok_and(|made| made.values().all(Result::is_ok))
        })
        .await;
        until("its partitions have leaders", async || {
            let consumer = self.kafka().await.consumer_without_group().build().await.unwrap();
            let mut ready = true;
            for partition in 0..partitions {
                ready &= consumer.fetch_watermarks(topic, partition).await.is_ok();
            }
            ready
        })
        .await;
    }

    /// Writes documents into a partition, one after the other.
    pub(crate) async fn write(&self, topic: &str, partition: i32, documents: impl IntoIterator<Item = (String, i64)>) {
        let producer = self.kafka().await.producer().build().await.unwrap();
        let mut written = Vec::new();
        for (id, value) in documents {
            written.push(producer.enqueue(record(topic, partition, &id, value)).await.unwrap());
        }
        for one in written {
            let _ = one.await.unwrap();
        }
        producer.close().await.unwrap();
    }

    pub(crate) fn wanted(&self, topic: &str, into: &str, mode: &str) -> TopicRequest {
        let mut wanted = request(into, KEY, mode);
        wanted.address = format!("kafka://{}/{topic}", self.broker.address()).parse().unwrap();
        wanted
    }

    async fn client(&self, wanted: &TopicRequest) -> Arc<Broker> {
        let properties = Properties::parse("group.id=millstream", "a test").unwrap();
        Arc::new(connect(&wanted.address, &properties).await.expect("the broker answers"))
    }

    async fn run(&self, wanted: &TopicRequest) -> Result<Outcome, Error> {
        let client = self.client(wanted).await;
        let outcome = Box::pin(load(wanted, client, &surroundings(&self.db).0)).await;
        outcome.inspect(|outcome| {
            let counters = outcome.account.counters;
            assert_eq!(counters.read, counters.accounted(), "{outcome:?}");
        })
    }

    async fn loaded(&self, wanted: &TopicRequest) -> Outcome {
        let outcome = self.run(wanted).await.expect("the topic is loaded");
        assert!(outcome.error.is_none() && outcome.stopped.is_none(), "{outcome:?}");
        outcome
    }
}

fn record(topic: &str, partition: i32, id: &str, value: i64) -> Record {
    let document = format!("{{\"id\":\"{id}\",\"value\":{value}}}");
    Record::new(topic, document).key(id.to_owned()).partition(partition)
}

pub(crate) fn numbered(numbers: std::ops::Range<i64>) -> impl Iterator<Item = (String, i64)> {
    numbers.map(|n| (format!("key-{}", n % 10), n))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn transactions_of_which_a_fifth_aborts_count_each_committed_message_once() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("paid", 2, &[]).await;
    let producer = scene.kafka().await.producer().build_transactional("of-a-test").await.unwrap();
    let (mut sum, mut messages) = (0, 0);
    for transaction in 0..25i64 {
        producer.begin().unwrap();
        let aborts = transaction % 5 == 4;
        for n in 0..20 {
            let partition = i32::try_from(n % 2).unwrap();
            let _ = producer.send(record("paid", partition, &format!("key-{}", n % 3), n)).await.unwrap();
            if !aborts {
                sum += n;
                messages += 1;
            }
        }
        if aborts { producer.abort().await.unwrap() } else { producer.commit().await.unwrap() }
    }
    producer.close().await.unwrap();
    let wanted = scene.wanted("paid", "paid", "sum:value");
    let account = scene.loaded(&wanted).await.account;
    assert_eq!((account.counters.read, account.counters.rejected), (messages, 0));
    assert_eq!(stored(&scene.db, "paid").await.into_values().sum::<i64>(), sum);
    let client = scene.client(&wanted).await;
    let offsets = ListConsumerGroupOffsetsOptions::default();
    let told = scene.admin().await.list_consumer_group_offsets("millstream", offsets).await.unwrap();
    for partition in 0..2 {
        let marks = client.marks(partition).await.unwrap();
        let told = told[&TopicPartition::new("paid", partition)].as_ref().unwrap().offset;
        assert_eq!(told, Some(i64::try_from(marks.end).unwrap()), "tools see no lag");
    }
    assert_eq!(scene.loaded(&wanted).await.account.counters.read, messages, "nothing is added twice");
    let producer = scene.kafka().await.producer().build_transactional("of-a-test").await.unwrap();
    producer.begin().unwrap();
    let _ = producer.send(record("paid", 1, "key-0", 1)).await.unwrap();
    let mut waiting = scene.wanted("paid", "paid", "sum:value");
    (waiting.until, waiting.topic_every) = (Until::Stopped, Duration::from_millis(100));
    let (around, warnings) = surroundings(&scene.db);
    let client = scene.client(&waiting).await;
    let loading = Box::pin(load(&waiting, client, &around));
    let committing = async {
        let named = "partition 1 of paid waits at offset";
        until("it is named", async || warnings.text().contains(named)).await;
        assert!(warnings.text().contains("a transaction that is open; records behind it: 1"), "{}", warnings.text());
        producer.commit().await.unwrap();
        until("it is loaded", async || total(&scene.db.client().await, "paid").await == sum + 1).await;
        around.stop.stop(StopReason::Terminated);
    };
    let (outcome, ()) = tokio::join!(loading, committing);
    assert!(outcome.unwrap().error.is_none());
    producer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_load_that_is_killed_and_a_broker_that_is_killed_lose_and_double_nothing() {
    let Some(mut scene) = Scene::new().await else { return };
    scene.create("events", 3, &[]).await;
    let mut wanted = scene.wanted("events", "events", "sum:value");
    wanted.load.batch_rows = 300;
    // Documents of each partition. There are more in each round, so that it has something to lose.
    let mut written = 0;
    for mut rng in Cases::new(3) {
        let more = rng.i64(500..2_500);
        for partition in 0..3 {
            scene.write("events", partition, numbered(written..written + more)).await;
        }
        written += more;
        let (around, _) = surroundings(&scene.db);
        let client = scene.client(&wanted).await;
        let (documents, end) = (rng.u64(1..2_000), if rng.u8(..) < 170 { End::Kill } else { End::Stop });
        let mut loading = Box::pin(load(&wanted, client, &around));
        tokio::select! {
            ended = &mut loading => drop(ended.unwrap()),
            () = until("documents are committed", async || around.tally.documents() >= documents) => {
                if matches!(end, End::Stop) {
                    around.stop.stop(StopReason::Terminated);
                    drop(loading.await.unwrap());
                }
            }
        }
    }
    // The broker is away while the load runs.
    wanted.until = Until::Stopped;
    let (around, _) = surroundings(&scene.db);
    let client = scene.client(&wanted).await;
    let db = scene.db.url();
    let mut loading = Box::pin(load(&wanted, client, &around));
    let sum = |of_each: i64| 3 * (0..of_each).sum::<i64>();
    let restarting = async {
        let reader = millstream_testkit::connect(&db).await;
        let total = "select coalesce(sum((doc->>'value')::bigint), 0)::bigint from public.events";
        let loaded = async |expected: i64| {
            let found = reader.query_one(total, &[]).await;
            found.is_ok_and(|row| row.get::<_, i64>(0) == expected)
        };
        // The loads before this one may have read everything: only what comes now proves that it reads.
        for partition in 0..3 {
            scene.write("events", partition, numbered(written..written + 100)).await;
        }
        until("what came under the load is loaded", async || loaded(sum(written + 100)).await).await;
        scene.broker.kill();
        scene.broker.start_again().await;
        for partition in 0..3 {
            scene.write("events", partition, numbered(written + 100..written + 200)).await;
        }
        until("what came afterwards is loaded", async || loaded(sum(written + 200)).await).await;
    };
    tokio::select! {
        ended = &mut loading => panic!("it ended by itself: {ended:?}"),
        () = restarting => {}
    }
    around.stop.stop(StopReason::Terminated);
    let outcome = loading.await.unwrap();
    assert!(outcome.error.is_none(), "{outcome:?}");
    let each = u64::try_from(written).unwrap() + 200;
    assert_eq!(outcome.account.counters.read, 3 * each);
    let offsets: Vec<u64> = outcome.account.partitions.iter().map(|one| one.offset).collect();
    assert_eq!(offsets, [each; 3], "offsets equal documents");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_compacted_topic_leaves_the_last_document_of_each_key() {
    let Some(scene) = Scene::new().await else { return };
    let configs = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("segment.ms", "200"),
        ("min.compaction.lag.ms", "0"),
    ];
    scene.create("keys", 1, &configs).await;
    let wanted = scene.wanted("keys", "keys", "replace");
    scene.write("keys", 0, numbered(0..1_000)).await;
    scene.loaded(&wanted).await;
    // A segment ends only when something is written after it.
    let mut written = 1_000;
    until("compaction removes records", async || {
        scene.write("keys", 0, numbered(written..written + 10)).await;
        written += 10;
        let consumer = scene.kafka().await.consumer_without_group().build().await.unwrap();
        consumer.assign("keys", vec![0]).await.unwrap();
        consumer.seek("keys", 0, 0).await.unwrap();
        let first = consumer.poll(Duration::from_secs(5)).await.unwrap();
        first.first().is_some_and(|record| record.offset >= 500)
    })
    .await;
    let account = scene.loaded(&wanted).await.account;
    assert_eq!(account.partitions[0].offset, u64::try_from(written).unwrap());
    let last: BTreeMap<String, i64> = numbered(0..written).collect();
    assert_eq!(stored(&scene.db, "keys").await, last);
    // From its start, into another table, it is the same.
    let mut again = scene.wanted("keys", "again", "replace");
    again.name = Some("again".into());
    scene.loaded(&again).await;
    assert_eq!(stored(&scene.db, "again").await, last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removed_records_and_a_topic_that_was_made_again_are_noticed() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("short", 1, &[]).await;
    let mut wanted = scene.wanted("short", "short", "sum:value");
    scene.write("short", 0, numbered(0..100)).await;
    scene.loaded(&wanted).await;
    scene.write("short", 0, numbered(100..200)).await;
    let before = [(TopicPartition::new("short", 0), 150)];
    let removed = scene.admin().await.delete_records(before, DeleteRecordsOptions::default()).await.unwrap();
    assert!(removed.values().all(Result::is_ok), "{removed:?}");
    let error = scene.run(&wanted).await.unwrap_err();
    assert!(matches!(error, Error::Gap { next: 100, first: 150, .. }), "{error}");
    wanted.allow_gap = true;
    let account = scene.loaded(&wanted).await.account;
    assert_eq!((account.partitions[0].gap, account.counters.read), (50, 150));

    scene.admin().await.delete_topics(["short"], DeleteTopicsOptions::default()).await.unwrap();
    scene.create("short", 1, &[]).await;
    for written in [10, 400] {
        scene.write("short", 0, numbered(0..written)).await;
        let refused = match scene.run(&wanted).await {
            Err(error) => error,
            Ok(outcome) => outcome.error.expect("it is refused"),
        };
        assert!(matches!(refused, Error::Replaced { .. }), "{refused}");
    }
    let sum: i64 = (0..100).chain(150..200).sum();
    assert_eq!(stored(&scene.db, "short").await.into_values().sum::<i64>(), sum, "nothing of it was added");
}

/// A client that goes on at its offset would miss the first messages of the new topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_topic_that_is_made_again_under_a_load_ends_it() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("short", 1, &[]).await;
    let mut wanted = scene.wanted("short", "short", "sum:value");
    (wanted.until, wanted.topic_every) = (Until::Stopped, Duration::from_millis(100));
    scene.write("short", 0, numbered(0..10)).await;
    let (around, _) = surroundings(&scene.db);
    let client = scene.client(&wanted).await;
    let loading = Box::pin(load(&wanted, client, &around));
    let making = async {
        until("the first are committed", async || around.tally.documents() == 10).await;
        scene.admin().await.delete_topics(["short"], DeleteTopicsOptions::default()).await.unwrap();
        scene.create("short", 1, &[]).await;
        scene.write("short", 0, numbered(0..400)).await;
    };
    let (outcome, ()) = tokio::join!(loading, making);
    let outcome = outcome.unwrap();
    assert!(outcome.error.is_some(), "{outcome:?}");
    assert_eq!(stored(&scene.db, "short").await.into_values().sum::<i64>(), 45, "nothing of the new one was added");
    let refused = match scene.run(&wanted).await {
        Err(error) => error,
        Ok(outcome) => outcome.error.expect("it is refused"),
    };
    assert!(matches!(refused, Error::Replaced { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_that_are_removed_and_partitions_that_are_added_under_a_load_are_noticed() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("grows", 1, &[]).await;
    let mut wanted = scene.wanted("grows", "grows", "replace");
    (wanted.until, wanted.topic_every) = (Until::Stopped, Duration::from_millis(100));
    scene.write("grows", 0, [("old".to_owned(), 1)]).await;
    let (around, warnings) = surroundings(&scene.db);
    let client = scene.client(&wanted).await;
    let loading = Box::pin(load(&wanted, client, &around));
    let growing = async {
        until("the first is committed", async || around.tally.documents() == 1).await;
        let total = [("grows", 2)];
        let made = scene.admin().await.create_partitions(total, CreatePartitionsOptions::default()).await.unwrap();
        assert!(made.values().all(Result::is_ok), "{made:?}");
        until("it takes records", async || {
            let producer = scene.kafka().await.producer().build().await.unwrap();
            producer.send(record("grows", 1, "new", 2)).await.is_ok()
        })
        .await;
        until("the new partition is loaded", async || around.tally.documents() >= 2).await;
        around.stop.stop(StopReason::Terminated);
    };
    let (outcome, ()) = tokio::join!(loading, growing);
    let outcome = outcome.unwrap();
    assert!(outcome.error.is_none() && outcome.account.partitions.len() == 2, "{outcome:?}");
    assert!(warnings.text().contains("a new partition"), "{}", warnings.text());
    assert_eq!(stored(&scene.db, "grows").await["new"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keys_headers_and_empty_messages_are_read_from_a_broker() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("kept", 1, &[]).await;
    let producer = scene.kafka().await.producer().build().await.unwrap();
    let message = |key: &'static str, value: &'static str| Record::new("kept", value).key(key).partition(0);
    let _ = producer.send(message("a", "{\"value\":1}").header("trace", "x")).await.unwrap();
    let _ = producer.send(message("b", "{\"value\":2}")).await.unwrap();
    let _ = producer.send(Record::tombstone("kept", "b").partition(0)).await.unwrap();
    let key = KeyRequest::parse_list(KEY).unwrap();
    let columns = ["id".to_owned()];
    let mut wanted = scene.wanted("kept", "kept", "replace");
    wanted.messages = Messages::new("kept", &key, &columns, Some("kafka"), None).unwrap();
    wanted.load.mode = wanted.load.mode.with_tombstone(Some(Messages::deletes_by_itself()));
    let counters = scene.loaded(&wanted).await.account.counters;
    assert_eq!((counters.read, counters.rejected), (3, 0));
    assert_eq!(stored(&scene.db, "kept").await, BTreeMap::from([("a".to_owned(), 1)]));
    let sql = "select doc #>> '{kafka,headers,0,1}' from public.kept";
    assert_eq!(scene.db.client().await.query_one(sql, &[]).await.unwrap().get::<_, String>(0), "x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn partitions_of_a_broker_that_is_killed_are_read_from_another_one() {
    let Some(scene) = Scene::new().await else { return };
    let second = scene.broker.start_second().await;
    // Each broker leads some of them.
    scene.create_on(2, "safe", 4, &[]).await;
    let write_all = async |numbers: std::ops::Range<i64>| {
        for partition in 0..4 {
            scene.write("safe", partition, numbered(numbers.clone())).await;
        }
    };
    write_all(0..100).await;
    let mut wanted = scene.wanted("safe", "safe", "sum:value");
    wanted.until = Until::Stopped;
    let (around, _) = surroundings(&scene.db);
    // No group: its offsets may be on the broker that is killed.
    let client = Arc::new(connect(&wanted.address, &Properties::default()).await.expect("the brokers answer"));
    let loading = Box::pin(load(&wanted, client, &around));
    let killing = async {
        until("the first are committed", async || around.tally.documents() == 400).await;
        drop(second);
        write_all(100..200).await;
        until("all are committed", async || around.tally.documents() == 800).await;
        around.stop.stop(StopReason::Terminated);
    };
    let (outcome, ()) = tokio::join!(loading, killing);
    let outcome = outcome.unwrap();
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!(stored(&scene.db, "safe").await.into_values().sum::<i64>(), 4 * (0..200).sum::<i64>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn compressed_batches_and_large_messages_are_read() {
    let Some(scene) = Scene::new().await else { return };
    // Random, so that no codec makes it smaller than what is fetched at once.
    let large: String = std::iter::repeat_with(fastrand::alphanumeric).take(4 << 20).collect();
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        // The broker compresses what it gets.
        scene.create(codec, 1, &[("compression.type", codec), ("max.message.bytes", "8000000")]).await;
        scene.write(codec, 0, (0..500).map(|n| (format!("key-{n}"), n))).await;
        let producer = scene.kafka().await.producer().build().await.unwrap();
        let document = format!("{{\"id\":\"large\",\"value\":1,\"text\":\"{large}\"}}");
        let _ = producer.send(Record::new(codec, document).partition(0)).await.unwrap();
        producer.close().await.unwrap();
        let account = scene.loaded(&scene.wanted(codec, codec, "replace")).await.account;
        assert_eq!((account.counters.read, account.counters.rejected), (501, 0), "{codec}");
        let total: i64 = stored(&scene.db, codec).await.into_values().sum();
        assert_eq!(total, (0..500).sum::<i64>() + 1, "{codec}");
        let sql = format!("select doc ->> 'text' = $1 from public.{codec} where id = 'large'");
        let is_whole = scene.db.client().await.query_one(sql.as_str(), &[&large]).await.unwrap();
        assert!(is_whole.get::<_, bool>(0), "{codec}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_address_that_brokers_give_out_and_nobody_can_reach_is_named() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("away", 1, &[]).await;
    scene.broker.far().set(|traffic| traffic.closed = true);
    let mut wanted = scene.wanted("away", "away", "replace");
    wanted.address = format!("kafka://{}/away", scene.broker.behind_far()).parse().unwrap();
    let properties = Properties::parse("socket.timeout.ms=500", "a test").unwrap();
    let client = Arc::new(connect(&wanted.address, &properties).await.expect("the first address answers"));
    let ended = Box::pin(load(&wanted, client, &surroundings(&scene.db).0)).await;
    let error = ended.expect_err("nobody answers at the other address");
    assert!(error.to_string().contains(&scene.broker.far().address.to_string()), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("advertised.listeners")), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_are_encrypted_and_clients_prove_who_they_are() {
    let Some(scene) = Scene::new().await else { return };
    scene.create("secret", 1, &[]).await;
    scene.write("secret", 0, numbered(0..100)).await;
    let mut wanted = scene.wanted("secret", "secret", "replace");
    wanted.address = format!("kafka://{}/secret", scene.broker.secure_address()).parse().unwrap();
    let settings = scene.broker.secure_settings();
    let properties = Properties::parse(&settings, "a test").unwrap();
    let client = Arc::new(connect(&wanted.address, &properties).await.expect("the broker answers"));
    let outcome = Box::pin(load(&wanted, client, &surroundings(&scene.db).0)).await.unwrap();
    assert!(outcome.error.is_none() && outcome.account.counters.read == 100, "{outcome:?}");
    let wrong = settings.replace("sEcret-7", "no-Secret");
    for other in [wrong, settings.replace("sasl_ssl", "sasl_plaintext").replace("ssl.ca.location", "#")] {
        let properties = Properties::parse(&other, "a test").unwrap();
        let Err(error) = connect(&wanted.address, &properties).await else { panic!("it is let in") };
        assert!(!error.to_string().contains("no-Secret") && !error.to_string().contains("sEcret-7"), "{error}");
    }
    let ca = Path::new(settings.lines().last().unwrap().trim_start_matches("ssl.ca.location="));
    assert!(ca.is_file());
    let unknown = settings.replace(&ca.display().to_string(), "/etc/hostname");
    assert!(connect(&wanted.address, &Properties::parse(&unknown, "a test").unwrap()).await.is_err());
}
