//! Other programs load what is exported, and write files of LMDB that Millstream reads.

use crate::readers::{TIME_MAX, can, is_here};
use crate::stored::{exported, stored};
use millstream_host::{Command, Ended};
use millstream_ranges::export::ExportOptions;
use millstream_ranges::{Generation, braced, verify};
use millstream_testkit::{Feature, Need, Place, database_with, machine_has};

const RANGES: &str =
    "first,last,text\n1.0.0.0,1.0.129.0,\"a\tb\\n\"\"\"\n127.0.0.1,127.0.0.1,\n2001:db8::,2001:db8::ff,é\n";

/// Writes a file of LMDB: the first two arguments are its path and whether that is a directory.
const WRITE: &str = "
import lmdb, sys
with lmdb.open(sys.argv[1], subdir=sys.argv[2] == 'directory') as env, env.begin(write=True) as txn:
    txn.put(bytes([1, 0, 0, 0]), b'{\"cc\":\"AU\",\"end\":\"010081FF\"}')
    txn.put(bytes([2, 0, 0, 0]), b'{\"end\":\"02000000\"}')
";

/// What an export of [`RANGES`] under a name writes.
fn script(place: &Place, format: &str, name: &str) -> Vec<u8> {
    let generation = stored(place.path("geo"), &place.write("ranges.csv", RANGES));
    exported(&generation, format, &ExportOptions { name: name.to_owned(), ..ExportOptions::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_runs_the_script() {
    let Some(db) = database_with(&[Feature::Psql]).await else { return };
    let place = Place::make();
    let script = place.write("geo.sql", script(&place, "sql", "Geo"));
    let mut psql = Command::new(db.build().installation.bin.join("psql"));
    psql.args(["--no-psqlrc", "--quiet", "--file"]).arg(&script).arg(db.url());
    psql.run(TIME_MAX).await.and_then(Ended::succeeded).unwrap();
    let sql = "select start::text || '-' || \"end\"::text, doc ->> 'text' from \"Geo\" order by start";
    let rows = db.client().await.query(sql, &[]).await.unwrap();
    let rows: Vec<(String, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [
        ("1.0.0.0/32-1.0.129.0/32", Some("a\tb\\n\"")),
        ("127.0.0.1/32-127.0.0.1/32", None),
        ("2001:db8::/128-2001:db8::ff/128", Some("é")),
    ];
    assert_eq!(rows, expected.map(|(range, text)| (range.to_owned(), text.map(str::to_owned))));
}

#[tokio::test]
async fn nft_takes_the_script_and_every_name_that_is_not_refused() {
    // In a network of its own, so that nothing here is read or changed.
    if !machine_has(&[Need::Root, Need::Networks, Need::NFT]) {
        return;
    }
    let place = Place::make();
    for name in ["ip_ranges", "geo", "countries", "Set", "set_", "blocked"] {
        let script = place.write("geo.nft", script(&place, "nftables", name));
        let mut nft = Command::new("unshare");
        nft.args(["--net", "nft", "--check", "--file"]).arg(&script);
        nft.run(TIME_MAX).await.and_then(Ended::succeeded).unwrap();
    }
}

#[tokio::test]
async fn files_that_python_wrote_are_read() {
    let program = if can("python3", "import lmdb").await { "python3" } else { "/usr/bin/python3" };
    if !is_here(program, "import lmdb", "python3-lmdb").await {
        return;
    }
    let place = Place::make();
    for kind in ["file", "directory"] {
        let path = place.path(kind);
        let mut write = Command::new(program);
        write.args(["-c", WRITE]).arg(&path).arg(kind);
        write.run(TIME_MAX).await.and_then(Ended::succeeded).unwrap();
        let generation = Generation::open(&path, None).unwrap();
        for (address, expected) in [
            ("1.0.129.255", Some("1.0.0.0-1.0.129.255 {\"cc\":\"AU\"}")),
            ("2.0.0.0", Some("2.0.0.0-2.0.0.0 {}")),
            ("2.0.0.1", None),
        ] {
            let found = generation.get(address.parse().unwrap()).unwrap();
            let found = found.map(|found| format!("{} {}", found.range, braced(&found.members().unwrap())));
            assert_eq!(found.as_deref(), expected, "{kind} {address}");
        }
        let verified = verify(&generation).unwrap();
        assert_eq!((verified.v4, verified.v6, verified.problems), (2, 0, 0), "{kind}: {:?}", verified.named);
        assert!(!verified.hashed && generation.receipt().is_none(), "{kind}");
    }
}
