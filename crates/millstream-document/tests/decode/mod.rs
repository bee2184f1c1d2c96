//! Decoding against PostgreSQL: which documents it accepts, how it reads keys, how it orders them.

mod documents;
mod keys;

use fastrand::Rng;
use millstream_document::decode::{DecodeLimits, Decoder, JsonbText};
use millstream_model::key_bytes::put_copy_fields;
use millstream_model::{Fault, KEY_TYPES, KeyColumn, KeySpec, KeyType, Reason};
use millstream_testkit::{Cases, each_build};
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// Documents that the server parses in one statement.
const BATCH: usize = 250;

/// Paths through names and indexes that the documents often have.
const PATHS: &[&[&str]] = &[
    &["a"],
    &["a"],
    &["a"],
    &["a"],
    &["a"],
    &["b"],
    &["b"],
    &[""],
    &["é"],
    &["a\n"],
    &["0"],
    &["a", "a"],
    &["a", "b"],
    &["a", "0"],
    &["a", "-1"],
    &["b", "1"],
    &["a", "-2"],
    &["a", "a", "a"],
    &["b", "-1", "a"],
    &["a", " +1"],
    &["a", "-1", "-1"],
    &["long member name"],
    &["a", "a", "0", "b"],
];

#[tokio::test(flavor = "multi_thread")]
async fn documents_and_keys_are_accepted_as_by_postgresql() {
    each_build(async |database| {
        let client = database.client().await;
        let setting = "set timezone = 'UTC'; set datestyle = 'ISO'";
        client.batch_execute(setting).await.unwrap();
        client.batch_execute(include_str!("judge.sql")).await.unwrap();
        let mut seen = BTreeMap::new();
        for mut rng in Cases::new(20) {
            let key = random_key(&mut rng);
            let documents: Vec<_> = (0..BATCH).map(|_| documents::document(&mut rng)).collect();
            for (document, verdict) in documents.iter().zip(verdicts(&client, &documents, &key).await) {
                let ours = decode(&key, document);
                let outcome = ours.as_ref().map_or_else(|fault| fault.reason.code(), |_| "taken");
                *seen.entry(outcome).or_insert(0) += 1;
                if let Err(difference) = compare(&key, &ours, &verdict) {
                    panic!("{difference}\n{ours:?}\n{verdict:?}\n{key:?}\n{}", document.escape_ascii());
                }
            }
        }
        let taken = seen.get("taken").copied().unwrap_or(0);
        assert!(taken > 0 && seen.len() > 3, "the documents are all alike: {seen:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_documents_print_like_jsonb() {
    each_build(async |database| {
        let client = database.client().await;
        let sql =
            client.prepare("select d::jsonb::text from unnest($1::text[]) with ordinality u(d, n) order by n").await;
        let (sql, mut text) = (sql.unwrap(), JsonbText::default());
        for mut rng in Cases::new(10) {
            let key = random_key(&mut rng);
            let documents: Vec<String> = (0..BATCH)
                .map(|_| documents::document(&mut rng))
                .filter(
                    |document| !matches!(decode(&key, document), Err(fault) if !fault.reason.code().starts_with("key")),
                )
                .filter_map(|document| String::from_utf8(document).ok())
                .collect();
            for (document, row) in documents.iter().zip(client.query(&sql, &[&documents]).await.unwrap()) {
                let mut ours = Vec::new();
                text.put(document.as_bytes(), &mut ours);
                assert_eq!(String::from_utf8_lossy(&ours), row.get::<_, &str>(0), "{document}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_literals_equal_postgresqls_casts() {
    each_build(async |database| {
        let client = database.client().await;
        client.batch_execute("set timezone = 'UTC'; set datestyle = 'ISO'").await.unwrap();
        client.batch_execute(include_str!("judge.sql")).await.unwrap();
        for mut rng in Cases::new(10) {
            let columns = [
                ("t", KeyType::Timestamptz),
                ("l", KeyType::TimestamptzLenient),
                ("u", KeyType::Timestamp),
                ("d", KeyType::Date),
                ("e", KeyType::TimestamptzEpoch),
                ("m", KeyType::TimestamptzEpochMs),
                ("n", KeyType::Numeric),
                ("v", KeyType::Varchar(Some(3))),
            ];
            for (name, key_type) in columns {
                let key = KeySpec { columns: vec![column(name, &[name], key_type)] };
                let document = |rng: &mut Rng| format!("{{\"{name}\":\"{}\"}}", literal(rng, key_type)).into_bytes();
                let documents: Vec<_> = (0..BATCH).map(|_| document(&mut rng)).collect();
                for (document, verdict) in documents.iter().zip(verdicts(&client, &documents, &key).await) {
                    let ours = decode(&key, document);
                    if let Err(difference) = compare(&key, &ours, &verdict) {
                        panic!("{difference}\n{ours:?}\n{verdict:?}\n{}", document.escape_ascii());
                    }
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_accepts_the_deepest_and_longest_documents() {
    each_build(async |database| {
        let client = database.client().await;
        client.batch_execute(include_str!("judge.sql")).await.unwrap();
        let key = KeySpec { columns: vec![column("a", &["a"], KeyType::Text)] };
        let nested = |open: &str, close: &str| format!("{{\"a\":1,\"n\":{}{}}}", open.repeat(511), close.repeat(511));
        let documents: Vec<_> = [
            nested("[", "]"),
            nested("{\"x\":", "}").replace(":}", ":0}"),
            format!("{{\"a\":1,\"n\":{}}}", "9".repeat(131_072)),
            format!("{{\"a\":1,\"n\":0.{}}}", "9".repeat(16_383)),
            format!("{{\"a\":1,\"n\":[{}1]}}", "1,".repeat((8 << 20) - 100)),
            format!("{{\"a\":1,\"{}\":0}}", "n".repeat((16 << 20) - 100)),
            format!("{{\"a\":1,\"n\":\"{}\"}}", "n".repeat((16 << 20) - 100)),
        ]
        .map(String::into_bytes)
        .into();
        for document in &documents {
            assert!(decode(&key, document).is_ok());
            let verdict = verdicts(&client, std::slice::from_ref(document), &key).await;
            assert_eq!(verdict[0].error, None);
        }
    })
    .await;
}

#[test]
fn the_grammar_matches_serde_json() {
    let key = KeySpec { columns: vec![column("a", &["a"], KeyType::Text)] };
    let mut counts = [0; 2];
    for mut rng in Cases::new(100) {
        for _ in 0..BATCH {
            let document = documents::document(&mut rng);
            let text = std::str::from_utf8(&document);
            // The grammar allows numbers and surrogates that only jsonb refuses.
            let theirs = text.is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
            let ours = match decode(&key, &document) {
                Ok(_) => true,
                Err(fault) => match fault.reason {
                    Reason::NotJson | Reason::InvalidUtf8 => false,
                    Reason::NulCharacter | Reason::LoneSurrogate | Reason::NumberOutOfRange | Reason::TooDeep => {
                        continue;
                    }
                    _ => true,
                },
            };
            assert_eq!(ours, theirs, "{}", document.escape_ascii());
            counts[usize::from(ours)] += 1;
        }
    }
    assert!(counts[0] > 0 && counts[1] > 0, "the documents are all alike: {counts:?}");
}

/// A text that is a literal of the type, or nearly.
fn literal(rng: &mut Rng, key_type: KeyType) -> String {
    match key_type {
        KeyType::TimestamptzLenient => {
            let mut text = documents::moment(rng);
            if let Some(sign) = text.get(16..).and_then(|rest| rest.rfind(['+', '-'])) {
                match rng.u8(..3) {
                    0 => text.truncate(16 + sign + 3),
                    1 => text = text[..16 + sign].to_owned() + &text[16 + sign..].replace(':', ""),
                    _ => {}
                }
            }
            if rng.bool() && text.len() > 19 { text[..16].to_owned() + &text[19..] } else { text }
        }
        KeyType::TimestamptzEpoch | KeyType::TimestamptzEpochMs => keys::random_decimal(rng),
        KeyType::Numeric => {
            let mut text = keys::random_decimal(rng);
            if rng.bool() {
                text += *rng.choice(&["e", "E", "e-", "e+", "e0", "E-0"]).expect("some");
                text.extend((0..rng.usize(..3)).map(|_| rng.digit(10)));
            }
            text
        }
        KeyType::Uuid => {
            let mut text = format!("{:032x}", rng.u128(..));
            // Hyphens where they may stand, then one change that may spoil it.
            for at in [28, 24, 20, 16, 12, 8, 4].into_iter().filter(|_| rng.bool()) {
                text.insert(at, '-');
            }
            if rng.u8(..4) == 0 {
                text = format!("{{{text}}}");
            }
            let at = rng.usize(..text.len());
            match rng.u8(..6) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, *rng.choice(&['-', '{', '}', ' ', 'g', '0']).expect("some")),
                2 => text.make_ascii_uppercase(),
                _ => {}
            }
            text
        }
        KeyType::Varchar(_) => (0..rng.usize(..5)).map(|_| ['a', ' ', 'é', '漢'][rng.usize(..4)]).collect(),
        _ => documents::moment(rng),
    }
}

/// How the server reads a document.
#[derive(Debug)]
struct Verdict {
    error: Option<String>,
    kinds: Vec<Option<String>>,
    texts: Vec<Option<String>>,
    wires: Vec<Option<String>>,
}

async fn verdicts(client: &Client, documents: &[Vec<u8>], key: &KeySpec) -> Vec<Verdict> {
    let quoted = |segment: &String| format!("\"{}\"", segment.replace('\\', "\\\\").replace('"', "\\\""));
    let path = |column: &KeyColumn| format!("{{{}}}", column.path.iter().map(quoted).collect::<Vec<_>>().join(","));
    let paths: Vec<_> = key.columns.iter().map(path).collect();
    let types: Vec<_> = key.columns.iter().map(|c| c.key_type.sql_name()).collect();
    let casts: Vec<_> = key.columns.iter().map(|c| cast(c.key_type)).collect();
    let query = "select judge.* from unnest($1::bytea[]) with ordinality as d (document, n), \
                 judge(document, $2, $3, $4) order by n";
    let rows =
        client.query(query, &[&documents, &paths, &types, &casts]).await.expect("the server judges every document");
    assert_eq!(rows.len(), documents.len());
    rows.iter()
        .map(|row| Verdict {
            error: row.get("error"),
            kinds: row.get::<_, Option<_>>("kinds").unwrap_or_default(),
            texts: row.get::<_, Option<_>>("texts").unwrap_or_default(),
            wires: row.get::<_, Option<_>>("wires").unwrap_or_default(),
        })
        .collect()
}

/// How the server reads a value, as an expression over its `text` and `kind`.
fn cast(key_type: KeyType) -> String {
    // The product of a number and an interval is exact up to 2^53.
    let since = |unit: &str| {
        let us = format!("trunc(text::numeric * {unit})::bigint");
        format!(
            "timestamptz 'epoch' + ({us} / 86400000000) * interval '1 day' + ({us} % 86400000000) * interval '1 microsecond'"
        )
    };
    match key_type {
        // A column refuses a value that an explicit cast would cut.
        KeyType::Varchar(Some(n)) => format!("case when length(text) <= {n} then text::varchar({n}) end"),
        KeyType::Bigint | KeyType::Integer | KeyType::Smallint => {
            format!("case when kind = 'number' then regexp_replace(text, '[.]0+$', '') else text end::{key_type}")
        }
        KeyType::Numeric => "trim_scale(text::numeric)".into(),
        KeyType::TimestamptzEpoch => since("1000000"),
        KeyType::TimestamptzEpochMs => since("1000"),
        other => format!("text::{}", other.sql_name()),
    }
}

fn decode(key: &KeySpec, document: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    Decoder::new(key, DecodeLimits::default()).decode(document, &mut bytes)?;
    Ok(bytes)
}

/// Describes a difference between our verdict and the server's that is not allowed.
fn compare(key: &KeySpec, ours: &Result<Vec<u8>, Fault>, theirs: &Verdict) -> Result<(), String> {
    let agree = |agreed: bool, what: &str| if agreed { Ok(()) } else { Err(format!("not as the server: {what}")) };
    let refused = theirs.error.is_some();
    let fault = match ours {
        Ok(bytes) => {
            agree(!refused, "taken")?;
            return agree(wires(key, bytes) == theirs.wires, "the key's values");
        }
        Err(fault) => fault,
    };
    let columns = || key.columns.iter().zip(&theirs.kinds).zip(theirs.texts.iter().zip(&theirs.wires));
    match fault.reason {
        Reason::NumberOutOfRange if fault.detail.contains("spelled out") => Ok(()),
        Reason::NotObject => agree(!refused, "taken as JSON"),
        Reason::KeyMissing => agree(theirs.kinds.contains(&None), "a missing key"),
        Reason::KeyNull => agree(theirs.kinds.iter().flatten().any(|kind| kind == "null"), "a null key"),
        Reason::KeyTooLong => agree(theirs.wires.contains(&None), "a key that is too long"),
        Reason::KeyType => agree(
            columns().any(|((column, kind), (text, wire))| {
                wire.is_none() || is_beyond_strict(column.key_type, kind.as_deref(), text.as_deref())
            }),
            "a key of the wrong type",
        ),
        _ => agree(refused, "refused"),
    }
}

/// Whether strict literals leave out this value, which PostgreSQL would cast.
fn is_beyond_strict(key_type: KeyType, kind: Option<&str>, text: Option<&str>) -> bool {
    let (kind, text) = (kind.unwrap_or_default(), text.unwrap_or_default());
    let digits_only = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    match key_type {
        KeyType::Text | KeyType::Varchar(_) => matches!(kind, "object" | "array"),
        KeyType::Bigint | KeyType::Integer | KeyType::Smallint => !digits_only(text.strip_prefix('-').unwrap_or(text)),
        KeyType::Numeric => {
            kind == "boolean" || !shape.trim_start_matches('-').split('.').all(|p| !p.is_empty() && digits_only(p))
        }
        KeyType::TimestamptzEpoch | KeyType::TimestamptzEpochMs => {
            let (unit, second) = if key_type == KeyType::TimestamptzEpoch { (6, 1) } else { (3, 1_000) };
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            // Written otherwise, finer than microseconds, or outside of the years 1 to 9999.
            !digits_only(whole.trim_start_matches('-'))
                || whole.trim_start_matches('-').is_empty()
                || !digits_only(fraction)
                || text.ends_with('.')
                || fraction.trim_end_matches('0').len() > unit
                || whole.trim_start_matches(['-', '0']).len() > 17 - unit
                || whole.parse::<i64>().is_ok_and(|n| !(-62_135_596_800..253_402_300_800).contains(&(n / second)))
        }
        KeyType::Timestamp => {
            let digits = shape.get(19..).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
            let strict =
                shape.get(..19).is_some_and(|clock| clock.to_uppercase().replace('T', " ") == "0000-00-00 00:00:00")
                    && digits_only(digits)
                    && digits.len() <= 15
                    && (shape.len() == 19 || !digits.is_empty());
            let finer = text.get(26..).is_some_and(|rest| !rest.trim_end_matches('0').is_empty());
            !strict || finer || text.get(16..19) == Some(":60") || text.contains("24:00:00")
        }
        KeyType::Uuid => false,
        KeyType::Date => kind == "number" || shape != "0000-00-00",
        KeyType::Boolean => kind == "number" || !matches!(text, "true" | "false"),
        KeyType::Timestamptz | KeyType::TimestamptzLenient => {
            let Some((clock, zone)) = shape.split_at_checked(19) else {
                return true;
            };
            let digits = zone.strip_prefix('.').map_or(0, |zone| zone.chars().take_while(|&c| c == '0').count());
            let zone = if digits > 0 { &zone[1 + digits..] } else { zone };
            let strict = clock.to_uppercase().replace('T', " ") == "0000-00-00 00:00:00"
                && matches!(zone, "Z" | "z" | "+00:00" | "-00:00")
                && digits <= 15;
            // Left out although they look right: 24:00, second 60, finer than microseconds, years outside 1 to 9999.
            let edge = text.starts_with("0001-01-01") || text.starts_with("9999-12-31");
            let finer = text
                .get(26..)
                .is_some_and(|rest| rest.trim_start_matches('0').starts_with(|c: char| c.is_ascii_digit()));
            !strict || edge || finer || text.get(16..19) == Some(":60") || text.contains("24:00:00")
        }
    }
}

/// The columns of a key as the wire forms that COPY is given.
fn wires(key: &KeySpec, bytes: &[u8]) -> Vec<Option<String>> {
    let mut fields = Vec::new();
    put_copy_fields(&key.types(), bytes, &mut fields);
    let mut rest = fields.as_slice();
    let mut wires = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (value, after) = after.split_at(i32::from_be_bytes(*length) as usize);
        wires.push(Some(value.iter().map(|byte| format!("{byte:02x}")).collect()));
        rest = after;
    }
    wires
}

fn column(name: &str, path: &[&str], key_type: KeyType) -> KeyColumn {
    KeyColumn { name: name.to_owned(), path: path.iter().map(|&s| s.to_owned()).collect(), key_type }
}

fn random_key(rng: &mut Rng) -> KeySpec {
    let random_column = |rng: &mut Rng, n: usize| {
        let key_type = if rng.bool() { KeyType::Text } else { KEY_TYPES[rng.usize(..KEY_TYPES.len())] };
        column(&format!("c{n}"), PATHS[rng.usize(..PATHS.len())], key_type)
    };
    let columns = if rng.u8(..4) > 0 { 1 } else { rng.usize(1..=8) };
    KeySpec { columns: (0..columns).map(|n| random_column(rng, n)).collect() }
}
