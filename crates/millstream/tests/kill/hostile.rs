//! A file of all kinds of documents that cannot be stored, mixed with good ones.

use crate::process::{Run, millstream};
use millstream_testkit::each_build;
use std::collections::BTreeMap;
use std::io::Write;

/// Lines that no collection with the key `id:bigint` can hold, with the reason that is expected.
pub fn hostile_lines() -> Vec<(Vec<u8>, &'static str)> {
    let text = |t: &str| t.as_bytes().to_vec();
    let mut too_large = b"{\"id\":1,\"x\":\"".to_vec();
    too_large.resize(17 << 20, b'y');
    too_large.extend_from_slice(b"\"}");
    let mut deep = text("{\"id\":1,\"x\":");
    deep.extend(std::iter::repeat_n(b'[', 600));
    deep.extend(std::iter::repeat_n(b']', 600));
    deep.push(b'}');
    vec![
        (text("{\"id\":1"), "not_json"),
        (text("{'id':1}"), "not_json"),
        (text("{\"id\":01}"), "not_json"),
        (text("{\"id\":1}x"), "not_json"),
        (text("nonsense"), "not_json"),
        (text("[{\"id\":1}]"), "not_object"),
        (text("17"), "not_object"),
        (text("null"), "not_object"),
        (b"{\"id\":1,\"x\":\"\xff\"}".to_vec(), "invalid_utf8"),
        (b"{\"id\":1,\"x\":\"\xed\xa0\x80\"}".to_vec(), "invalid_utf8"),
        (text("{\"id\":1,\"x\":\"a\\u0000b\"}"), "nul_character"),
        (text("{\"id\":1,\"x\":\"\\ud800\"}"), "lone_surrogate"),
        (text("{\"id\":1,\"x\":\"\\udc00\\ud800\"}"), "lone_surrogate"),
        (text("{\"id\":1,\"x\":1e131072}"), "number_out_of_range"),
        (text("{\"id\":1,\"x\":1e131071}"), "number_out_of_range"),
        (text("{\"id\":1,\"x\":1e-20000}"), "number_out_of_range"),
        (deep, "too_deep"),
        (text("{\"x\":1}"), "key_missing"),
        (text("{\"id\":null}"), "key_null"),
        (text("{\"id\":\"x\"}"), "key_type"),
        (text("{\"id\":1.5}"), "key_type"),
        (text("{\"id\":{}}"), "key_type"),
        (text("{\"id\":9223372036854775808}"), "key_type"),
        (too_large, "too_large"),
    ]
}

fn load(url: &str, file: &str, more: &[&str]) -> Run {
    let mut args = vec!["load", file, "--db", url, "--progress", "none"];
    args.extend_from_slice(more);
    millstream(&args)
}

#[tokio::test]
async fn every_bad_line_is_one_reject_and_every_good_one_is_stored() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hostile.ndjson");
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
        let (mut line, mut expected, mut good) = (0u64, BTreeMap::new(), 0u64);
        for (bytes, reason) in hostile_lines() {
            for _ in 0..3 {
                line += 1;
                good += 1;
                writeln!(file, "{{\"id\":{good},\"line\":{line}}}").unwrap();
            }
            line += 1;
            file.write_all(&bytes).unwrap();
            file.write_all(if line.is_multiple_of(2) { b"\r\n" } else { b"\n" }).unwrap();
            expected.insert(line, (reason.to_owned(), bytes.len() as u64));
            line += 1;
            file.write_all(b"\n").unwrap();
        }
        file.into_inner().unwrap().sync_all().unwrap();
        let rejects = dir.path().join("rejects.ndjson");
        let (path, rejects) = (path.to_str().unwrap(), rejects.to_str().unwrap());
        let more = ["--into", "hostile", "--key", "id:bigint", "--output", "json", "--rejects", rejects];
        let receipt = load(&db.url(), path, &more).ends(1).json();
        assert_eq!(receipt["read"], good + expected.len() as u64);
        assert_eq!(receipt["inserted"], good);
        assert_eq!(receipt["rejected"], expected.len() as u64);

        let client = db.client().await;
        let rows = client.query("select line, reason, bytes, truncated from millstream.reject", &[]).await.unwrap();
        let found: BTreeMap<u64, (String, u64)> = rows
            .iter()
            .map(|r| (r.get::<_, i64>(0).try_into().unwrap(), (r.get(1), r.get::<_, i64>(2).try_into().unwrap())))
            .collect();
        assert_eq!(found, expected);
        let truncated: Vec<bool> = rows.iter().map(|r| r.get(3)).collect();
        assert_eq!(truncated.iter().filter(|t| **t).count(), 1, "only the document above 1 MiB is cut");
        let stored: i64 = client
            .query_one("select count(*) from hostile where id = (doc ->> 'id')::bigint", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(u64::try_from(stored).unwrap(), good);
        let written = std::fs::read_to_string(rejects).unwrap();
        assert_eq!(written.lines().count(), expected.len());
    })
    .await;
}

#[tokio::test]
async fn keys_too_long_for_the_index_are_rejects() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long.ndjson");
        let lines: Vec<String> =
            [100, 2_600, 2_800, 10_000].iter().map(|n| format!("{{\"id\":\"{}\"}}", "k".repeat(*n))).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        let run = load(&db.url(), path.to_str().unwrap(), &["--into", "long", "--key", "id", "--output", "json"]);
        let receipt = run.ends(1).json();
        assert_eq!((receipt["inserted"].as_u64(), receipt["rejected"].as_u64()), (Some(2), Some(2)));
        let reasons = db
            .client()
            .await
            .query("select line from millstream.reject where reason = 'key_too_long' order by line", &[])
            .await
            .unwrap();
        assert_eq!(reasons.iter().map(|r| r.get::<_, i64>(0)).collect::<Vec<_>>(), [3, 4]);
    })
    .await;
}

#[tokio::test]
async fn csv_rejects_and_damage_have_line_numbers() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        std::fs::write(&path, "id,name\n1,one\n2\n3,three,more\n4,\"fo\nur\"\n5,\"fi\nve\" and\n6,\"open").unwrap();
        let more = ["--into", "csv", "--key", "id:bigint", "--output", "json"];
        let run = load(&db.url(), path.to_str().unwrap(), &more).ends(2);
        assert!(run.stderr.contains(":9"), "the damage has its line: {}", run.stderr);
        let receipt = run.json();
        assert_eq!((receipt["inserted"].as_u64(), receipt["rejected"].as_u64()), (Some(3), Some(4)));
        assert_eq!(receipt["finished"], false);
        let rows =
            db.client().await.query("select line, reason from millstream.reject order by line", &[]).await.unwrap();
        let found: Vec<(i64, String)> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
        let expected = [(3, "csv_fields"), (4, "csv_fields"), (8, "csv_fields"), (9, "damaged_source")];
        assert_eq!(found, expected.map(|(line, reason)| (line, reason.to_owned())));
    })
    .await;
}
