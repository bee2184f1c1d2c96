//! Values of every type, written.

use super::{batch_of, text_of, values};
use crate::limits::TEXT_BYTES;
use crate::{Nan, Trouble};
use arrow_array::types::{Int8Type, Int32Type, IntervalDayTime, IntervalMonthDayNano};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal32Array,
    Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray, DurationMillisecondArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array,
    IntervalDayTimeArray, IntervalMonthDayNanoArray, IntervalYearMonthArray, LargeListArray, LargeListViewArray,
    LargeStringArray, ListArray, MapArray, RecordBatch, RunArray, StringArray, StringViewArray, StructArray,
    Time32SecondArray, Time64NanosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt64Array, UnionArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, Fields, Schema, UnionFields};
use std::sync::Arc;

#[test]
fn numbers_keep_all_digits() {
    assert_eq!(values(Arc::new(Int8Array::from(vec![Some(-128), None]))), ["-128", "null"]);
    assert_eq!(values(Arc::new(Int64Array::from(vec![i64::MIN]))), ["-9223372036854775808"]);
    assert_eq!(values(Arc::new(UInt64Array::from(vec![u64::MAX]))), ["18446744073709551615"]);
    assert_eq!(values(Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))), ["true", "false", "null"]);
    assert_eq!(values(Arc::new(Float32Array::from(vec![0.1, 16_777_216.0, -0.0]))), ["0.1", "16777216.0", "-0.0"]);
    assert_eq!(values(Arc::new(Float64Array::from(vec![0.1, 1e300, 5e-324]))), ["0.1", "1e+300", "5e-324"]);
    let half = Float16Array::from_iter_values(
        [1.5_f32, 0.25]
            .map(<arrow_array::types::Float16Type as arrow_array::types::ArrowPrimitiveType>::Native::from_f32),
    );
    assert_eq!(values(Arc::new(half)), ["1.5", "0.25"]);
    let small = Decimal32Array::from(vec![12_345]).with_precision_and_scale(7, 2).unwrap();
    let medium = Decimal64Array::from(vec![-5]).with_precision_and_scale(15, 3).unwrap();
    let large = Decimal128Array::from(vec![Some(i128::MAX), None]).with_precision_and_scale(38, 10).unwrap();
    let huge = Decimal256Array::from(vec![i256::MIN]).with_precision_and_scale(76, 0).unwrap();
    assert_eq!(values(Arc::new(small)), ["123.45"]);
    assert_eq!(values(Arc::new(medium)), ["-0.005"]);
    assert_eq!(values(Arc::new(large)), ["17014118346046923173168730371.5884105727", "null"]);
    assert_eq!(
        values(Arc::new(huge)),
        ["-57896044618658097711785492504343953926634992332820282019728792003956564819968"]
    );
}

