//! Arrow's files and streams, whole and damaged.

use super::{converted, piped, random, sample, text_of, whole};
use crate::columns::{ARROW_FILE, ARROW_STREAM};
use crate::limits::ARROW_BATCH_BYTES_MAX;
use crate::{Nan, Trouble};
use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use millstream_testkit::Cases;

fn stream(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn file(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

#[test]
fn files_and_streams_are_the_text_of_their_rows() {
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let batches = [sample(1_000), sample(10), sample(3_000)];
        let expected = text_of(&batches, Nan::Null).0;
        assert!(whole(ARROW_STREAM, &stream(&batches, compression)) == expected, "{compression:?}");
        let file = file(&batches, compression);
        assert!(whole(ARROW_FILE, &file) == expected, "{compression:?}");
        let (text, ended) = piped(ARROW_FILE, &file);
        assert!(text == expected && ended.is_ok(), "{compression:?}: {ended:?}");
    }
}

#[test]
fn random_columns_survive_files_and_streams() {
    for mut rng in Cases::new(300) {
        let batches = random::batches(&mut rng);
        let expected = text_of(&batches, Nan::Null).0;
        let compression = rng.bool().then_some(CompressionType::ZSTD);
        assert_eq!(whole(ARROW_STREAM, &stream(&batches, compression)), expected, "{:?}", batches[0].schema());
        // In a file a dictionary may not be replaced.
        let one = text_of(&batches[..1], Nan::Null).0;
        assert_eq!(whole(ARROW_FILE, &file(&batches[..1], compression)), one, "{:?}", batches[0].schema());
    }
}

#[test]
fn a_stream_may_end_without_a_word_and_a_file_may_not() {
    let batches = [sample(100), sample(100)];
    let expected = text_of(&batches, Nan::Null).0;
    let content = stream(&batches, None);
    // The word is eight bytes.
    assert!(whole(ARROW_STREAM, &content[..content.len() - 8]) == expected);
    for end in [4, content.len() - 4, content.len() - 9, content.len() / 2] {
        let (text, ended) = converted(ARROW_STREAM, &content[..end]);
        assert!(expected.starts_with(&text) && matches!(ended, Err(Trouble::Damaged(_))), "{end}: {ended:?}");
    }
    let (_, ended) = converted(ARROW_STREAM, &[&content[..], b"more"].concat());
    assert!(matches!(&ended, Err(Trouble::Damaged(why)) if why.contains("something else")), "{ended:?}");
    let content = file(&batches, None);
    for end in [8, content.len() - 1, content.len() / 2] {
        let (_, ended) = converted(ARROW_FILE, &content[..end]);
        assert!(matches!(ended, Err(Trouble::Damaged(_))), "{end}: {ended:?}");
    }
}

/// A file whose columns are described in front without their length, as Polars writes them.
fn without_length(mut file: Vec<u8>) -> Vec<u8> {
    let at = file.windows(4).position(|word| word == [0xff; 4]).unwrap() + 4;
    let length = usize::try_from(u32::from_le_bytes(file[at..at + 4].try_into().unwrap())).unwrap();
    let (begin, end) = (at + 4, at + 4 + length);
    file.copy_within(begin..end, 8);
    file[8 + length..end].fill(0);
    file
}

#[test]
fn a_file_is_read_by_its_footer_and_needs_no_description_in_front() {
    let batches = [sample(100), sample(10)];
    let content = without_length(file(&batches, None));
    assert!(whole(ARROW_FILE, &content) == text_of(&batches, Nan::Null).0);
    let (text, ended) = piped(ARROW_FILE, &content);
    let says = |problem: &str, hint: &str| problem.contains("only at its end") && hint.contains("name the file");
    assert!(matches!(&ended, Err(Trouble::Refused { problem, hint }) if says(problem, hint)), "{ended:?}");
    assert!(text.is_empty());
    let (text, ended) = converted(ARROW_FILE, &content[..content.len() - 1]);
    let says = |why: &str| why.contains("a part of it is missing at the end");
    assert!(matches!(&ended, Err(Trouble::Damaged(why)) if says(why)), "{ended:?}");
    assert!(text.is_empty());
}

#[test]
fn files_of_polars_are_read_with_their_dictionaries() {
    let rows = [
        r#"{"id":1,"s":"a","c":"x","f":1.5}"#,
        r#"{"id":2,"s":"b","c":"y","f":null}"#,
        r#"{"id":3,"s":null,"c":"x","f":2.0}"#,
    ];
    for name in ["polars", "polars_lz4"] {
        let path = format!("{}/../../fuzz/corpus/arrow/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = whole(ARROW_FILE, &std::fs::read(path).unwrap());
        assert_eq!(text.lines().collect::<Vec<_>>(), rows, "{name}");
    }
}

#[test]
fn a_footer_that_names_what_is_not_there_is_damage_before_memory_is_taken() {
    let content = file(&[sample(100)], None);
    let length_at = content.len() - 10;
    for (length, says) in
        [(u32::MAX, "no plausible length"), (1 << 20, "longer than the file"), (0, "cut off or broken")]
    {
        let mut damaged = content.clone();
        damaged[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        let (text, ended) = converted(ARROW_FILE, &damaged);
        assert!(matches!(&ended, Err(Trouble::Damaged(why)) if why.contains(says)), "{length}: {ended:?}");
        assert!(text.is_empty());
    }
}

#[test]
fn damage_anywhere_in_a_file_never_panics() {
    let content = file(&[sample(200), sample(200)], Some(CompressionType::ZSTD));
    for mut rng in Cases::new(500) {
        let mut damaged = content.clone();
        for _ in 0..rng.usize(1..4) {
            // Half of it in the footer.
            let from = if rng.bool() { 0 } else { damaged.len().saturating_sub(1_000) };
            let at = rng.usize(from..damaged.len());
            damaged[at] ^= 1 << rng.u8(..8);
        }
        let (text, _) = converted(ARROW_FILE, &damaged);
        assert!(text.is_empty() || text.ends_with('\n'));
    }
}

#[test]
fn damage_anywhere_never_panics() {
    let content = stream(&[sample(200), sample(200)], Some(CompressionType::ZSTD));
    for mut rng in Cases::new(500) {
        let mut damaged = content.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..damaged.len());
            damaged[at] ^= 1 << rng.u8(..8);
        }
        let (text, _) = converted(ARROW_STREAM, &damaged);
        assert!(text.is_empty() || text.ends_with('\n'));
    }
}

#[test]
fn a_message_of_no_plausible_size_is_refused_before_memory_is_taken() {
    let (_, ended) = converted(ARROW_STREAM, b"\xff\xff\xff\xff\xff\xff\xff\x7f rest");
    assert!(matches!(&ended, Err(Trouble::Damaged(why)) if why.contains("plausible")), "{ended:?}");
    // The length before a compressed buffer says what it becomes.
    let mut content = stream(&[sample(2_000)], Some(CompressionType::ZSTD));
    let length = (2_000_u64 * 8).to_le_bytes();
    let at = content.windows(8).position(|bytes| bytes == length).unwrap();
    content[at..at + 8].copy_from_slice(&(ARROW_BATCH_BYTES_MAX as u64 * 4).to_le_bytes());
    let (_, ended) = converted(ARROW_STREAM, &content);
    assert!(ended.is_err(), "{ended:?}");
}
