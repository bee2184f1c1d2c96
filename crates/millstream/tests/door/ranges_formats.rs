//! Stores of IP ranges in other formats: exported, built again from what was exported, and asked without a build.

use crate::ranges::{DIRTY, Place, build, ranges, value};
use millstream_testkit::{each_build, gzip};
use serde_json::{Value, json};
use std::fs;

#[test]
fn typed_values_come_out_typed() {
    let place = Place::new();
    let (store, again) = (place.path("geo"), place.path("again"));
    let file = place.write("typed.csv", "network,asn,lat\n1.0.0.0/24,64512,-33.80\n1.0.1.0/24,AS7,1\n");
    let types = ["--types", "asn=uint32,lat=double"];
    let built = build(&store, &file, &types).ends(1);
    assert!(built.stderr.contains("typed.csv:3: \"AS7\" in the column \"asn\" is not of the type uint32"), "{built:?}");
    assert!(built.stdout.contains("\n  types: asn uint32, lat double\n"), "{built:?}");
    assert_eq!(value(&store, "1.0.0.7"), "{\"asn\":64512,\"lat\":-33.8}");
    let exported = place.path("out.csv");
    ranges(&["export", &store, "--to", "csv", &exported]).ends(0);
    build(&again, &exported, &types).ends(0);
    assert_eq!(ranges(&["diff", &store, &again]).ends(0).stdout, "no difference\n");
    let script = ranges(&["export", &store, "--to", "sql"]).ends(0).stdout;
    assert!(script.contains("\"asn\" bigint generated always as ((doc ->> 'asn')::bigint) stored,\n"), "{script}");
    for (types, problem) in [
        ("asn=unit32", "there is no type \"unit32\"; did you mean \"uint32\"?"),
        ("ans=uint32", "there is no column \"ans\": did you mean \"asn\"?"),
        ("asn", "it is not COLUMN=TYPE"),
    ] {
        let refused = build(&store, &file, &["--types", types]).ends(2);
        assert!(refused.stderr.contains(problem), "{refused:?}");
    }
    let json = place.write("a.ndjson", "{\"ip\":\"1.2.3.4\"}\n");
    let refused = build(&store, &json, &["--types", "a=double"]).ends(2);
    assert!(refused.stderr.contains("leave --types out, or say what the file is with --format"), "{refused:?}");
}

#[test]
fn a_file_of_maxmind_is_asked_without_a_store() {
    let place = Place::new();
    let (store, file) = (place.path("geo"), place.path("geo.mmdb"));
    build(&store, &place.write("a.csv", "network,cc\n1.0.0.0/24,AU\n2001:db8::/32,DE\n"), &[]).ends(0);
    ranges(&["export", &store, "--to", "mmdb", &file]).ends(0);
    for more in [&[][..], &["--output", "json"]] {
        let asked = [&["1.0.0.7", "2001:db8::1", "9.9.9.9", "::9", "none"][..], more].concat();
        let get = |source: &str| ranges(&[&["get", source], &asked[..]].concat()).ends(1).stdout;
        assert_eq!(get(&file), get(&store));
    }
    let missing = ranges(&["get", &place.path("none.mmdb"), "1.0.0.7"]).ends(2);
    assert!(missing.stderr.contains("is not a store of ranges: it does not exist"), "{missing:?}");
    for args in [&["verify", &file][..], &["diff", &store, &file]] {
        let refused = ranges(args).ends(2);
        assert!(refused.stderr.contains("it is a MaxMind database"), "{refused:?}");
        let hint = format!("hint: build one of it: millstream ranges build STORE {file}\n");
        assert!(refused.stderr.contains(&hint), "{refused:?}");
    }
}

