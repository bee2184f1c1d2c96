//! What the doctor reports about a query and the indexes of a table, against real planners.

use millstream_doctor::index::{ExaminedTable, Explanation, Missed, NewIndex, Verdict, explain};
use millstream_testkit as testkit;
use tokio_postgres::Client;

/// What a query finds with some indexes.
enum Found {
    /// An index is used, or would be if the table were large.
    Usable,
    /// No index fits: condition, kind of mismatch, rewritten condition, clause of a new index; `""` for none.
    Missed(&'static str, &'static str, &'static str, &'static str),
}
use Found::{Missed as Lost, Usable};

/// Clauses of indexes, a condition or what follows `from seen`, and what is found.
const CASES: &[(&[&str], &str, Found)] = &[
    (&["(lower(mac))"], "where lower(mac) = 'a'", Usable),
    (&["(lower(mac))"], "where mac = 'A'", Lost("mac = 'A'", "wrapped", "lower(mac) = lower('A')", "(mac)")),
    (&["(mac)"], "where lower(mac) = $1", Lost("lower(mac) = $1", "unwrapped", "", "(lower(mac))")),
    (
        &["(mac)"],
        "where upper(trim(mac)) = 'A'",
        Lost("upper(TRIM(BOTH FROM mac)) = 'A'", "unwrapped", "", "(upper(TRIM(BOTH FROM mac)))"),
    ),
    (&["(lower(mac))"], "where mac in ('A', 'B')", Lost("mac = ANY ('{A,B}'::text[])", "", "", "(mac)")),
    (&[], "where n = 5::numeric", Lost("(n)::numeric = '5'::numeric", "", "", "(((n)::numeric))")),
    (&["(n)"], "where n = 5::numeric", Lost("(n)::numeric = '5'::numeric", "cast", "n = '5'", "(((n)::numeric))")),
    (&["(n)"], "where n = $1::numeric", Lost("(n)::numeric = $1", "cast", "n = ($1)::integer", "(((n)::numeric))")),
    (
        &["(((doc->>'price')::numeric))"],
        "where doc->>'price' = '3'",
        Lost("(doc ->> 'price') = '3'", "cast", "(doc ->> 'price')::numeric = '3'", "((doc ->> 'price'))"),
    ),
    (
        &["(((doc->>'price')::numeric))"],
        "where (doc->>'price')::int > 3",
        Lost(
            "(doc ->> 'price')::integer > 3",
            "cast",
            "(doc ->> 'price')::numeric > 3",
            "(((doc ->> 'price')::integer))",
        ),
    ),
    (
        &["((doc->'offer'->>'price'))"],
        "where doc#>>'{offer,price}' = 'x'",
        Lost(
            "(doc #>> '{offer,price}'::text[]) = 'x'",
            "path",
            "((doc -> 'offer') ->> 'price') = 'x'",
            "((doc #>> '{offer,price}'::text[]))",
        ),
    ),
    (
        &["((doc->>'mac'))"],
        "where doc->'mac' = '\"x\"'",
        Lost("(doc -> 'mac') = '\"x\"'::jsonb", "path", "(doc ->> 'mac') = 'x'", "((doc -> 'mac'))"),
    ),
    (&["using gin (doc)"], "where doc ? 'mac'", Usable),
    (&["using gin (doc jsonb_path_ops)"], "where doc ? 'mac'", Lost("doc ? 'mac'", "operator", "", "using gin (doc)")),
    (
        &["using gin (doc)"],
        "where doc->>'mac' = 'x'",
        Lost("(doc ->> 'mac') = 'x'", "containment", "doc @> '{\"mac\": \"x\"}'", "((doc ->> 'mac'))"),
    ),
    (&["(n, mac)"], "where mac = 'x'", Lost("mac = 'x'", "leading", "n = .. and mac = 'x'", "(mac)")),
    (&["(mac) where active"], "where mac = 'x' and active", Usable),
    (&["(mac) where n > 3"], "where mac = 'x'", Lost("mac = 'x'", "predicate", "mac = 'x' and n > 3", "(mac)")),
    (&["(lower(mac)) where n > 3"], "where mac = 'A'", Lost("mac = 'A'", "", "", "(mac)")),
    (&["(site)"], "where site like 'x%'", Usable),
    (&["(site)"], "where site like '%x'", Lost("site ~~ '%x'", "pattern", "", "")),
    (&["(lower(site))"], "where site like 'x%'", Lost("site ~~ 'x%'", "wrapped", "", "(site)")),
    (&["(lower(site))"], "where site like '%x'", Lost("site ~~ '%x'", "", "", "")),
    (&["(lower(site))"], "where site like $1", Lost("site ~~ $1", "", "", "")),
    (
        &["(lower(mac))"],
        "where mac = 'x' || $1",
        Lost("mac = ('x' || $1)", "wrapped", "lower(mac) = lower('x' || $1)", "(mac)"),
    ),
    (&["(site)"], "where site like $1", Lost("site ~~ $1", "pattern", "", "")),
    (
        &["(site)"],
        "where site = 'x' collate \"POSIX\"",
        Lost("site = 'x' COLLATE \"POSIX\"", "collation", "site = 'x'", "(site collate \"POSIX\")"),
    ),
    (&["(lower(mac))"], "where lower(mac) = 'a' or n = 3", Lost("n = 3", "", "", "(n)")),
    (&["(mac)", "(n)"], "where mac = 'a' or n = 3", Usable),
    (&["(n)"], "where n <> 3", Lost("n <> 3", "operator", "", "(n) where n <> 3")),
    // The planner may follow the key instead. That says nothing against the index.
    (&["(n)"], "where n is not null order by id limit 1", Usable),
    (&["(n) include (mac)"], "where n >= 3 and n is not null order by id desc limit 1", Usable),
    (&["(active)"], "where active order by id limit 1", Usable),
    (&["(active)"], "where active is true order by id limit 1", Usable),
    (&["using hash (n)"], "where n = 3 order by id limit 1", Usable),
    (&["(mac)", "(n)"], "where mac = 'a' or n = 3 order by id limit 1", Usable),
    (&["using brin (at)"], "where at > '2026-01-01' order by id limit 1", Usable),
    (&[], "where active", Lost("active", "", "", "(active)")),
    (&[], "where plans.noisy(mac) = 'a'", Lost("plans.noisy(mac) = 'a'", "", "", "refused")),
    (&["(n)"], "where n = id", Lost("n = id", "operator", "", "")),
    (
        &["(at)"],
        "where at::date = '2026-01-01'",
        Lost(
            "(at)::date = '2026-01-01'::date",
            "day",
            "at >= '2026-01-01'::date and at < ('2026-01-01'::date + 1)",
            "refused",
        ),
    ),
    (
        &["(at)"],
        "where at::date = $1",
        Lost("(at)::date = $1", "day", "at >= ($1)::date and at < (($1)::date + 1)", "refused"),
    ),
    // No other condition finds the same rows.
    (
        &["(at)"],
        "where at::date in ('2026-01-01', '2026-01-02')",
        Lost("(at)::date = ANY ('{2026-01-01,2026-01-02}'::date[])", "cast", "", "refused"),
    ),
    (&["(nu)"], "where nu::int = $1", Lost("(nu)::integer = $1", "cast", "", "(((nu)::integer))")),
    (&["(f)"], "where f::int = 7", Lost("(f)::integer = 7", "cast", "", "(((f)::integer))")),
    (&["(n)"], "where n::text = '7'", Lost("(n)::text = '7'", "cast", "", "(((n)::text))")),
    (&["(n)"], "where n::numeric > $1", Lost("(n)::numeric > $1", "cast", "", "(((n)::numeric))")),
    (&["(n)"], "where n::numeric = 5.5", Lost("(n)::numeric = 5.5", "cast", "", "(((n)::numeric))")),
    (&["(n)"], "where abs(n) = 5", Lost("abs(n) = 5", "unwrapped", "", "(abs(n))")),
    (&["(abs(n))"], "where n = 5", Lost("n = 5", "", "", "(n)")),
    (&["(lower(mac))"], "where mac > 'A'", Lost("mac > 'A'", "", "", "(mac)")),
    (&["using gin (doc)"], "where doc->>'n' = '5'", Lost("(doc ->> 'n') = '5'", "", "", "((doc ->> 'n'))")),
    (&["(at)"], "where at > now() - interval '1 day'", Usable),
    (&["(n)"], "order by n limit 3", Usable),
    (&["(n)"], "where mac = 'A' order by n", Lost("mac = 'A'", "", "", "(mac)")),
    (&["(n)"], "where mac = 'A' order by n limit 1", Lost("mac = 'A'", "", "", "(mac)")),
    (&["(n)"], "where n > 3 order by n", Usable),
    (&["(n)", "(mac)"], "where mac = 'A' order by n", Usable),
    (
        &["(n)"],
        "order by n nulls first limit 3",
        Lost("order by n nulls first", "order", "order by n", "((n) nulls first)"),
    ),
    (&["(n)"], "order by lower(mac) desc limit 3", Lost("order by lower(mac) desc", "", "", "((lower(mac)) desc)")),
    (
        &["(lower(mac))"],
        "as s join plans.other as o on s.mac = o.mac",
        Lost("mac = o.mac", "wrapped", "lower(mac) = lower(o.mac)", "(mac)"),
    ),
    (&["(mac)"], "as s join plans.other as o on s.mac = o.mac", Usable),
    (&["(mac)"], "where mac = (select max(o.mac) from plans.other o)", Usable),
];