#[test]
fn what_is_not_finite_is_null_or_a_reject_or_a_string() {
    let array: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0]));
    for (nan, expected, counted) in [
        (Nan::Null, ["null", "null", "null", "1.0"], 3),
        (Nan::Reject, ["NaN", "Infinity", "-Infinity", "1.0"], 0),
        (Nan::Text, ["\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "1.0"], 0),
    ] {
        let (text, not_finite) = text_of(&[batch_of(Arc::clone(&array))], nan);
        assert_eq!(text, expected.map(|value| format!("{{\"v\":{value}}}\n")).concat(), "{nan:?}");
        assert_eq!(not_finite, counted, "{nan:?}");
    }
}

#[test]
fn text_and_bytes_are_strings() {
    let expected = ["\"a\\\"\\n\\u0001é\"", "\"\""];
    assert_eq!(values(Arc::new(StringArray::from(vec!["a\"\n\u{1}é", ""]))), expected);
    assert_eq!(values(Arc::new(LargeStringArray::from(vec!["a\"\n\u{1}é", ""]))), expected);
    assert_eq!(values(Arc::new(StringViewArray::from(vec!["a\"\n\u{1}é", ""]))), expected);
    assert_eq!(values(Arc::new(BinaryArray::from(vec![&b"\xff\0a"[..]]))), ["\"/wBh\""]);
    assert_eq!(values(Arc::new(BinaryViewArray::from(vec![&b"\xff\0a"[..]]))), ["\"/wBh\""]);
    let fixed = FixedSizeBinaryArray::try_from_iter([b"ab"].into_iter()).unwrap();
    assert_eq!(values(Arc::new(fixed)), ["\"YWI=\""]);
}

#[test]
fn times_are_those_of_rfc_3339() {
    let second = TimestampSecondArray::from(vec![1]);
    assert_eq!(values(Arc::new(second)), ["\"1970-01-01T00:00:01.000000\""]);
    let zoned = TimestampMillisecondArray::from(vec![1]).with_timezone("Europe/Berlin");
    assert_eq!(values(Arc::new(zoned)), ["\"1970-01-01T00:00:00.001000Z\""]);
    let nano = TimestampNanosecondArray::from(vec![Some(1_000), Some(1), None]);
    let expected = ["\"1970-01-01T00:00:00.000001\"", "\"1970-01-01T00:00:00.000000001\"", "null"];
    assert_eq!(values(Arc::new(nano)), expected);
    assert_eq!(values(Arc::new(Date32Array::from(vec![19_723]))), ["\"2024-01-01\""]);
    assert_eq!(values(Arc::new(Date64Array::from(vec![86_400_000]))), ["\"1970-01-02\""]);
    assert_eq!(values(Arc::new(Time32SecondArray::from(vec![3_661]))), ["\"01:01:01.000000\""]);
    assert_eq!(values(Arc::new(Time64NanosecondArray::from(vec![1]))), ["\"00:00:00.000000001\""]);
    assert_eq!(values(Arc::new(DurationMillisecondArray::from(vec![-1_500]))), ["\"PT-1.500000S\""]);
    assert_eq!(values(Arc::new(IntervalYearMonthArray::from(vec![14]))), ["\"P14M\""]);
    let span = IntervalDayTime { days: 1, milliseconds: 2 };
    assert_eq!(values(Arc::new(IntervalDayTimeArray::from(vec![span]))), ["\"P1DT0.002000S\""]);
    let span = IntervalMonthDayNano { months: 1, days: 2, nanoseconds: 3 };
    assert_eq!(values(Arc::new(IntervalMonthDayNanoArray::from(vec![span]))), ["\"P1M2DT0.000000003S\""]);
}

#[test]
fn a_name_that_is_not_finite_is_null_or_a_reject_or_a_string() {
    let keys: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, f64::NEG_INFINITY, 1.5]));
    let fields =
        Fields::from(vec![Field::new("keys", DataType::Float64, false), Field::new("values", DataType::Int32, true)]);
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let entries = StructArray::new(fields.clone(), vec![keys, values], None);
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    let map: ArrayRef = Arc::new(MapArray::new(field, OffsetBuffer::from_lengths([1, 1, 1]), entries, None, false));
    for (nan, expected) in [
        (Nan::Null, ["{\"null\":1}", "{\"null\":2}", "{\"1.5\":3}"]),
        (Nan::Reject, ["{NaN:1}", "{-Infinity:2}", "{\"1.5\":3}"]),
        (Nan::Text, ["{\"NaN\":1}", "{\"-Infinity\":2}", "{\"1.5\":3}"]),
    ] {
        let (text, not_finite) = text_of(&[batch_of(Arc::clone(&map))], nan);
        assert_eq!(text, expected.map(|value| format!("{{\"v\":{value}}}\n")).concat(), "{nan:?}");
        assert_eq!(not_finite, if nan == Nan::Null { 2 } else { 0 }, "{nan:?}");
    }
}

fn items() -> (Arc<Field>, ArrayRef) {
    let array = Int32Array::from(vec![Some(1), None, Some(3), Some(4)]);
    (Arc::new(Field::new("item", DataType::Int32, true)), Arc::new(array))
}