#[test]
fn a_file_of_maxmind_is_read_up_to_a_limit() {
    let place = Place::new();
    let (store, file) = (place.path("geo"), place.path("geo.mmdb"));
    build(&store, &place.write("a.csv", "network,cc\n1.0.0.0/24,AU\n"), &[]).ends(0);
    ranges(&["export", &store, "--to", "mmdb", &file]).ends(0);
    let bytes = fs::metadata(&file).unwrap().len();
    build(&store, &file, &["--mmdb-max", &bytes.to_string()]).ends(0);
    // What is no text is taken for such a file, whether it ends or not.
    let zeros = place.write("zeros.gz", gzip(&vec![0; 3 << 20]));
    for (file, most, said) in [
        (file.as_str(), (bytes - 1).to_string(), ""),
        (zeros.as_str(), "2MiB".to_owned(), "2.0 MiB\n"),
        ("/dev/zero", "2MiB".to_owned(), "2.0 MiB\n"),
    ] {
        let refused = build(&store, file, &["--mmdb-max", &most]).ends(2);
        let problem = format!("{file} is read as a MaxMind database, into memory, and has more than {said}");
        assert!(refused.stderr.contains(&problem), "{refused:?}");
        let hint = "millstream ranges build takes more with --mmdb-max; if not, say what it is with --format";
        assert!(refused.stderr.contains(hint), "{refused:?}");
    }
    assert_eq!(value(&store, "1.0.0.7"), "{\"cc\":\"AU\"}", "the store is as it was");
}

