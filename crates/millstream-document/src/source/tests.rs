//! Tests over the list of formats, and of what all of them share.

mod commented;

use super::transcript::{COMPRESS, Chosen, ReadFrame, bad, drain, good, read, read_oddly, recognise};
use super::*;
use fastrand::Rng;
use millstream_model::Reason;
use millstream_testkit::{Cases, gzip};
use std::collections::BTreeSet;
use std::io::Write;

/// The formats of the list, each with a text of one document.
fn listed() -> Vec<(&'static Format, &'static str)> {
    let texts = ["{\"a\":\"1\"}\n", "[{\"a\":\"1\"}]", "a,b\n1,2\n", "a\tb\n1\t2\n", "{\"document\":\"{}\"}\n"];
    let formats: Vec<_> = SOURCES.iter().filter(|format| format.made.is_none()).collect();
    assert_eq!(texts.len(), formats.len(), "a new format needs a text here");
    formats.into_iter().zip(texts).collect()
}

/// What holds for every format of a list.
fn check(formats: &[(&'static Format, &str)]) {
    let names: BTreeSet<_> = formats.iter().map(|(format, _)| format.name).chain([AUTO]).collect();
    assert_eq!(names.len(), formats.len() + 1, "names are unique");
    for (format, text) in formats {
        assert!(format.about.len() > 20 && !format.about.ends_with('.'), "{}", format.name);
        let got = read(*format, text.as_bytes()).unwrap();
        assert!(got.len() == 1 && got[0].unreadable.is_none(), "{}: {got:?}", format.name);
    }
}

#[test]
fn every_format_of_the_list_is_whole() {
    check(&listed());
    assert_eq!(recognise(b"{}").unwrap(), "ndjson");
    let names: Vec<&str> = SOURCES.iter().map(|format| format.name).collect();
    let error = read("xml", b"").unwrap_err();
    assert_eq!(error.to_string(), format!("there is no format 'xml'; known are auto|{}", names.join("|")));
}

#[test]
fn a_format_is_one_file_and_two_lines() {
    let text = "# of today\n{\"a\":\"1\"}\n#{}";
    let all: Vec<_> = listed().into_iter().chain([(&commented::FORMAT, text)]).collect();
    check(&all);
    assert_eq!(read(&commented::FORMAT, text.as_bytes()).unwrap(), [good(11, 2, "{\"a\":\"1\"}")]);
    assert_eq!(read(&commented::FORMAT, b"").unwrap(), []);
    let content = gzip(text.as_bytes());
    let whole = content.len() - 1;
    for mut rng in Cases::new(20) {
        let got = read_oddly(&commented::FORMAT, &content[..whole], text.as_bytes(), 100, &mut rng).unwrap();
        assert_eq!(got.last(), Some(&bad(21, 3, "#{}", Reason::DamagedSource)), "a truncated input");
    }
    for_hostile_bytes(|content, plain, rng| alike(&commented::FORMAT, content, plain, rng));
}

/// Reads twice, in pieces and chunks of other sizes.
fn alike(format: impl Chosen, content: &[u8], plain: &[u8], rng: &mut Rng) {
    let [one, other] = [(); 2].map(|()| read_oddly(format, content, plain, 100, rng).map_err(|e| e.to_string()));
    assert_eq!(one, other, "{plain:?}");
}

/// Calls it with texts of all formats that were damaged at random, and with what is left of them when they are
/// decompressed.
fn for_hostile_bytes(mut check: impl FnMut(&[u8], &[u8], &mut Rng)) {
    let texts = [
        "{\"a\":\"1\"}\n\n{\"b\":[2,\"\\\"\"]}\r\n{}",
        " [{\"a\":\"1\"},\n[1], \"x\" ,{}]\n",
        "{\n\"a\":1\n} {}",
        "a,\"b\"\n1,2\n\"3\n\"\"\",4\n\n5,6",
        "{\"load_id\":1,\"document\":\"{}\",\"truncated\":false}\n{\"document_base64\":\"e30=\"}\n",
    ];
    for mut rng in Cases::new(1500) {
        let mut content = rng.choice(texts).unwrap().as_bytes().to_vec();
        let (bytewise, compressed) = (rng.bool(), rng.bool());
        let mutate = |content: &mut Vec<u8>, rng: &mut Rng| {
            for _ in 0..rng.usize(0..4) {
                let at = rng.usize(0..=content.len());
                let end = rng.usize(at..=content.len().min(at + 3));
                let byte = if bytewise { rng.u8(..) } else { *rng.choice(b"{}[]\",\n\\ 1").unwrap() };
                content.splice(at..end, (0..rng.usize(0..3)).map(|_| byte));
            }
        };
        mutate(&mut content, &mut rng);
        if compressed {
            content = rng.choice(COMPRESS).unwrap()(&content);
            mutate(&mut content, &mut rng);
        }
        // A mutation may ask for a window that we refuse; there is then nothing to compare.
        let Ok((plain, _)) = drain(&content, 1000, 1000) else { continue };
        check(&content, &plain, &mut rng);
    }
}

#[test]
fn every_format_reads_hostile_bytes_the_same_for_any_chunking() {
    for_hostile_bytes(|content, plain, rng| {
        for format in SOURCES.iter().map(|f| f.name).chain([AUTO]) {
            alike(format, content, plain, rng);
        }
    });
}

#[test]
fn text_is_no_file_of_a_format_that_is_converted() {
    for format in SOURCES.iter().filter(|format| format.made.is_some()) {
        assert!(format.about.len() > 20 && !format.about.ends_with('.'), "{}", format.name);
        let error = read(format.name, b"{}\n").unwrap_err();
        assert!(error.to_string().starts_with("test is no "), "{error}");
        assert!(error.hint().contains("leave --format out"), "{}", error.hint());
    }
}

#[test]
fn dumps_have_a_key_of_their_own_by_their_format_or_their_names() {
    let key = |format: &str, sources: &[&str]| {
        own_key(format, &sources.iter().map(|source| (*source).to_owned()).collect::<Vec<_>>())
    };
    for (format, sources) in [
        ("bson", &["-"][..]),
        ("bson", &["a.json"]),
        ("auto", &["d/a.bson"]),
        ("auto", &["a.bson.gz", "b.bson", "c.bson.zst"]),
    ] {
        assert_eq!(key(format, sources), Some("_id"), "{format} {sources:?}");
    }
    for (format, sources) in [
        ("auto", &["-"][..]),
        ("auto", &[]),
        ("auto", &["a.bson", "b.json"]),
        ("auto", &["bson", "a.bson.xz", "abson", "a.metadata.json"]),
        ("ndjson", &["a.bson"]),
        ("parquet", &["a.parquet"]),
    ] {
        assert_eq!(key(format, sources), None, "{format} {sources:?}");
    }
}

/// Lines that do not compress to nothing.
fn lines(count: usize) -> Vec<u8> {
    let mut rng = Rng::new();
    (0..count).flat_map(|n| format!("{{\"n\":{n},\"r\":{}}}\n", rng.u64(..)).into_bytes()).collect()
}

#[test]
fn a_partial_line_before_damage_is_a_reject() {
    let plain = lines(2000);
    for compress in COMPRESS {
        let content = compress(&plain);
        for cut in [10, content.len() / 2, content.len() - 1] {
            let (decoded, _) = drain(&content[..cut], 1000, 1000).unwrap();
            let expected: Vec<ReadFrame> = {
                let whole = decoded.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
                let mut got = read("ndjson", &decoded[..whole]).unwrap();
                let rest = std::str::from_utf8(&decoded[whole..]).unwrap();
                got.push(bad(whole as u64, got.len() as u64 + 1, rest, Reason::DamagedSource));
                got
            };
            for mut rng in Cases::new(5) {
                let got = read_oddly("ndjson", &content[..cut], &decoded, 1 << 20, &mut rng);
                assert!(got.unwrap() == expected);
            }
        }
    }
}

#[test]
fn files_report_their_progress() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let content = gzip(b"{}\n{}");
    file.write_all(&content).unwrap();
    let location = Location::File(file.path().to_owned());
    let mut opened = open(&location, 3, "ndjson", &SourceOptions::default()).unwrap();
    let chunk = opened.source.next_chunk().unwrap().unwrap();
    assert_eq!((chunk.source, chunk.end, chunk.frames.len()), (3, 3, 1));
    assert_eq!(opened.source.next_chunk().unwrap().unwrap().end, 5);
    assert!(opened.source.next_chunk().unwrap().is_none());
    assert_eq!(opened.progress.bytes_read(), content.len() as u64);
    assert_eq!(opened.progress.bytes_total(), Some(content.len() as u64));
}

#[test]
fn documents_of_a_live_source_are_passed_on_at_once() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"{}\n{\"a\"").unwrap();
    let input = Input::from_reader(Box::new(reader), "pipe", None).unwrap();
    let mut opened = open_input(input, 0, "auto", &SourceOptions::default()).unwrap();
    assert_eq!(opened.source.next_chunk().unwrap().unwrap().end, 3);
    writer.write_all(b":1}\n").unwrap();
    assert_eq!(opened.source.next_chunk().unwrap().unwrap().end, 11);
    drop(writer);
    assert!(opened.source.next_chunk().unwrap().is_none());
}
