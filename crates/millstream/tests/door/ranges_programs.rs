//! Other programs load what is exported, and write files of LMDB that Millstream reads.

use crate::process::{Run, millstream};
use crate::ranges_readers::{TIME_MAX, can, is_here};
use millstream_host::{Command, Ended};
use millstream_testkit::{Feature, Need, database_with, machine_has};
use std::fs;
use tempfile::TempDir;

const RANGES: &str =
    "first,last,text\n1.0.0.0,1.0.129.0,\"a\tb\\n\"\"\"\n127.0.0.1,127.0.0.1,\n2001:db8::,2001:db8::ff,é\n";

/// Writes a file of LMDB: the first two arguments are its path and whether that is a directory.
const WRITE: &str = "
import lmdb, sys
with lmdb.open(sys.argv[1], subdir=sys.argv[2] == 'directory') as env, env.begin(write=True) as txn:
    txn.put(bytes([1, 0, 0, 0]), b'{\"cc\":\"AU\",\"end\":\"010081FF\"}')
    txn.put(bytes([2, 0, 0, 0]), b'{\"end\":\"02000000\"}')
";

struct Place(TempDir);

impl Place {
    /// With a store of [`RANGES`].
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("ranges.csv"), RANGES).unwrap();
        millstream(&["ranges", "build", &place.path("geo"), &place.path("ranges.csv")]).ends(0);
        place
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn export(&self, more: &[&str]) -> Run {
        millstream(&[&["ranges", "export", &self.path("geo")], more].concat())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_runs_the_script() {
    let Some(db) = database_with(&[Feature::Psql]).await else { return };
    let place = Place::new();
    let script = place.path("geo.sql");
    place.export(&["--to", "sql", "--into", "Geo", &script]).ends(0);
    let mut psql = Command::new(db.build().installation.bin.join("psql"));
    psql.args(["--no-psqlrc", "--quiet", "--file", &script, &db.url()]);
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
    let place = Place::new();
    let script = place.path("geo.nft");
    for name in ["ip_ranges", "geo", "countries", "Set", "set_", "blocked"] {
        place.export(&["--to", "nftables", "--into", name, &script]).ends(0);
        let mut nft = Command::new("unshare");
        nft.args(["--net", "nft", "--check", "--file", &script]);
        nft.run(TIME_MAX).await.and_then(Ended::succeeded).unwrap();
    }
    for name in ["table", "set", "inet"] {
        let refused = place.export(&["--to", "nftables", "--into", name]).ends(2);
        assert!(refused.stderr.contains("is not a name for a table of nftables"), "{refused:?}");
    }
}

#[tokio::test]
async fn files_that_python_wrote_are_read() {
    let program = if can("python3", "import lmdb").await { "python3" } else { "/usr/bin/python3" };
    if !is_here(program, "import lmdb", "python3-lmdb").await {
        return;
    }
    let place = Place::new();
    for kind in ["file", "directory"] {
        let path = place.path(kind);
        let mut write = Command::new(program);
        write.args(["-c", WRITE, &path, kind]);
        write.run(TIME_MAX).await.and_then(Ended::succeeded).unwrap();
        let asked = millstream(&["ranges", "get", &path, "1.0.129.255", "2.0.0.0", "2.0.0.1"]).ends(0);
        let expected = "1.0.129.255\t1.0.0.0-1.0.129.255\t{\"cc\":\"AU\"}\n2.0.0.0\t2.0.0.0-2.0.0.0\t{}\n2.0.0.1\t-\n";
        assert_eq!(asked.stdout, expected, "{kind}");
        let verified = millstream(&["ranges", "verify", &path]).ends(0);
        assert!(verified.stdout.contains("2 ranges of IPv4, 0 ranges of IPv6: no problem"), "{verified:?}");
        assert!(verified.stderr.contains("another program wrote the file"), "{verified:?}");
        let stat = millstream(&["ranges", "stat", &path]).ends(0);
        assert!(stat.stdout.contains("another program wrote it"), "{stat:?}");
    }
    let refused = millstream(&["ranges", "build", &place.path("directory"), &place.path("ranges.csv")]).ends(2);
    assert!(refused.stderr.contains("holds data.mdb, a file of another program"), "{refused:?}");
}
