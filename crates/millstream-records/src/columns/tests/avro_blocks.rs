//! Avro's files and their blocks, whole and damaged.

use super::avro_file::{CODECS, packed, schema_of};
use super::{converted, piped, whole};
use crate::columns::AVRO;
use crate::limits::{AVRO_BLOCK_BYTES_MAX, AVRO_EMPTY_ITEMS_MAX, AVRO_HEADER_BYTES_MAX, TEXT_BYTES};
use crate::{Nan, Trouble};
use millstream_testkit::avro::{block, header, number, sized};
use millstream_testkit::{Cases, Pieces};

/// Files that other programs wrote, and broken ones.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/avro");

fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(format!("{CORPUS}/{name}")).unwrap()
}

/// What the files of numbers begin with.
fn beginning(codec: &str) -> Vec<u8> {
    header(&schema_of("\"long\""), codec)
}

/// A file of consecutive numbers, in blocks of these sizes.
fn file(codec: &str, sizes: &[i64]) -> Vec<u8> {
    let (mut content, mut next) = (beginning(codec), 0);
    for size in sizes {
        let numbers: Vec<u8> = (next..next + size).flat_map(number).collect();
        content.extend(block(*size, &packed(codec, &numbers)));
        next += size;
    }
    content
}

/// The text of a file of so many numbers.
fn lines(count: i64) -> String {
    (0..count).map(|n| format!("{{\"v\":{n}}}\n")).collect()
}

/// What is wrong with a file, of which this text comes out.
fn damage(content: &[u8], text: &str) -> String {
    match converted(AVRO, content) {
        (found, Err(Trouble::Damaged(why))) if found == text => why,
        other => panic!("{other:?}"),
    }
}

/// The text of a file that is read in pieces, and how it ends.
fn in_pieces(content: &[u8], largest: usize, rng: &mut fastrand::Rng) -> (Vec<u8>, Result<(), Trouble>) {
    let mut converter = AVRO.expect("the feature is on")(None, Nan::Null).unwrap();
    let (mut from, mut text) = (Pieces::new(content, largest, rng), Vec::new());
    let ended = loop {
        let mut more = Vec::new();
        let goes_on = converter.more(&mut from, &mut more);
        text.extend(more);
        match goes_on {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(trouble) => break Err(trouble),
        }
    };
    (text, ended)
}

#[test]
fn files_of_every_codec_and_size_of_block_are_the_text_of_their_records() {
    for codec in CODECS {
        for sizes in [&[3_000_i64][..], &[1; 100], &[7, 0, 500, 1, 0], &[0], &[]] {
            let content = file(codec, sizes);
            let expected = lines(sizes.iter().sum());
            assert!(whole(AVRO, &content) == expected, "{codec} {sizes:?}");
            let (text, ended) = piped(AVRO, &content);
            assert!(text == expected && ended.is_ok(), "{codec} {sizes:?}: {ended:?}");
        }
    }
    let named = [header(&schema_of("\"long\""), "null"), block(1, b"\x02")].concat();
    assert_eq!(whole(AVRO, &named), "{\"v\":1}\n");
}