#[test]
fn lists_are_arrays() {
    let (field, array) = items();
    let nulls = Some(NullBuffer::from(vec![true, true, false]));
    let offsets = OffsetBuffer::from_lengths([3, 0, 1]);
    let list = ListArray::new(Arc::clone(&field), offsets, Arc::clone(&array), nulls.clone());
    assert_eq!(values(Arc::new(list.clone())), ["[1,null,3]", "[]", "null"]);
    assert_eq!(values(Arc::new(list.slice(1, 2))), ["[]", "null"]);
    let large = LargeListArray::new(Arc::clone(&field), OffsetBuffer::from_lengths([1, 3]), Arc::clone(&array), None);
    assert_eq!(values(Arc::new(large)), ["[1]", "[null,3,4]"]);
    let fixed = FixedSizeListArray::new(Arc::clone(&field), 2, Arc::clone(&array), None);
    assert_eq!(values(Arc::new(fixed.clone())), ["[1,null]", "[3,4]"]);
    assert_eq!(values(Arc::new(fixed.slice(1, 1))), ["[3,4]"]);
    let view = LargeListViewArray::new(field, vec![2_i64, 0].into(), vec![2_i64, 1].into(), array, None);
    assert_eq!(values(Arc::new(view)), ["[3,4]", "[1]"]);
}

#[test]
fn structs_are_objects_and_maps_too_unless_their_keys_nest() {
    let (_, array) = items();
    let fields = Fields::from(vec![Field::new("a\"", DataType::Int32, true)]);
    let nulls = Some(NullBuffer::from(vec![true, true, false, true]));
    let objects = StructArray::new(fields, vec![Arc::clone(&array)], nulls);
    assert_eq!(values(Arc::new(objects)), ["{\"a\\\"\":1}", "{\"a\\\"\":null}", "null", "{\"a\\\"\":4}"]);
    let map = |keys: ArrayRef| {
        let fields = Fields::from(vec![
            Field::new("keys", keys.data_type().clone(), false),
            Field::new("values", DataType::Int32, true),
        ]);
        let entries = StructArray::new(fields.clone(), vec![keys, Arc::clone(&array)], None);
        let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
        MapArray::new(field, OffsetBuffer::from_lengths([2, 0, 2]), entries, None, false)
    };
    let names = map(Arc::new(StringArray::from(vec!["a", "b", "c\"", ""])));
    assert_eq!(values(Arc::new(names)), ["{\"a\":1,\"b\":null}", "{}", "{\"c\\\"\":3,\"\":4}"]);
    let numbers = map(Arc::new(Int64Array::from(vec![1, -2, 3, 4])));
    assert_eq!(values(Arc::new(numbers)), ["{\"1\":1,\"-2\":null}", "{}", "{\"3\":3,\"4\":4}"]);
    let dates = map(Arc::new(Date32Array::from(vec![0, 1, 2, 3])));
    assert!(values(Arc::new(dates))[0].starts_with("{\"1970-01-01\":1,"));
    let fields = Fields::from(vec![Field::new("k", DataType::Int64, false)]);
    let nested = StructArray::new(fields, vec![Arc::new(Int64Array::from(vec![1, 2, 3, 4]))], None);
    let pairs = map(Arc::new(nested));
    assert_eq!(values(Arc::new(pairs)), ["[[{\"k\":1},1],[{\"k\":2},null]]", "[]", "[[{\"k\":3},3],[{\"k\":4},4]]"]);
}

