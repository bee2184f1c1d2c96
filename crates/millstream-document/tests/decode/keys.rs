//! The canonical bytes of keys against the columns they stand for.

use fastrand::Rng;
use millstream_document::decode::{DecodeLimits, Decoder};
use millstream_model::key_bytes::{index_tuple_bytes, key_texts, put_copy_fields, put_from_wire};
use millstream_model::limits::INDEX_TUPLE_BYTES_MAX;
use millstream_model::{KEY_TYPES, KeyRequest, KeySpec, KeyType, Slot, put_literal};
use millstream_testkit::{Cases, each_build};
use std::collections::BTreeSet;
use std::pin::pin;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

#[test]
fn slots_of_documents_never_change() {
    let request = KeyRequest::parse_list("device:text,ts:timestamptz,n:bigint").unwrap();
    let spec = KeySpec::from_requests(&request).unwrap();
    let document = br#"{"device":"d\u00e9-7","ts":"2024-02-29T12:00:00.5+01:00","n":1e2}"#;
    let mut key = Vec::new();
    Decoder::new(&spec, DecodeLimits::default()).decode(document, &mut key).unwrap();
    assert_eq!(key, b"d\xc3\xa9-7\0\x80\x02\xb5\x81\xed\xec\x0d\x20\x80\0\0\0\0\0\0\x64");
    assert_eq!(Slot::of_key(&key), Slot(171));
}