#[test]
fn files_of_other_programs_are_read() {
    let rows = whole(AVRO, &corpus("rows"));
    assert_eq!(rows.lines().count(), 3);
    for codec in ["deflate", "snappy", "zstandard"] {
        assert_eq!(whole(AVRO, &corpus(codec)), rows, "{codec}");
    }
    let polars = "\
{\"id\":1,\"s\":\"a\",\"f\":1.5,\"d\":\"2024-02-29\",\"t\":\"2024-01-02T03:04:05.123456\",\"b\":true,\"l\":[1,null],\"raw\":\"/wA=\"}
{\"id\":2,\"s\":\"b\",\"f\":null,\"d\":null,\"t\":null,\"b\":false,\"l\":[],\"raw\":\"\"}
{\"id\":3,\"s\":null,\"f\":2.0,\"d\":\"1970-01-01\",\"t\":\"1969-12-31T00:00:00.000000\",\"b\":null,\"l\":null,\"raw\":null}
";
    for name in ["polars", "polars_snappy", "polars_deflate"] {
        assert_eq!(whole(AVRO, &corpus(name)), polars, "{name}");
    }
    let numbers: String = (0..200).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    assert_eq!(whole(AVRO, &corpus("zstd_without_size")), numbers);
    assert_eq!(whole(AVRO, &corpus("sized_blocks")), "{\"a\":[1,2,3],\"m\":{\"k\":7}}\n");
    let tree =
        "{\"n\":1,\"children\":[{\"n\":2,\"children\":[]},{\"n\":3,\"children\":[{\"n\":4,\"children\":[]}]}]}\n";
    assert_eq!(whole(AVRO, &corpus("tree")), tree);
}

#[test]
fn deflate_may_be_followed_by_a_part_of_its_checksum_and_no_other_codec_by_anything() {
    for codec in CODECS {
        let packed = [&packed(codec, &number(1))[..], b"abc"].concat();
        let (text, ended) = converted(AVRO, &[beginning(codec), block(1, &packed)].concat());
        assert_eq!(
            (text == "{\"v\":1}\n", ended.is_ok()),
            (codec.is_empty() || codec == "deflate", codec == "deflate")
        );
    }
}

#[test]
fn other_codecs_are_refused_by_name() {
    for (codec, name) in [("bzip2", "bzip2"), ("xz", "xz"), ("lz4\n", "lz4\\n"), (&"x".repeat(100), &"x".repeat(40))] {
        let (text, ended) = converted(AVRO, &file(codec, &[1]));
        let Err(Trouble::Refused { problem, hint }) = ended else { panic!("{ended:?}") };
        assert_eq!(problem, format!("is Avro compressed with {name}, which Millstream does not open"));
        assert!(hint.contains("zstandard, snappy, deflate") && text.is_empty(), "{hint}");
    }
}

#[test]
fn a_block_that_lies_is_damage_and_what_stands_before_it_comes_out() {
    let (good, at) = (file("", &[2]), file("", &[2]).len());
    let mut marked = block(1, &number(7));
    *marked.last_mut().unwrap() ^= 1;
    let place = format!("its block 2 (at byte {at})");
    for (rest, says) in [
        (marked, format!("{place} does not end with the mark that the header names")),
        (block(-1, b""), format!("{place} has a negative number of records")),
        ([number(1), number(-1)].concat(), format!("{place} has a negative length")),
        (vec![0xff; 20], format!("{place} has a number of more than 64 bits")),
        (b"\x02".to_vec(), format!("it ends within {place}")),
        (b"\x02\x80".to_vec(), format!("it ends within {place}")),
        ([number(1), number(1 << 29)].concat(), format!("it ends within {place}")),
        (block(1, &number(7))[..10].to_vec(), format!("it ends within {place}")),
        (b"Obj\x01".to_vec(), format!("{place} has a negative number of records")),
    ] {
        assert_eq!(damage(&[&good[..], &rest].concat(), &lines(2)), says);
    }
    let before = lines(2) + "{\"v\":7}\n";
    let behind = damage(&[&good[..], &block(1, &[number(7), number(8)].concat())].concat(), &before);
    assert_eq!(behind, format!("{place} has bytes behind its last record"));
    let missing = damage(&[&good[..], &block(2, &number(7))].concat(), &before);
    let says = "has a record, number 4, that cannot be read: a value goes beyond the end of its block";
    assert_eq!(missing, format!("{place} {says}"));
}

#[test]
fn a_damaged_block_does_not_decompress_to_something_else() {
    for (codec, says) in [
        ("deflate", "cannot be decompressed: "),
        ("snappy", "cannot be decompressed: "),
        ("zstandard", "cannot be decompressed: "),
    ] {
        let packed = packed(codec, &(0..500).flat_map(number).collect::<Vec<_>>());
        for length in [0, 1, packed.len() / 2, packed.len() - 1] {
            let why = damage(&[beginning(codec), block(500, &packed[..length])].concat(), "");
            assert!(why.contains(says), "{codec} {length}: {why}");
        }
    }
    let why = damage(&corpus("snappy_checksum"), "");
    assert!(why.ends_with("cannot be decompressed: its checksum is another one"), "{why}");
    let why = damage(&corpus("deflate_cut"), "");
    assert!(why.ends_with("cannot be decompressed: it ends too early"), "{why}");
    // Snappy data begins with the length that it opens to.
    let huge = [&[0xff_u8, 0xff, 0xff, 0xff, 0x03, 0][..], &[0; 4]].concat();
    let why = damage(&[beginning("snappy"), block(1, &huge)].concat(), "");
    assert!(why.ends_with("cannot be decompressed: its length is another one"), "{why}");
}

#[test]
fn a_header_that_lies_is_damage() {
    let begins = |rest: &[u8]| [&b"Obj\x01"[..], rest].concat();
    let mark = b"sixteen bytes...";
    for (content, says) in [
        (begins(b""), "it ends within its header"),
        (begins(b"\x02"), "it ends within its header"),
        (begins(&[&number(1)[..], &sized(b"avro.schema"), &number(100), b"{"].concat()), "it ends within its header"),
        (begins(&[0xff; 20]), "its header has a number of more than 64 bits"),
        (begins(&[number(1), number(-1)].concat()), "its header has a negative length"),
        (begins(&[number(-1), number(-1)].concat()), "its header has a negative length"),
        (begins(&[&number(0)[..], mark].concat()), "its header has no schema"),
    ] {
        assert_eq!(damage(&content, ""), says);
    }
    let content = file("", &[1]);
    for end in 4..beginning("").len() {
        let (text, ended) = converted(AVRO, &content[..end]);
        assert!(text.is_empty(), "{end}");
        assert!(matches!(&ended, Err(Trouble::Damaged(why)) if why == "it ends within its header"), "{end}: {ended:?}");
    }
}

#[test]
fn sizes_beyond_the_limits_are_refused_before_memory_is_taken() {
    let long = |bytes: usize| number(i64::try_from(bytes).unwrap());
    for (content, problem) in [
        ([file("", &[1]), number(1), long(AVRO_BLOCK_BYTES_MAX + 1)].concat(), "is Avro whose block 2 (at byte "),
        ([&b"Obj\x01"[..], &number(1), &long(AVRO_HEADER_BYTES_MAX)].concat(), "is Avro whose header has more than "),
        // Entries without an end.
        (
            [&b"Obj\x01"[..], &number(i64::MAX), &vec![0; 2 * AVRO_HEADER_BYTES_MAX]].concat(),
            "is Avro whose header has more than ",
        ),
    ] {
        let (_, ended) = converted(AVRO, &content);
        let is_named = |found: &str, hint: &str| found.starts_with(problem) && hint.starts_with("write it ");
        assert!(matches!(&ended, Err(Trouble::Refused { problem, hint }) if is_named(problem, hint)), "{ended:?}");
    }
    // Records without bytes.
    let empty = |records: u64| {
        let schema = r#"{"type":"record","name":"R","fields":[]}"#;
        [header(schema, ""), block(i64::try_from(records).unwrap(), b"")].concat()
    };
    assert_eq!(whole(AVRO, &empty(AVRO_EMPTY_ITEMS_MAX)).len(), 3 * 65_536);
    let why = damage(&empty(AVRO_EMPTY_ITEMS_MAX + 1), "");
    assert!(why.ends_with(" names 65537 records, and has 0 bytes"), "{why}");
}

#[test]
fn text_comes_in_pieces_and_a_record_may_be_longer() {
    let schema = schema_of("\"bytes\"");
    let long = vec![7_u8; 2 * TEXT_BYTES];
    let records: Vec<u8> = (0..5_000).flat_map(|n| sized(if n == 3_000 { &long } else { b"short" })).collect();
    let content = [header(&schema, ""), block(5_000, &records)].concat();
    let mut converter = AVRO.expect("the feature is on")(None, Nan::Null).unwrap();
    let (mut from, mut lines, mut pieces) = (&content[..], 0, 0);
    loop {
        let mut text = Vec::new();
        if !converter.more(&mut from, &mut text).unwrap() {
            break;
        }
        assert!(text.len() <= 4 * TEXT_BYTES && (text.is_empty() || text.ends_with(b"}\n")));
        lines += text.iter().filter(|byte| **byte == b'\n').count();
        pieces += usize::from(!text.is_empty());
    }
    assert_eq!(lines, 5_000);
    assert!(pieces > 1);
}

#[test]
fn a_file_that_is_cut_anywhere_gives_the_blocks_before() {
    for codec in CODECS {
        let content = file(codec, &[3, 2, 4]);
        let borders = [0, 3, 5, 9].map(|records| match records {
            0 => (beginning(codec).len(), 0),
            3 => (file(codec, &[3]).len(), 3),
            5 => (file(codec, &[3, 2]).len(), 5),
            _ => (content.len(), 9),
        });
        for end in beginning(codec).len()..=content.len() {
            let (border, records) = *borders.iter().rfind(|(border, _)| *border <= end).unwrap();
            let (text, ended) = converted(AVRO, &content[..end]);
            assert_eq!(text, lines(records), "{codec} {end}");
            // Nothing shows that blocks are missing which would follow.
            assert_eq!(ended.is_ok(), border == end, "{codec} {end}: {ended:?}");
        }
    }
}

#[test]
fn bytes_that_are_changed_or_cut_anywhere_leave_whole_lines() {
    let names = ["every_type", "rows", "deflate", "snappy", "zstandard", "tree", "sized_blocks"];
    let contents = names.map(corpus);
    for mut rng in Cases::new(2_000) {
        let mut content = rng.choice(&contents).unwrap().clone();
        for _ in 0..rng.usize(0..4) {
            let (at, any) = (rng.usize(0..content.len()), rng.u8(..));
            content[at] = *rng.choice(&[0, 1, 2, 3, 0x7f, 0x80, 0xff, any]).unwrap();
        }
        if rng.bool() {
            content.truncate(rng.usize(4..=content.len()));
        }
        let largest = rng.usize(1..100);
        let (text, ended) = in_pieces(&content, largest, &mut rng);
        let (other, other_ended) = in_pieces(&content, content.len(), &mut rng);
        assert!(text == other, "the sizes of reads change the text");
        assert_eq!(format!("{ended:?}"), format!("{other_ended:?}"));
        assert!(!matches!(ended, Err(Trouble::Io(_))), "{ended:?}");
        assert!(text.is_empty() || text.ends_with(b"\n"), "half a line");
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // What is not UTF-8 stays so within strings.
            let shown = String::from_utf8_lossy(line);
            let is_object = serde_json::from_str::<serde_json::Value>(&shown).is_ok_and(|value| value.is_object());
            assert!(is_object || line.len() > 1_000, "{shown}");
        }
    }
}
