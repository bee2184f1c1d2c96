//! `cat`: files as a load reads them.

use crate::process::{command, millstream, run};
use millstream_testkit::gzip;
use std::path::Path;
use std::process::Stdio;

/// Files of the same rows.
const PARQUET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet/rows");
const ARROW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/arrow/rows");
const AVRO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/avro/rows");

/// Files of BSON.
const BSON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/bson");

fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn text_is_printed_as_it_is_and_compressed_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let plain = write(folder.path(), "a.csv", b"id,x\n1,\xc3\xa9\n");
    let packed = write(folder.path(), "b.ndjson.gz", &gzip(b"{\"id\":1}\n"));
    let empty = write(folder.path(), "empty", b"");
    let ended = millstream(&["cat", &plain, &empty, &packed]).ends(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("id,x\n1,é\n{\"id\":1}\n", ""));
    let ended = run(command(&["cat", "-"]).stdin(std::fs::File::open(&packed).unwrap())).ends(0);
    assert_eq!(ended.stdout, "{\"id\":1}\n");
    let pattern = folder.path().join("*.gz");
    assert_eq!(millstream(&["cat", pattern.to_str().unwrap()]).ends(0).stdout, "{\"id\":1}\n");
}

#[test]
fn what_is_no_text_damaged_or_missing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let packed = gzip(b"{\"id\":1}\n");
    let damaged = write(folder.path(), "damaged.gz", &packed[..packed.len() - 1]);
    let ended = millstream(&["cat", &damaged]).ends(2);
    assert_eq!(ended.stdout, "{\"id\":1}\n");
    assert!(ended.stderr.contains("is damaged: the compressed data ends too early"), "{ended:?}");
    let ended = millstream(&["cat", &write(folder.path(), "x.xz", b"\xfd7zXZ\0rest")]).ends(2);
    assert!(ended.stderr.contains("hint: xz -dc FILE | millstream cat -"), "{ended:?}");
    // Before version 0.15, streams of Arrow began with a length alone.
    let arrow = std::fs::read(ARROW).unwrap();
    let old = arrow.strip_prefix(&[0xff; 4]).unwrap_or(&arrow[12..]).to_vec();
    for content in [&old[..], &gzip(&old), b"\x8f\x03 no text\n\x17\0"] {
        let ended = millstream(&["cat", &write(folder.path(), "binary", content)]).ends(2);
        assert!(ended.stderr.contains("binary is not text") && ended.stdout.is_empty(), "{ended:?}");
        assert!(ended.stderr.contains("hint: `file FILE` shows what it is"), "{ended:?}");
    }
    assert!(millstream(&["cat", "/no/such/file"]).ends(2).stderr.contains("cannot open /no/such/file"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended =
        run(command(&["cat", &write(folder.path(), "t", b"{}\n")]).stdout(writer).stderr(Stdio::piped())).ends(0);
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_dump_is_printed_as_the_lines_it_stands_for() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "\
{\"_id\":1,\"name\":\"a\",\"ratio\":0.5,\"at\":\"2024-01-02T03:04:05.006000Z\",\"price\":1.50}
{\"_id\":2,\"name\":\"é\\\"\",\"ratio\":null,\"at\":null}
{\"_id\":3,\"tags\":[\"x\",null],\"more\":{\"b\":false}}
";
    let file = format!("{BSON}/rows");
    let content = std::fs::read(&file).unwrap();
    let packed = write(folder.path(), "packed", &gzip(&content));
    for file in [&file, &packed] {
        let ended = millstream(&["cat", file]).ends(0);
        assert_eq!(ended.stdout, rows);
        assert!(ended.stderr.contains("1 number that JSON does not have became null"), "{ended:?}");
        let ended = run(command(&["cat", "-", "--nan", "string"]).stdin(std::fs::File::open(file).unwrap())).ends(0);
        assert_eq!(ended.stdout, rows.replacen("null", "\"NaN\"", 1));
    }
    let lying = millstream(&["cat", &format!("{BSON}/lying_string")]).ends(0).stdout;
    let lines: Vec<&str> = lying.lines().collect();
    assert!(lines[0].starts_with("!a value goes beyond the end of its document (byte "), "{lying}");
    assert_eq!(lines[1..], ["{\"_id\":\"507f1f77bcf86cd799439011\"}"]);
    for (content, says) in [
        (content[..content.len() - 1].to_vec(), "it ends within the document that begins at its byte "),
        ([&content[..], b"\0\0\0\0"].concat(), "where a document should begin, stands no length of one"),
    ] {
        let ended = millstream(&["cat", &write(folder.path(), "damaged", &content)]).ends(2);
        assert!(rows.starts_with(&ended.stdout) && ended.stdout.lines().count() >= 2, "{ended:?}");
        assert!(ended.stderr.contains(" is damaged: ") && ended.stderr.contains(says), "{ended:?}");
    }
}

#[cfg(not(feature = "columnar"))]
#[test]
fn a_build_without_the_feature_names_it() {
    for (file, kind) in [(PARQUET, "Parquet"), (ARROW, "Arrow"), (AVRO, "Avro")] {
        for args in
            [&["cat", file][..], &["load", file, "--into", "t", "--key", "id", "--db", "postgres://127.0.0.1:1/x"]]
        {
            let ended = millstream(args).ends(2);
            if args[0] == "cat" {
                let says = format!("is a {kind} file, and this build of millstream has no feature 'columnar'");
                assert!(ended.stderr.contains(&says), "{ended:?}");
                assert!(ended.stderr.contains("cargo build --release --features columnar"), "{ended:?}");
            }
        }
    }
}

#[cfg(not(feature = "objects"))]
#[test]
fn a_build_without_objects_names_their_feature_and_no_secret() {
    for (address, name) in [("s3://a/b.json", "s3://a/b.json"), ("https://u:hush@h/a?sig=hush", "https://h/a")] {
        let ended = millstream(&["cat", address]).ends(2);
        let says = format!("{name} is an object, and this build of millstream has no feature 'objects'");
        assert!(ended.stderr.contains(&says) && !ended.stderr.contains("hush"), "{ended:?}");
        assert!(ended.stderr.contains("cargo build --release --features objects"), "{ended:?}");
    }
}

#[cfg(feature = "columnar")]
mod columnar {
    use super::*;
    use crate::ranges::{build, value};
    use millstream_testkit::Place;

    const ROWS: &str = "\
{\"id\":1,\"name\":\"a\",\"price\":1.50,\"ratio\":0.1,\"at\":\"2024-01-02T03:04:05.123456Z\",\"day\":\"2024-02-29\",\
\"tags\":[\"x\",null],\"more\":{\"a\":1,\"b\":true},\"raw\":\"/wA=\"}
{\"id\":2,\"name\":null,\"price\":null,\"ratio\":null,\"at\":null,\"day\":null,\"tags\":[],\"more\":null,\"raw\":\"\"}
{\"id\":3,\"name\":\"é\\\"\",\"price\":-0.05,\"ratio\":null,\"at\":\"1969-12-31T00:00:00.000000Z\",\
\"day\":\"1970-01-01\",\"tags\":null,\"more\":{\"a\":null,\"b\":false},\"raw\":null}
";

    #[test]
    fn files_of_columns_and_records_are_printed_as_the_lines_they_stand_for() {
        for file in [PARQUET, ARROW, AVRO] {
            let ended = millstream(&["cat", file]).ends(0);
            assert_eq!(ended.stdout, ROWS, "{file}");
            assert_eq!(ended.stderr, "1 number that JSON does not have became null; --nan string keeps their words\n");
            // Standard input may be a file.
            let ended = run(command(&["cat", "-"]).stdin(std::fs::File::open(file).unwrap())).ends(0);
            assert_eq!(ended.stdout, ROWS, "{file}");
        }
        let strings = millstream(&["cat", PARQUET, "--nan", "string"]).ends(0);
        assert!(strings.stdout.contains("\"ratio\":\"NaN\"") && strings.stderr.is_empty(), "{strings:?}");
        assert!(millstream(&["cat", PARQUET, "--nan", "reject"]).ends(0).stdout.contains("\"ratio\":NaN,"));
    }

    #[test]
    fn a_store_of_ranges_is_built_of_parquet() {
        let place = Place::make();
        let (store, file) = (place.word("store"), Path::new(PARQUET).with_file_name("ranges"));
        build(&store, file.to_str().unwrap(), &[]).ends(0);
        assert_eq!((value(&store, "1.2.3.4"), value(&store, "10.9.8.7")), ("{\"n\":1}".into(), "{\"n\":2}".into()));
    }

    #[test]
    fn pipes_of_arrow_and_avro_are_read_and_one_of_parquet_is_refused() {
        let piped = |file: &str| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            // A pipe holds more than these files.
            std::io::Write::write_all(&mut writer, &std::fs::read(file).unwrap()).unwrap();
            drop(writer);
            run(command(&["cat", "-"]).stdin(reader))
        };
        let folder = tempfile::tempdir().unwrap();
        for file in [ARROW, AVRO] {
            assert_eq!(piped(file).ends(0).stdout, ROWS, "{file}");
            let packed = write(folder.path(), "packed", &gzip(&std::fs::read(file).unwrap()));
            assert_eq!(millstream(&["cat", &packed]).ends(0).stdout, ROWS, "{file}");
        }
        let ended = piped(PARQUET).ends(2);
        assert!(ended.stderr.contains("standard input is Parquet in a pipe, and it is read from its end"), "{ended:?}");
        assert!(ended.stderr.contains("hint: write it into a file"), "{ended:?}");
    }

    #[test]
    fn what_is_not_opened_is_refused_by_name_and_damage_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let brotli = Path::new(PARQUET).with_file_name("brotli");
        let ended = millstream(&["cat", brotli.to_str().unwrap()]).ends(2);
        assert!(ended.stderr.contains("is Parquet compressed with Brotli"), "{ended:?}");
        let bzip2 = Path::new(AVRO).with_file_name("bzip2");
        let ended = millstream(&["cat", bzip2.to_str().unwrap()]).ends(2);
        assert!(ended.stderr.contains("is Avro compressed with bzip2, which Millstream does not open"), "{ended:?}");
        assert!(ended.stderr.contains("hint: write it with zstandard, snappy, deflate"), "{ended:?}");
        let avro = std::fs::read(AVRO).unwrap();
        let ended = millstream(&["cat", &write(folder.path(), "cut.avro", &avro[..avro.len() - 1])]).ends(2);
        assert!(ended.stderr.contains("is damaged: it ends within its block 3 (at byte "), "{ended:?}");
        assert!(ROWS.starts_with(&ended.stdout) && ended.stdout.lines().count() == 2, "{ended:?}");
        let content = std::fs::read(PARQUET).unwrap();
        let mut encrypted = content.clone();
        let length = encrypted.len();
        encrypted[length - 4..].copy_from_slice(b"PARE");
        let ended = millstream(&["cat", &write(folder.path(), "secret.parquet", &encrypted)]).ends(2);
        assert!(ended.stderr.contains("is Parquet with encryption"), "{ended:?}");
        let ended = millstream(&["cat", &write(folder.path(), "cut.parquet", &content[..1000])]).ends(2);
        assert!(ended.stderr.contains("is damaged: it does not end as a Parquet file ends"), "{ended:?}");
        let ended = millstream(&["cat", &write(folder.path(), "rows.parquet.gz", &gzip(&content))]).ends(2);
        assert!(
            ended.stderr.contains("is Parquet in gzip data") && ended.stderr.contains("gzip -dc FILE"),
            "{ended:?}"
        );
    }
}
