//! Documents are compared as the server compares them.

use super::{execute, keys, verified, wanted};
use crate::scene::Files;
use millstream_engine::Difference;
use millstream_testkit::{Cases, cases, each_build};
use std::fmt::Write;

/// A random value, and the same value spelled in another way or nearly the same value.
fn value(rng: &mut fastrand::Rng, depth: usize) -> (String, String) {
    const PAIRS: &[(&str, &str)] = &[
        ("1", "1.00"),
        ("1e2", "100"),
        ("-0", "0.000"),
        ("0.10", "1e-1"),
        ("10", "1"),
        ("1.05", "1.5"),
        ("12345678901234567890.5", "12345678901234567890.50"),
        ("12345678901234567890.5", "12345678901234567890.6"),
        ("9007199254740993", "9007199254740992"),
        (r#""a\u00e9\n""#, "\"aé\\u000a\""),
        (r#""\ud83d\ude00""#, "\"😀\""),
        (r#""1.0""#, r#""1""#),
        (r#""\/\\""#, r#""/\\""#),
        ("true", "false"),
        ("null", "null"),
        ("[]", "{}"),
        (r#"{"a":1,"b":2}"#, r#"{ "b" : 2.0, "a":1 }"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{"a":{"x":1},"\u0061":[3]}"#, r#"{"a":[3.0]}"#),
        (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
        ("[1,2]", "[12]"),
        ("[1,2]", "[2,1]"),
        (r#"["1",2]"#, "[1,2]"),
    ];
    if depth > 0 && rng.bool() {
        let members: Vec<_> = (0..rng.usize(0..4)).map(|_| (rng.usize(0..6), value(rng, depth - 1))).collect();
        let names = ["a", "b", "aa", "", "\\\"", "é"];
        let spell = |order: &mut dyn Iterator<Item = &(usize, (String, String))>, second: bool| {
            let members =
                order.map(|(name, (one, other))| format!("\"{}\":{}", names[*name], if second { other } else { one }));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        };
        let one = spell(&mut members.iter(), false);
        let backwards = rng.bool();
        let other = if backwards { spell(&mut members.iter().rev(), true) } else { spell(&mut members.iter(), true) };
        return (one, other);
    }
    let (one, other) = *rng.choice(PAIRS).expect("not empty");
    match rng.u8(..4) {
        0 => (one.to_owned(), one.to_owned()),
        1 => (other.to_owned(), one.to_owned()),
        _ => (one.to_owned(), other.to_owned()),
    }
}

#[tokio::test]
async fn document_equality_matches_jsonb() {
    let documents = cases(4_000);
    for mut rng in Cases::new(1) {
        each_build(async |db| {
            let mut client = db.client().await;
            execute(
                &db,
                "create table one (id int primary key, doc jsonb); create table other (like one including all)",
            )
            .await;
            let (mut text, transaction) = (String::new(), client.transaction().await.unwrap());
            for id in 0..documents {
                let (one, other) = value(&mut rng, 3);
                let (one, other) = (format!("{{\"id\":{id},\"v\":{one}}}"), format!("{{\"id\":{id},\"v\":{other}}}"));
                let id = i32::try_from(id).unwrap();
                for (table, document) in [("one", &one), ("other", &other)] {
                    let sql = format!("insert into {table} values ($1, $2::text::jsonb)");
                    transaction.execute(&sql, &[&id, document]).await.unwrap();
                }
                let _ = writeln!(text, "{one}");
            }
            transaction.commit().await.unwrap();
            let sql = "select one.id::text from one join other using (id) where one.doc <> other.doc order by one.id";
            let unequal: Vec<String> = client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
            assert!(unequal.len() > documents / 10 && unequal.len() < documents * 9 / 10, "{}", unequal.len());
            let file = Files::new();
            let mut wanted = wanted("other", "id", &[file.write("one", &text)]);
            wanted.findings_max = documents.min(100_000);
            let found = verified(&db.url(), &wanted).await;
            assert_eq!(keys(&found, Difference::Different), unequal);
            assert_eq!((found.missing, found.extra), (0, Some(0)));
        })
        .await;
    }
}
