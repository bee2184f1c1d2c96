//! Arrow's files and streams, whole and damaged.

use super::{converted, random, sample, text_of, whole};
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
        assert!(whole(ARROW_FILE, &file(&batches, compression)) == expected, "{compression:?}");
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