#[test]
fn what_is_exported_builds_the_same_store_again() {
    let place = Place::new();
    let (store, file) = (place.path("geo"), place.write("dirty.csv", DIRTY));
    build(&store, &file, &[]).ends(1);
    for format in ["csv", "ndjson", "mmdb"] {
        let (exported, again) = (place.path(&format!("out.{format}")), place.path(&format!("again {format}")));
        let written = ranges(&["export", &store, "--to", format, &exported]).ends(0);
        assert_eq!(written.stdout, format!("3 ranges in {exported}\n"));
        build(&again, &exported, &[]).ends(0);
        assert_eq!(ranges(&["diff", &store, &again]).ends(0).stdout, "no difference\n", "{format}");
    }
    let (networks, again) = (place.path("networks.csv"), place.path("again networks"));
    ranges(&["export", &store, "--to", "csv", "--cidr", &networks]).ends(0);
    build(&again, &networks, &["--merge"]).ends(0);
    assert_eq!(ranges(&["diff", &store, &again]).ends(0).stdout, "no difference\n");
    let csv = fs::read_to_string(&networks).unwrap();
    assert!(csv.starts_with("network,country\n1.0.0.0/17,AU\n1.0.128.0/24,AU\n1.0.129.0/32,AU\n"), "{csv}");
    let csv = fs::read_to_string(place.path("out.csv")).unwrap();
    assert_eq!(ranges(&["export", &store, "--to", "csv"]).ends(0).stdout, csv);
    assert!(csv.starts_with("first,last,country\n1.0.0.0,1.0.129.0,AU\n"), "{csv}");
    let script = ranges(&["export", &store, "--to", "nftables", "--into", "geo"]).ends(0).stdout;
    assert!(script.contains("add element inet geo v4 {\n\t1.0.0.0-1.0.129.0,\n"), "{script}");
    let script = ranges(&["export", &store, "--to", "sql", "--into", "geo.au"]).ends(0).stdout;
    assert!(script.contains("copy \"geo\".\"au\" ") && script.contains("\n127.0.0.1\t127.1.2.3\t{}\n"), "{script}");
    for (args, problem) in [
        (&["--to", "csv", "--ip4r"][..], "--to csv takes no --ip4r"),
        (&["--to", "csv", "--into", "a"], "--to csv takes no --into"),
        (&["--to", "ndjson", "--cidr"], "--to ndjson takes no --cidr"),
        (&["--to", "table", "--into", "a", "file"], "--to table takes no FILE"),
        (&["--to", "table"], "--into"),
        (&["--to", "nftables", "--into", "a b"], "is not a name for a table"),
    ] {
        let refused = ranges(&[&["export", &store], args].concat()).ends(2);
        assert!(refused.stderr.contains(problem) && refused.stdout.is_empty(), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_answers_like_the_store_that_it_was_made_of() {
    each_build(async |db| {
        let place = Place::new();
        let (store, file, url) = (place.path("geo"), place.write("dirty.csv", DIRTY), db.url());
        build(&store, &file, &[]).ends(1);
        let client = db.client().await;
        client.batch_execute("create schema geo").await.unwrap();
        let export = ["export", &store, "--to", "table", "--into", "geo.cities", "--db", &url, "--output", "json"];
        let made = ranges(&export).ends(0).json();
        assert_eq!((&made["table"], &made["rows"]), (&json!("geo.cities"), &json!(3)));
        let question = made["function"].as_str().unwrap().replace("192.0.2.1", "1.0.128.7");
        let question = format!("select host(start), host(\"end\"), doc::text from ({question}) r");
        let row = client.query_one(&question, &[]).await.unwrap();
        let found: [String; 3] = [row.get(0), row.get(1), row.get(2)];
        assert_eq!(found, ["1.0.0.0", "1.0.129.0", "{\"country\": \"AU\"}"]);
        let asked = "create temporary table addresses as select ip::inet from (values ('1.0.129.0'), ('1.0.129.1'),
                     ('0.0.0.0'), ('2001:db8::5'), ('::'), ('127.1.2.3')) v (ip)";
        client.batch_execute(asked).await.unwrap();
        let lateral = format!("select count(*), count(doc) from ({}) r", made["lateral"].as_str().unwrap());
        let row = client.query_one(&lateral, &[]).await.unwrap();
        assert_eq!((row.get(0), row.get(1)), (6_i64, 3_i64));
        // Again, in the place of the table that is there.
        let more = [&export[..], &["--no-function"]].concat();
        assert_eq!(ranges(&more).ends(0).json()["function"], Value::Null);

        let again = place.path("again");
        let query = "select start, \"end\", doc ->> 'country' as country, doc from geo.cities -- all of them";
        let built = ranges(&["build", &again, "--query", query, "--keep", "country,doc", "--db", &url]).ends(0);
        assert!(built.stdout.contains("stored"), "{built:?}");
        assert_eq!(value(&again, "1.0.0.7"), "{\"country\":\"AU\",\"doc\":{\"country\": \"AU\"}}");
        let wrong = ranges(&["build", &again, "--query", "select 1 / 0 as ip", "--db", &url]).ends(2);
        assert!(wrong.stderr.contains("division by zero"), "{wrong:?}");
        let twice = "select '1.2.3.4' as ip, 'one' as x, 'two' as x";
        let refused = ranges(&["build", &again, "--query", twice, "--db", &url]).ends(2);
        assert!(refused.stderr.contains("the query has two columns \"x\""), "{refused:?}");
        let unneeded = format!("{twice}, 'y' as y");
        let kept = ["--range", "ip", "--keep", "y"];
        let args = ["build", &again, "--query", &unneeded, "--db", &url];
        ranges(&[&args[..], &kept].concat()).ends(0);
        assert_eq!(value(&again, "1.2.3.4"), "{\"y\":\"y\"}");
        ranges(&[&args[..], &kept[2..]].concat()).ends(0);
        // A document of type json keeps a member that it has twice.
        let documents = "select '1.2.3.4' as ip, E'{\"a\":\\n1}'::json as doc
                         union all select '1.2.3.5', '{\"a\": [{\"b\": 1, \"b\": 2}]}'::json";
        let rejected = ranges(&["build", &again, "--query", documents, "--db", &url]).ends(1);
        assert!(rejected.stderr.contains("the member \"b\" is there twice"), "{rejected:?}");
        assert_eq!(value(&again, "1.2.3.4"), "{\"doc\":{\"a\": 1}}");
        let unused = ranges(&["build", &again, &file, "--db", &url]).ends(2);
        assert!(unused.stderr.contains("there is no --query"), "{unused:?}");
    })
    .await;
}

#[test]
fn csv_there_and_back_invents_no_values() {
    let place = Place::new();
    let (store, again) = (place.path("store"), place.path("again"));
    let lines = [
        r#"{"start":"1.0.0.0","end":"1.0.0.9","a":null,"b":"","c":"null"}"#,
        r#"{"start":"1.0.1.0","end":"1.0.1.9","a":"x","b":"y","c":"say \"so\""}"#,
    ];
    build(&store, &place.write("values.ndjson", lines.join("\n")), &[]).ends(0);
    let csv = ranges(&["export", &store, "--to", "csv"]).ends(0).stdout;
    build(&again, &place.write("values.csv", csv), &[]).ends(0);
    assert_eq!(value(&again, "1.0.0.5"), r#"{"c":"null"}"#);
    assert_eq!(value(&again, "1.0.1.5"), r#"{"a":"x","b":"y","c":"say \"so\""}"#);
}
