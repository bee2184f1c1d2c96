//! `load --enrich`: documents get what a store of ranges knows, and all else means the bytes of the file.

use crate::process::{Run, command, killed, millstream};
use millstream_testkit::{TestDatabase, database};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use tokio_postgres::Row;

/// A directory with a store, a file of documents, and a database.
struct Place {
    dir: tempfile::TempDir,
    database: TestDatabase,
}

const GEO: &str = "client.ip from STORE pick country as geo";

impl Place {
    async fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap(), database: database().await };
        place.build("AU");
        place
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        fs::write(self.dir.path().join(name), content).unwrap();
        self.path(name)
    }

    /// Builds the next generation: one range of each family, with a country.
    fn build(&self, country: &str) {
        let lines =
            format!("first,last,country,n\n1.0.0.0,1.0.129.0,{country},1\n2001:db8::,2001:db8::ff,{country},2\n");
        let file = self.write("ranges.csv", &lines);
        millstream(&["ranges", "build", &self.path("geo"), &file, "--progress", "none"]).ends(0);
    }

    /// The arguments of a command on a file, with an enrichment from the store.
    fn args(&self, name: &str, file: &str, enrich: &str, more: &[&str]) -> Vec<String> {
        let enrich = enrich.replace("STORE", &self.path("geo"));
        let url = self.database.url();
        let fixed = [name, file, "--into", "visits", "--key", "id:bigint", "--progress", "none", "--enrich", &enrich];
        let all = [&fixed[..], &["--output", "json", "--db", &url], more].concat();
        all.into_iter().map(str::to_owned).collect()
    }

    fn run(&self, name: &str, file: &str, enrich: &str, more: &[&str]) -> Run {
        let args = self.args(name, file, enrich, more);
        millstream(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The documents by key.
    async fn documents(&self) -> Vec<Value> {
        let client = self.database.client().await;
        let rows = client.query("select doc::text from visits order by id", &[]).await.unwrap();
        rows.iter().map(|row| serde_json::from_str(row.get(0)).unwrap()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_enriched_counted_and_verified() {
    let place = Place::new().await;
    let file = place.write(
        "visits.ndjson",
        "{\"id\":1,\"client\":{\"ip\":\"1.0.128.7:4711\"},\"n\":1.50}\n\
         {\"id\":2,\"client\":{\"ip\":\"192.0.2.1\"}}\n\
         {\"id\":3,\"client\":{}}\n\
         {\"id\":4,\"client\":{\"ip\":\"[2001:db8::7]:443\"},\"geo\":\"old\"}\n\
         {\"id\":5,\n",
    );
    for layout in ["table", "log"] {
        let dry = place.run("load", &file, GEO, &["--layout", layout, "--dry-run"]).ends(1).json();
        assert_eq!((&dry["read"], &dry["rejected"]), (&json!(5), &json!(1)));
        let receipt = place.run("load", &file, GEO, &["--layout", layout]).ends(1).json();
        let transform = &receipt["stages"][0];
        assert_eq!(
            transform["documents"],
            json!({"enriched": 2, "missing": 1, "unusable": 1, "existing": 0}),
            "{receipt}"
        );
        let name = transform["name"].as_str().unwrap();
        assert!(name.starts_with("client.ip from /") && name.contains("geo@1#"), "{name}");
        assert!(name.ends_with(" pick country as geo"), "{name}");
        if layout == "log" {
            millstream(&["compact", "visits", "--db", &place.database.url()]).ends(0);
        }
        assert_eq!(
            place.documents().await,
            [
                json!({"id": 1, "client": {"ip": "1.0.128.7:4711"}, "n": 1.50, "geo": {"country": "AU"}}),
                json!({"id": 2, "client": {"ip": "192.0.2.1"}}),
                json!({"id": 3, "client": {}}),
                json!({"id": 4, "client": {"ip": "[2001:db8::7]:443"}, "geo": {"country": "AU"}}),
            ]
        );
        place.run("verify", &file, GEO, &[]).ends(0);
        place.run("verify", &file, "client.ip from STORE pick n as geo", &[]).ends(1);
        millstream(&["drop", "visits", "--yes", "--db", &place.database.url()]).ends(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_in_which_nothing_is_enriched_says_why_and_ends_with_findings() {
    let place = Place::new().await;
    let file = place
        .write("visits.ndjson", "{\"id\":1,\"ip\":\"192.0.2.1\",\"n\":1}\n{\"id\":2,\"ip\":\"1.0.0.1\",\"n\":1}\n");
    let (typo, no_address) = ("adr from STORE as geo", "2 documents without a usable address");
    for more in [&["--dry-run"][..], &[], &[], &["--mode", "sum:n"]] {
        let said = place.run("load", &file, typo, more).ends(1).stderr;
        assert!(said.contains("nothing was enriched by `adr from /"), "{more:?}: {said}");
        assert!(said.contains(&format!(" as geo`: {no_address}\n")), "{more:?}: {said}");
        assert!(said.contains("hint: check the path of the address, and ask the store"), "{more:?}: {said}");
    }
    // A finished load that is only recalled has said so before.
    let recalled = place.run("load", &file, typo, &["--mode", "sum:n"]).ends(0).stderr;
    assert!(!recalled.contains("nothing was enriched"), "{recalled}");
    assert_eq!(place.documents().await.len(), 2, "the documents are loaded");
    let args = place.args("load", &file, typo, &[]);
    let as_text: Vec<&str> = args.iter().map(|arg| if arg == "json" { "text" } else { arg }).collect();
    let text = millstream(&as_text).ends(1).stdout;
    assert!(text.contains(&format!("\n  nothing was enriched: {no_address}\n")), "{text}");
    // One of two enrichments is reported, and the load has done something.
    let also = ["--enrich", &format!("ip from {} as place", place.path("geo"))];
    let one = place.run("load", &file, typo, &also).ends(0).stderr;
    assert_eq!(one.matches("nothing was enriched").count(), 1, "{one}");
    let absent = place.write("absent.ndjson", "{\"id\":1,\"ip\":\"192.0.2.1\"}\n");
    let said = place.run("load", &absent, "ip from STORE as geo", &[]).ends(1).stderr;
    assert!(said.contains("as geo`: 1 document whose address is in no range"), "{said}");
    let empty = place.run("load", &place.write("empty.ndjson", ""), typo, &[]).ends(0).stderr;
    assert!(!empty.contains("nothing was enriched"), "{empty}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enrichment_is_judged_over_all_runs_of_a_load() {
    let place = Place::new().await;
    // Only the first document gets a value, and the second run does not read it.
    let mut text = String::from("{\"id\":0,\"client\":{\"ip\":\"1.0.0.1\"}}\n");
    for id in 1..30_000 {
        writeln!(text, "{{\"id\":{id},\"padding\":\"{:040}\"}}", 0).unwrap();
    }
    let file = place.write("visits.ndjson", &text);
    let small = ["--batch-rows", "2000", "--lanes", "1"];
    let args = place.args("load", &file, GEO, &small);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    killed(&mut command(&args), "batch-committed=kill@2");
    let resumed = place.run("load", &file, GEO, &small).ends(0);
    assert!(resumed.json()["resumed_from"].as_u64().is_some_and(|before| before > 0), "{resumed:?}");
    assert!(!resumed.stderr.contains("nothing was enriched"), "{resumed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_have_the_bytes_of_the_file() {
    let place = Place::new().await;
    let lines = [
        r#"{"id": 1, "client": {"ip": "1.0.0.1"}}"#,
        r#"{"id": 2, "client": {"ip": "8.8.8.8"}}"#,
        r#"{"id": "x", "client": {"ip": "1.0.0.1"}}"#,
        r#"{"id": 4, "client": {"ip": "1.0.0.2"}, "bad": true}"#,
        r#"{"id": 5, "client": {"ip": "none"}}"#,
    ];
    let file = place.write("visits.ndjson", &(lines.join("\n") + "\n"));
    let more = ["--enrich-missing", "reject", "--check", "doc -> 'bad' is null or doc -> 'geo' is null"];
    let receipt = place.run("load", &file, GEO, &more).ends(1).json();
    assert_eq!((&receipt["inserted"], &receipt["rejected"]), (&json!(1), &json!(4)));
    let client = place.database.client().await;
    let rows = client.query("select reason, line, document from millstream.reject order by line", &[]).await.unwrap();
    let line = |row: &Row| usize::try_from(row.get::<_, i64>(1)).unwrap();
    let found: Vec<(String, usize, String)> = rows.iter().map(|row| (row.get(0), line(row), row.get(2))).collect();
    let expected = [("not_enriched", 2), ("key_type", 3), ("breaks_check", 4), ("not_enriched", 5_usize)];
    let expected = expected.map(|(reason, line)| (reason.to_owned(), line, lines[line - 1].to_owned()));
    assert_eq!(found, expected);
    // A file of rejects is enriched like any other.
    let rejects = place.path("mend.rejects");
    millstream(&["rejects", "visits", "--export", &rejects, "--clear", "--db", &place.database.url()]).ends(0);
    place.run("load", &rejects, GEO, &["--format", "rejects", "--resume", "off"]).ends(1);
    assert_eq!(
        place.documents().await.len(),
        3,
        "those without an answer are kept now; the check and the key reject two"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_resumes_with_the_generation_that_it_began_with() {
    let place = Place::new().await;
    let mut text = String::new();
    for id in 0..30_000 {
        writeln!(text, "{{\"id\":{id},\"client\":{{\"ip\":\"1.0.{}.{}\"}}}}", id / 250 % 128, id % 250).unwrap();
    }
    let file = place.write("visits.ndjson", &text);
    let small = ["--batch-rows", "2000", "--lanes", "2"];
    let kill = |build: Option<&str>| {
        let args = place.args("load", &file, GEO, &small);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        killed(&mut command(&args), "batch-committed=kill@4");
        build.into_iter().for_each(|country| place.build(country));
    };
    kill(Some("NZ"));
    let resumed = place.run("load", &file, GEO, &small).ends(0);
    assert!(resumed.stderr.contains("began with an earlier generation"), "{}", resumed.stderr);
    let receipt = resumed.json();
    assert!(receipt["resumed_from"].as_u64().is_some_and(|before| before > 0), "{receipt}");
    assert_eq!(
        receipt["stages"][0]["documents"],
        json!({"enriched": 30_000, "missing": 0, "unusable": 0, "existing": 0})
    );
    let documents = place.documents().await;
    assert!(documents.len() == 30_000 && documents.iter().all(|doc| doc["geo"]["country"] == "AU"));
    // A new load takes the new generation. After two more builds that one is gone.
    kill(Some("FJ"));
    place.build("WS");
    let refused = place.run("load", &file, GEO, &small).ends(2);
    assert!(refused.stderr.contains("no generation 2"), "{}", refused.stderr);
    assert!(refused.stderr.contains("start over with --resume off"), "{}", refused.stderr);
    let other = place.run("load", &file, GEO, &[&small[..], &["--enrich-missing", "null"]].concat()).ends(2);
    assert!(other.stderr.contains("with other enrichments"), "{}", other.stderr);
    place.run("load", &file, GEO, &[&small[..], &["--resume", "off"]].concat()).ends(0);
    assert!(place.documents().await.iter().all(|doc| doc["geo"]["country"] == "WS"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_enriched_with_is_refused() {
    let place = Place::new().await;
    let file = place.write("visits.ndjson", "{\"id\":1}\n");
    for (enrich, said) in [
        ("ip", "PATH from STORE"),
        ("client.ip from STORE pick a, as geo", "PATH as NAME"),
        ("client.ip from STORE@9 as geo", "no generation 9"),
        ("client.ip from STORE pick contry as geo", "has a member contry"),
        ("client.ip from STORE as client", "name another one"),
        ("client.ip from STORE/none as geo", "it does not exist"),
        ("client.ip from STORE as a.x.y.z.a.b.c.d.e", "more than 8 segments"),
        ("client.ip from STORE as id", "where the key column id has its value"),
        ("client.ip from STORE as geo pick n", "found `pick` (word 6)"),
    ] {
        let refused = place.run("load", &file, enrich, &[]).ends(2);
        assert!(refused.stderr.contains(said), "{enrich}: {}", refused.stderr);
    }
    let twice = ["--enrich", &format!("client.ip from {} pick n as geo", place.path("geo"))];
    let refused = place.run("load", &file, "client.ip from STORE as geo", &twice).ends(2);
    assert!(refused.stderr.contains("the second would replace the first"), "{}", refused.stderr);
    place
        .run("load", &file, "client.ip from STORE as geo", &[&twice[..], &["--enrich-existing", "keep"]].concat())
        .ends(1);

    let long = format!("first,last,text\n1.0.0.0,1.0.0.9,{}\n", "x".repeat(5_000));
    let ranges = place.write("long.csv", &long);
    millstream(&["ranges", "build", &place.path("geo"), &ranges, "--progress", "none"]).ends(0);
    let refused = place.run("load", &file, "client.ip from STORE as geo", &[]).ends(2);
    assert!(refused.stderr.contains("at most 4096 can be added"), "{}", refused.stderr);

    // The file of a store without its receipt. LMDB would read what is cut off.
    let whole = fs::read(place.path("geo/00000002.lmdb")).unwrap();
    for (length, said) in [(whole.len(), "another program wrote"), (8_192, "is damaged: page "), (100, "cannot open")] {
        fs::write(place.path("alone"), &whole[..length]).unwrap();
        let refused = place.run("load", &file, &format!("client.ip from {} as geo", place.path("alone")), &[]).ends(2);
        assert!(refused.stderr.contains(said), "{length}: {}", refused.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_chosen_from_a_list_in_a_text_or_an_array() {
    let place = Place::new().await;
    let file = place.write(
        "visits.ndjson",
        "{\"id\":1,\"xff\":\"1.0.0.1, 8.8.8.8, 2001:db8::1\",\"hops\":[\"9.9.9.9\",\"2001:db8::2\"]}\n\
         {\"id\":2,\"xff\":\"8.8.8.8, unknown\",\"hops\":[]}\n\
         {\"id\":3,\"xff\":\"2001:db8::1, 8.8.8.8\",\"hops\":[\"1.0.0.1\",7]}\n",
    );
    let last = place.args("load", &file, "last of hops from STORE pick country, n as last", &[]);
    let mut args: Vec<&str> = last.iter().map(String::as_str).collect();
    let geo = place.path("geo");
    let first = format!("first of xff from {geo} pick n as client.first");
    let all = format!("all of xff from {geo} pick n as client.all");
    let only = format!("xff from {geo} as only");
    for enrich in [&first, &all, &only] {
        args.extend(["--enrich", enrich]);
    }
    let receipt = millstream(&args).ends(0).json();
    let counts: Vec<_> = (0..4).map(|n| receipt["stages"][n]["documents"]["enriched"].as_u64()).collect();
    assert_eq!(counts, [Some(1), Some(2), Some(2), Some(0)], "{receipt}");
    let mut documents = place.documents().await;
    let added = documents.iter_mut().map(|document| {
        let document = document.as_object_mut().unwrap();
        document.retain(|name, _| !["id", "xff", "hops"].contains(&name.as_str()));
        Value::Object(std::mem::take(document))
    });
    let (v4, v6) = (json!({"n": "1"}), json!({"n": "2"}));
    assert_eq!(
        added.collect::<Vec<_>>(),
        [
            json!({"last": {"country": "AU", "n": "2"}, "client": {"first": v4, "all": [v4, null, v6]}}),
            json!({}),
            json!({"client": {"first": v6, "all": [v6, null]}}),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_of_a_finished_load_are_not_added_with_other_enrichments() {
    let place = Place::new().await;
    let file = place.write("visits.ndjson", "{\"id\":1,\"client\":{\"ip\":\"1.0.0.1\"},\"n\":1}\n");
    let load = |enrich: &str| place.run("load", &file, enrich, &["--mode", "sum:n"]);
    let first = load(GEO).ends(0).json();
    assert_eq!(load(GEO).ends(0).json()["load_id"], first["load_id"]);
    let other = load("client.ip from STORE pick n as geo").ends(2);
    assert!(
        other.stderr.contains("visits.ndjson with other enrichments; its documents would count twice"),
        "{other:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_is_not_added_and_what_jsonb_refuses_is_not_stored() {
    let place = Place::new().await;
    let file = place.write("visits.ndjson", &format!("{{\"id\":1,\"ip\":\"{}\"}}\n", ["1.0.0.1"; 10].join(",")));
    let ranges = place.write("ranges.csv", &format!("ip,text\n1.0.0.1,{}\n", "x".repeat(500)));
    millstream(&["ranges", "build", &place.path("geo"), &ranges]).ends(0);
    let more = ["--enrich-missing", "reject"];
    place.run("load", &file, "all of ip from STORE as geo", &more).ends(1);
    let client = place.database.client().await;
    let detail: String = client.query_one("select detail from millstream.reject", &[]).await.unwrap().get(0);
    assert_eq!(detail, "what is known about ip has more than 4096 bytes");
    let ranges = "{\"ip\":\"1.0.0.1\",\"text\":\"a\\u0000\"}\n{\"ip\":\"1.0.0.1\",\"text\":\"b\"}\n";
    let ranges = place.write("ranges.ndjson", ranges);
    let built = millstream(&["ranges", "build", &place.path("geo"), &ranges]).ends(1);
    assert!(built.stderr.contains("ranges.ndjson:1: a string holds \\u0000, which jsonb cannot hold"), "{built:?}");
    place.run("load", &file, "first of ip from STORE as geo", &["--resume", "off"]).ends(0);
    assert_eq!(place.documents().await[0]["geo"], json!({"text": "b"}));
}