fn examined() -> ExaminedTable {
    ExaminedTable { schema: "plans".into(), table: "seen".into(), hidden_column: None }
}

async fn explained(client: &mut Client, indexes: &[&str], rest: &str) -> Explanation {
    for (n, clause) in indexes.iter().enumerate() {
        client.batch_execute(&format!("create index case_{n} on plans.seen {clause}")).await.expect(clause);
    }
    let query = format!("select s.doc from plans.seen as s {}", rest.strip_prefix("as s ").unwrap_or(rest));
    let found = explain(client, &examined(), &query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    for n in 0..indexes.len() {
        client.batch_execute(&format!("drop index plans.case_{n}")).await.expect("dropped");
    }
    found
}

fn parts(missed: &Missed) -> (String, String, String, String) {
    let near = missed.near.first();
    let rewrite = near.and_then(|near| near.rewrite.as_ref());
    let clause = match &missed.new_index {
        NewIndex::Clause(clause) => clause.clone(),
        NewIndex::Refused(_) => "refused".into(),
        NewIndex::Unknown => String::new(),
    };
    (
        missed.condition.clone(),
        near.map_or(String::new(), |near| near.kind.to_owned()),
        rewrite.map_or(String::new(), |rewrite| rewrite.sql.clone()),
        clause,
    )
}

#[tokio::test]
async fn a_missed_index_is_reported_with_both_fixes() {
    testkit::every_build(async |database| {
        let client = &mut database.client().await;
        client.batch_execute(include_str!("index.sql")).await.expect("made");
        let mut wrong = Vec::new();
        for (indexes, rest, expected) in CASES {
            let found = explained(client, indexes, rest).await;
            assert_eq!((found.readings.len(), found.untried.as_deref()), (1, None), "{rest}");
            let reading = &found.readings[0];
            let got = reading.missed.first().map(parts);
            let right = match expected {
                Usable => reading.verdict < Verdict::Unusable && !reading.indexes.is_empty() && got.is_none(),
                Lost(condition, kind, rewrite, clause) => {
                    let expected = (condition, kind, rewrite, clause);
                    reading.verdict == Verdict::Unusable
                        && got.as_ref().is_some_and(|got| {
                            (&got.0.as_str(), &got.1.as_str(), &got.2.as_str(), &got.3.as_str()) == expected
                        })
                }
            };
            if !right {
                wrong.push(format!("{indexes:?} {rest}\n    {:?} {got:?}\n    {:?}", reading.verdict, reading.missed));
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    })
    .await;
}
