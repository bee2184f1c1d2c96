//! Parquet files, whole and damaged.

use super::{batch_of, converted, random, sample, text_of, whole};
use crate::columns::PARQUET;
use crate::{Nan, Trouble};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use fastrand::Rng;
use millstream_testkit::Cases;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use std::sync::Arc;

fn written(batches: &[RecordBatch], properties: WriterPropertiesBuilder) -> Vec<u8> {
    let mut content = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut content, batches[0].schema(), Some(properties.build())).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    content
}

fn version(rng: &mut Rng) -> WriterVersion {
    if rng.bool() { WriterVersion::PARQUET_1_0 } else { WriterVersion::PARQUET_2_0 }
}

#[test]
fn a_file_is_the_text_of_its_rows_whatever_its_row_groups_and_pages() {
    let expected = text_of(&[sample(5_000)], Nan::Null).0;
    for mut rng in Cases::new(20) {
        let properties = WriterProperties::builder()
            .set_writer_version(version(&mut rng))
            .set_dictionary_enabled(rng.bool())
            .set_max_row_group_row_count(Some(rng.usize(100..6_000)))
            .set_data_page_row_count_limit(rng.usize(10..3_000))
            .set_data_page_size_limit(rng.usize(100..20_000));
        let content = written(&[sample(5_000)], properties);
        assert!(whole(PARQUET, &content) == expected);
    }
}

#[test]
fn random_columns_survive_a_file() {
    for mut rng in Cases::new(300) {
        let batches = random::batches(&mut rng);
        let properties = WriterProperties::builder()
            .set_writer_version(version(&mut rng))
            .set_max_row_group_row_count(Some(rng.usize(1..300)))
            .set_data_page_size_limit(rng.usize(10..2_000));
        let content = written(&batches, properties);
        assert_eq!(whole(PARQUET, &content), text_of(&batches, Nan::Null).0, "{:?}", batches[0].schema());
    }
}

#[cfg(feature = "writers")]
#[test]
fn codecs_are_opened_or_refused_by_name() {
    use parquet::basic::{Compression, GzipLevel, ZstdLevel};
    let expected = text_of(&[sample(3_000)], Nan::Null).0;
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder().set_compression(codec).set_writer_version(version);
            let content = written(&[sample(3_000)], properties);
            assert!(whole(PARQUET, &content) == expected, "{codec} {version:?}");
        }
    }
    let properties = WriterProperties::builder().set_compression(Compression::LZ4);
    let (_, ended) = converted(PARQUET, &written(&[sample(10)], properties));
    assert!(matches!(&ended, Err(Trouble::Refused { problem, .. }) if problem.contains("Hadoop")), "{ended:?}");
}

#[test]
fn the_same_long_value_in_every_row_is_not_copied_for_all() {
    let long = "x".repeat(1 << 20);
    let array: ArrayRef = Arc::new(StringArray::from_iter_values((0..1_000).map(|_| long.as_str())));
    let batch = batch_of(array);
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(16 << 20);
    let content = written(&[batch], properties);
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &content).unwrap();
    let extent = crate::FileExtent { file: Box::new(file), start: 0, len: content.len() as u64 };
    let mut converter = PARQUET.expect("the feature is on")(Some(extent), Nan::Null).unwrap();
    let (mut rows, mut text) = (0, Vec::new());
    while converter.more(&mut std::io::empty(), &mut text).unwrap() {
        assert!(text.len() < 3 << 20, "a piece of text is bounded");
        rows += text.iter().filter(|byte| **byte == b'\n').count();
        text.clear();
    }
    assert_eq!(rows, 1_000);
}

#[test]
fn a_file_without_its_end_is_damaged_and_says_so() {
    let content = written(&[sample(1_000)], WriterProperties::builder());
    for end in [4, 11, 12, content.len() / 2, content.len() - 1] {
        let (text, ended) = converted(PARQUET, &content[..end]);
        let says = |why: &String| why.contains("a part of it is missing");
        assert!(text.is_empty() && matches!(&ended, Err(Trouble::Damaged(why)) if says(why)), "{end}: {ended:?}");
    }
    let mut encrypted = content.clone();
    let length = encrypted.len();
    encrypted[length - 4..].copy_from_slice(b"PARE");
    let (_, ended) = converted(PARQUET, &encrypted);
    assert!(matches!(&ended, Err(Trouble::Refused { problem, .. }) if problem.contains("encryption")), "{ended:?}");
}

#[test]
fn damage_anywhere_is_no_panic_and_gives_whole_lines() {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(300));
    let content = written(&[sample(2_000)], properties);
    for mut rng in Cases::new(500) {
        let mut damaged = content.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..damaged.len());
            damaged[at] ^= 1 << rng.u8(..8);
        }
        // Without a checksum some damage is another value; what comes out is whole lines.
        let (text, _) = converted(PARQUET, &damaged);
        assert!(text.is_empty() || text.ends_with('\n'));
    }
}

#[test]
fn columns_of_the_same_name_are_refused() {
    let field = || arrow_schema::Field::new("a", arrow_schema::DataType::Int64, true);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let schema = Arc::new(arrow_schema::Schema::new(vec![field(), field()]));
    let batch = RecordBatch::try_new(schema, vec![Arc::clone(&column), column]).unwrap();
    let (_, ended) = converted(PARQUET, &written(&[batch], WriterProperties::builder()));
    assert!(matches!(&ended, Err(Trouble::Refused { problem, .. }) if problem.contains("\"a\"")), "{ended:?}");
}

#[test]
fn a_file_without_rows_has_no_text() {
    let batch = sample(0);
    assert_eq!(whole(PARQUET, &written(&[batch], WriterProperties::builder())), "");
}

#[test]
fn a_span_of_time_keeps_its_months_its_days_and_its_milliseconds() {
    use arrow_array::{IntervalDayTimeArray, IntervalYearMonthArray, ListArray, types::IntervalDayTime};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::{DataType, Field, IntervalUnit, Schema};
    let months: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![Some(14), None]));
    let days: ArrayRef =
        Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime { days: 3, milliseconds: 1_500 }; 2]));
    let item = Arc::new(Field::new("item", DataType::Interval(IntervalUnit::YearMonth), true));
    let list: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([2, 0]), Arc::clone(&months), None));
    let columns = [("months", months), ("days", days), ("list", list)];
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let expected = [
        r#"{"months":"P14M0DT0.000000S","days":"P0M3DT1.500000S","list":["P14M0DT0.000000S",null]}"#,
        r#"{"months":null,"days":"P0M3DT1.500000S","list":[]}"#,
    ];
    let text = whole(PARQUET, &written(&[batch], WriterProperties::builder()));
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn files_of_another_writer_are_read_in_each_of_its_codecs_and_encodings() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet");
    let content = |name: &str| std::fs::read(format!("{folder}/{name}")).unwrap();
    for name in ["rows", "plain", "snappy_v2", "gzip", "lz4", "delta", "with_schema"] {
        assert_eq!(whole(PARQUET, &content(name)).lines().count(), 3, "{name}");
    }
    for name in ["plain", "delta"] {
        let expected = "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":null}\n{\"id\":3,\"name\":\"é\\\"\"}\n";
        assert_eq!(whole(PARQUET, &content(name)), expected, "{name}");
    }
    let (_, ended) = converted(PARQUET, &content("brotli"));
    assert!(matches!(&ended, Err(Trouble::Refused { problem, .. }) if problem.contains("Brotli")), "{ended:?}");
}