#[tokio::test(flavor = "multi_thread")]
async fn key_bytes_sort_and_compare_like_columns() {
    each_build(async |database| {
        let client = database.client().await;
        for mut rng in Cases::new(20) {
            let types: Vec<_> = (0..rng.usize(1..=4)).map(|_| KEY_TYPES[rng.usize(..KEY_TYPES.len())]).collect();
            let keys: Vec<_> = (0..300).map(|_| random_key(&mut rng, &types)).collect();
            let columns = create_table(&client, &types).await;
            copy(&client, &types, &keys).await;
            let query = format!("select n from k order by {columns}, n");
            let rows = client.query(&query, &[]).await.unwrap();
            let theirs: Vec<_> = rows.iter().map(|row| row.get::<_, i32>(0)).collect();
            let mut ours: Vec<_> = (0..).take(keys.len()).collect();
            ours.sort_by_key(|&n: &i32| (&keys[n as usize], n));
            assert_eq!(ours, theirs, "{types:?}");
            let query = format!("select count(*) from (select distinct {columns} from k) _");
            let distinct: i64 = client.query_one(&query, &[]).await.unwrap().get(0);
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len() as i64, distinct, "{types:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_texts_find_their_rows() {
    each_build(async |database| {
        let client = database.client().await;
        client.batch_execute("set timezone = 'Asia/Kathmandu'").await.unwrap();
        for mut rng in Cases::new(20) {
            let types: Vec<_> = (0..rng.usize(1..=4)).map(|_| KEY_TYPES[rng.usize(..KEY_TYPES.len())]).collect();
            let key = random_key(&mut rng, &types);
            create_table(&client, &types).await;
            copy(&client, &types, std::slice::from_ref(&key)).await;
            let texts = key_texts(&types, &key);
            let condition = |n: usize| format!("c{n} = (${}::text)::{}", n + 1, types[n].sql_name());
            let conditions: Vec<_> = (0..types.len()).map(condition).collect();
            let query = format!("select count(*) from k where {}", conditions.join(" and "));
            let parameters: Vec<&(dyn ToSql + Sync)> = texts.iter().map(|text| text as _).collect();
            let found: i64 = client.query_one(&query, &parameters).await.unwrap().get(0);
            assert_eq!(found, 1, "{types:?} {texts:?}");
            let mut again = Vec::new();
            for (key_type, text) in types.iter().zip(&texts) {
                put_literal(key_type.column(), text.as_bytes(), &mut again).unwrap();
            }
            assert_eq!(again, key);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_every_stored_time_are_read_by_the_server() {
    each_build(async |database| {
        let client = database.client().await;
        client.batch_execute("set timezone = 'UTC'").await.unwrap();
        let days = "select 'epoch'::date + n as t from generate_series(-2440588, 4000000, 99991) n \
                    union all select d::date from unnest(array['infinity', '-infinity', '0001-12-31 BC', '0001-01-01']) d";
        for (key_type, name, send) in [
            (KeyType::Date, "date", "date_send"),
            (KeyType::Timestamp, "timestamp", "timestamp_send"),
            (KeyType::Timestamptz, "timestamptz", "timestamptz_send"),
        ] {
            let sql = format!("select {send}(t::{name}), t::{name}::text from ({days}) d");
            let rows = client.query(&sql, &[]).await.unwrap();
            let texts = rows.iter().map(|row| {
                let mut key = Vec::new();
                put_from_wire(key_type, row.get(0), &mut key).unwrap();
                key_texts(&[key_type], &key).remove(0)
            });
            let texts: Vec<String> = texts.collect();
            let sql = format!("select t::{name}::text from unnest($1::text[]) with ordinality as _(t, n) order by n");
            let read = client.query(&sql, &[&texts]).await.unwrap();
            for (row, read) in rows.iter().zip(&read) {
                assert_eq!(row.get::<_, String>(1), read.get::<_, String>(0));
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_length_limits_match_the_index() {
    each_build(async |database| {
        let client = database.client().await;
        for mut rng in Cases::new(25) {
            let mut types: Vec<_> = (0..rng.usize(..4)).map(|_| KEY_TYPES[rng.usize(..KEY_TYPES.len())]).collect();
            let at = rng.usize(..=types.len());
            types.insert(at, KeyType::Text);
            let columns = create_table(&client, &types).await;
            // Stored without compression, as the rule counts it.
            for (n, _) in types.iter().enumerate().filter(|(_, key_type)| **key_type == KeyType::Text) {
                client.batch_execute(&format!("alter table k alter c{n} set storage external")).await.unwrap();
            }
            client.batch_execute(&format!("create unique index on k ({columns})")).await.unwrap();
            let rest = random_key(&mut rng, &types[..at]);
            let after = random_key(&mut rng, &types[at + 1..]);
            let taken = |length: usize| {
                let key = [&rest[..], &vec![b'k'; length], b"\0", &after[..]].concat();
                (index_tuple_bytes(&types, &key) <= INDEX_TUPLE_BYTES_MAX, key)
            };
            let limit = (0..INDEX_TUPLE_BYTES_MAX).take_while(|&length| taken(length).0).last().unwrap();
            for length in limit.saturating_sub(8)..limit + 9 {
                let (taken, key) = taken(length);
                let error = try_copy(&client, &types, &[key]).await.err();
                match &error {
                    None => assert!(taken, "{types:?} {length}"),
                    Some(error) => {
                        assert_eq!(error.code(), Some(&SqlState::PROGRAM_LIMIT_EXCEEDED), "{error:?}");
                        assert!(!taken, "{types:?} {length}");
                    }
                }
            }
        }
    })
    .await;
}

/// Makes a new table `k` with a number and the key's columns, whose list it returns.
async fn create_table(client: &Client, types: &[KeyType]) -> String {
    let definition = |(n, key_type): (usize, &KeyType)| match key_type {
        text if text.is_text() => format!(", c{n} {text} collate \"C\""),
        other => format!(", c{n} {}", other.sql_name()),
    };
    let definitions: String = types.iter().enumerate().map(definition).collect();
    let create = format!("drop table if exists k; create table k (n int{definitions})");
    client.batch_execute(&create).await.expect("a table of key columns can be created");
    (0..types.len()).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", ")
}

async fn copy(client: &Client, types: &[KeyType], keys: &[Vec<u8>]) {
    try_copy(client, types, keys).await.expect("keys can be copied");
}

/// Copies keys into `k` in the binary format.
async fn try_copy(client: &Client, types: &[KeyType], keys: &[Vec<u8>]) -> Result<(), tokio_postgres::Error> {
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for (n, key) in (0_i32..).zip(keys) {
        data.extend_from_slice(&i16::try_from(types.len() + 1).expect("a key has few columns").to_be_bytes());
        data.extend_from_slice(&4_i32.to_be_bytes());
        data.extend_from_slice(&n.to_be_bytes());
        put_copy_fields(types, key, &mut data);
    }
    data.extend_from_slice(&(-1_i16).to_be_bytes());
    let mut sink = pin!(client.copy_in("copy k from stdin with (format binary)").await?);
    futures_util::SinkExt::send(&mut sink, bytes::Bytes::from(data)).await?;
    sink.finish().await.map(drop)
}

fn random_key(rng: &mut Rng, types: &[KeyType]) -> Vec<u8> {
    let mut key = Vec::new();
    for &key_type in types {
        loop {
            let text = random_literal(rng, key_type);
            if put_literal(key_type, text.as_bytes(), &mut key).is_ok() {
                break;
            }
        }
    }
    key
}

/// A decimal of any size, often near zero or a whole number, with zeros where they do not count.
pub(super) fn random_decimal(rng: &mut Rng) -> String {
    let sign = if rng.u8(..3) == 0 { "-" } else { "" };
    let digits = |rng: &mut Rng, most: usize| -> String {
        let few = rng.bool();
        (0..rng.usize(..=most)).map(|_| if few { ['0', '1', '9'][rng.usize(..3)] } else { rng.digit(10) }).collect()
    };
    let most = [1, 4, 11, 30][rng.usize(..4)];
    let (whole, fraction) = (digits(rng, most), digits(rng, most));
    let whole = if whole.is_empty() { "0".to_owned() } else { whole };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A text that is a literal of the type, or may not be; values repeat.
fn random_literal(rng: &mut Rng, key_type: KeyType) -> String {
    match key_type {
        KeyType::Text | KeyType::Varchar(_) => {
            let letters = ['\u{1}', ' ', 'A', 'a', 'b', '~', '\u{7f}', 'é', 'ÿ', '漢', '\u{ffff}', '😀'];
            (0..rng.usize(..4)).map(|_| letters[rng.usize(..letters.len())]).collect()
        }
        KeyType::Bigint => (rng.i64(..) >> rng.u8(..64)).to_string(),
        KeyType::Integer => (rng.i32(..) >> rng.u8(..32)).to_string(),
        KeyType::Smallint => (rng.i16(..) >> rng.u8(..16)).to_string(),
        KeyType::Numeric | KeyType::TimestamptzEpoch | KeyType::TimestamptzEpochMs => random_decimal(rng),
        KeyType::Uuid => {
            let bits = rng.u128(..) >> rng.u8(..128);
            let hex = format!("{bits:032x}");
            match rng.u8(..8) {
                0 => hex,
                1 => format!("{{{hex}}}"),
                2 => hex.as_bytes().chunks(4).map(String::from_utf8_lossy).collect::<Vec<_>>().join("-"),
                _ => [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"),
            }
        }
        KeyType::Timestamptz | KeyType::TimestamptzLenient | KeyType::Timestamp | KeyType::Date => {
            super::documents::moment(rng)
        }
        KeyType::Boolean => rng.bool().to_string(),
    }
}