#[test]
fn dictionaries_runs_and_unions_are_what_they_stand_for() {
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let dictionary = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![Some(1), Some(0), None]), names);
    assert_eq!(values(Arc::new(dictionary.clone())), ["null", "\"x\"", "null"]);
    assert_eq!(values(Arc::new(dictionary.slice(1, 1))), ["\"x\""]);
    let empty = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![None, None]), Arc::new(StringArray::new_null(0)));
    assert_eq!(values(Arc::new(empty)), ["null", "null"]);
    let runs =
        RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &StringArray::from(vec!["x", "y"])).unwrap();
    assert_eq!(values(Arc::new(runs.clone())), ["\"x\"", "\"x\"", "\"y\""]);
    assert_eq!(values(Arc::new(runs.slice(1, 2))), ["\"x\"", "\"y\""]);
    let fields =
        UnionFields::from_fields([Field::new("n", DataType::Int32, true), Field::new("s", DataType::Utf8, true)]);
    let children: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![Some(7), None])), Arc::new(StringArray::from(vec!["x"]))];
    let union = UnionArray::try_new(fields, vec![1_i8, 0, 0].into(), Some(vec![0, 0, 1].into()), children).unwrap();
    assert_eq!(values(Arc::new(union.clone())), ["\"x\"", "7", "null"]);
    assert_eq!(values(Arc::new(union.slice(1, 1))), ["7"]);
}

fn marked(name: &str, array: ArrayRef) -> Vec<String> {
    let field = Field::new("v", array.data_type().clone(), true).with_metadata([("ARROW:extension:name", name)]);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
    text_of(&[batch], Nan::Null).0.lines().map(str::to_owned).collect()
}

#[test]
fn json_and_uuids_are_what_they_are_called() {
    let json = StringArray::from(vec!["{\"a\":\n1}", "1.50", "no JSON"]);
    assert_eq!(marked("arrow.json", Arc::new(json)), ["{\"v\":{\"a\": 1}}", "{\"v\":1.50}", "{\"v\":\"no JSON\"}"]);
    let uuid = FixedSizeBinaryArray::try_from_iter([[0x11_u8; 16]].into_iter()).unwrap();
    assert_eq!(marked("arrow.uuid", Arc::new(uuid)), ["{\"v\":\"11111111-1111-1111-1111-111111111111\"}"]);
}

#[test]
fn text_that_nobody_checked_is_checked() {
    let field = Field::new("v", DataType::Utf8View, true).with_metadata([(super::super::mark::UNCHECKED, "")]);
    let array: ArrayRef = Arc::new(StringViewArray::from(vec!["fine"]));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
    assert_eq!(text_of(&[batch], Nan::Null).0, "{\"v\":\"fine\"}\n");
}

#[test]
fn text_comes_in_pieces_and_a_row_may_be_longer() {
    let long = "x".repeat(TEXT_BYTES * 2);
    let array = StringArray::from_iter_values((0..5000).map(|n| if n == 3000 { long.as_str() } else { "short" }));
    let mut rows = super::Rows::new(Nan::Null);
    rows.begin(batch_of(Arc::new(array)));
    let (mut lines, mut pieces) = (0, 0);
    while !rows.are_written() {
        let mut text = Vec::new();
        rows.write(&mut text).unwrap();
        assert!(text.len() <= TEXT_BYTES * 3 + 100 && text.ends_with(b"}\n"));
        lines += text.iter().filter(|byte| **byte == b'\n').count();
        pieces += 1;
    }
    assert_eq!(lines, 5000);
    assert!(pieces > 1);
}

#[test]
fn a_row_that_is_too_long_is_damage_and_those_before_it_come_out() {
    // One value of 16 MiB, which a list has 17 times.
    let value: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(16 << 20)]));
    let item = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0; 18]), value);
    let field = Arc::new(Field::new("item", item.data_type().clone(), true));
    let list = ListArray::new(field, OffsetBuffer::from_lengths([1, 17]), Arc::new(item), None);
    let mut rows = super::Rows::new(Nan::Null);
    rows.begin(batch_of(Arc::new(list)));
    let mut text = Vec::new();
    rows.write(&mut text).unwrap();
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
    text.clear();
    let ended = rows.write(&mut text);
    assert!(matches!(&ended, Err(Trouble::Damaged(why)) if why.starts_with("row 2 stands for")), "{ended:?}");
    assert!(text.is_empty());
}
