//! What documents of mongoexport become.

use super::super::{Applied, Transform};
use super::{ExtendedJson, OUTCOMES};
use millstream_input::Nan;
use millstream_model::limits::NESTING_MAX;

/// What became of a document, by name, and what it is then.
fn converted(nan: Nan, document: &[u8]) -> (String, String) {
    let mut changed = b"before".to_vec();
    let mut applied = Vec::new();
    // Each is converted by itself.
    let documents: [&[u8]; 3] = [br#"{"$"#, document, br#"{"o":{"$symbol":"z"}}"#];
    ExtendedJson::new(nan).apply(0, &documents, &mut changed, &mut applied);
    assert_eq!((applied.len(), &applied[0]), (3, &Applied::Unreadable));
    assert!(matches!(&applied[2], Applied::Changed(0, place) if changed[place.clone()] == *br#"{"o":"z"}"#));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match &applied[1] {
        Applied::Unreadable => ("unreadable".into(), text(document)),
        Applied::Same(outcome) => (OUTCOMES[*outcome].into(), text(document)),
        Applied::Changed(outcome, place) => (OUTCOMES[*outcome].into(), text(&changed[place.clone()])),
        Applied::Rejected(outcome, fault) => (OUTCOMES[*outcome].into(), fault.detail.to_string()),
    }
}

/// The value of a member, which is converted.
fn value(value: &str) -> String {
    let (outcome, text) = converted(Nan::Null, format!("{{\"v\":{value}}}").as_bytes());
    assert_eq!(outcome, "converted", "{value}: {text}");
    text.strip_prefix("{\"v\":").unwrap().strip_suffix('}').unwrap().to_owned()
}

#[test]
fn values_of_all_forms_become_what_bson_becomes() {
    for (extended, expected) in [
        (r#"{"$oid":"507F1f77bcf86cd799439011"}"#, r#""507f1f77bcf86cd799439011""#),
        (r#"{"$date":{"$numberLong":"1704164645006"}}"#, r#""2024-01-02T03:04:05.006000Z""#),
        (r#"{"$date":{"$numberLong":"-62135769600000"}}"#, r#""0000-12-30T00:00:00.000000Z""#),
        (r#"{"$date":"2024-01-02T03:04:05.006Z"}"#, r#""2024-01-02T03:04:05.006000Z""#),
        (r#"{"$date":"2024-01-02T04:04:05.006+0100"}"#, r#""2024-01-02T03:04:05.006000Z""#),
        (r#"{ "$date" : 1704164645006 }"#, r#""2024-01-02T03:04:05.006000Z""#),
        (r#"{"$numberInt":"-7"}"#, "-7"),
        (r#"{"$numberLong":"9007199254740993"}"#, "9007199254740993"),
        (r#"{"$numberLong":5}"#, "5"),
        (r#"{"$numberDouble":"1.0"}"#, "1.0"),
        (r#"{"$numberDouble":"-0.0"}"#, "-0.0"),
        (r#"{"$numberDouble":"1e+300"}"#, "1e+300"),
        (r#"{"$numberDecimal":"1.50"}"#, "1.50"),
        (r#"{"$numberDecimal":"0E-6176"}"#, "0"),
        (
            r#"{"$numberDecimal":"9.999999999999999999999999999999999E+6144"}"#,
            "9.999999999999999999999999999999999E+6144",
        ),
        (r#"{"$binary":{"base64":"/wBh","subType":"00"}}"#, r#""/wBh""#),
        (
            r#"{"$binary":{"subType":"04","base64":"ABEiM0RVZneImaq7zN3u/w=="}}"#,
            r#""00112233-4455-6677-8899-aabbccddeeff""#,
        ),
        (r#"{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"03"}}"#, r#""ABEiM0RVZneImaq7zN3u/w==""#),
        (r#"{"$binary":"/wBh","$type":"00"}"#, r#""/wBh""#),
        (r#"{"$type":"4","$binary":"ABEiM0RVZneImaq7zN3u/w=="}"#, r#""00112233-4455-6677-8899-aabbccddeeff""#),
        (r#"{"$uuid":"00112233-4455-6677-8899-AABBCCDDEEFF"}"#, r#""00112233-4455-6677-8899-aabbccddeeff""#),
        (r#"{"$uuid":"00112233445566778899aabbccddeeff"}"#, r#""00112233-4455-6677-8899-aabbccddeeff""#),
        (r#"{"$symbol":"a\"b"}"#, r#""a\"b""#),
        (r#"{"$undefined":true}"#, "null"),
        (r#"{"$regex":"^a","$options":"i"}"#, r#"{"$regularExpression":{"pattern":"^a","options":"i"}}"#),
        (
            r#"[1.50, {"$oid":"507f1f77bcf86cd799439011"},[{"$numberInt":"1"}]]"#,
            r#"[1.50,"507f1f77bcf86cd799439011",[1]]"#,
        ),
        (r#"{"$code":"f","$scope":{"x":{"$numberInt":"1"}}}"#, r#"{"$code":"f","$scope":{"x":1}}"#),
        (
            r#"{"$dbPointer":{"$ref":"db.c","$id":{"$oid":"507f1f77bcf86cd799439011"}}}"#,
            r#"{"$dbPointer":{"$ref":"db.c","$id":"507f1f77bcf86cd799439011"}}"#,
        ),
        (
            r#"{"$ref":"c","$id":{"$oid":"507f1f77bcf86cd799439011"},"$db":"d"}"#,
            r#"{"$ref":"c","$id":"507f1f77bcf86cd799439011","$db":"d"}"#,
        ),
        // An object with more members is none of them, and what is in it is converted.
        (r#"{"$oid":{"$numberInt":"1"},"n":1,"m":{}}"#, r#"{"$oid":1,"n":1,"m":{}}"#),
    ] {
        assert_eq!(value(extended), expected, "{extended}");
    }
}

#[test]
fn what_has_no_shorter_form_and_what_is_no_value_stays_as_it_is() {
    for document in [
        r#"{"a": 1.50}"#,
        r#"{"t":{"$timestamp":{"t":1,"i":2}},"k":{"$minKey":1},"m":{"$maxKey":1}}"#,
        r#"{"r":{"$regularExpression":{"pattern":"a","options":""}},"c":{"$code":"f"}}"#,
        r#"{"q":{"$in":[1, 2]},"$set":{"a":1},"d":{"$regex":{"a":1},"$options":"i"},"e":{"$regex":"a"}}"#,
        r#"{"o":{"$oid":"x","more":1}, "p":{"$oid":"x","$oid":"y"}, "n":"NaN", "z":{}}"#,
        // The document itself is one, whatever its members are called.
        r#"{"$oid":"507f1f77bcf86cd799439011"}"#,
    ] {
        assert_eq!(converted(Nan::Null, document.as_bytes()), ("plain".into(), document.into()));
    }
}

#[test]
fn numbers_that_json_lacks_are_null_or_words() {
    let document = br#"{"a":{"$numberDouble":"NaN"},"b":[-Infinity, {"$numberDecimal":"Infinity"}]}"#;
    for (nan, outcome, expected) in [
        (Nan::Null, "null", r#"{"a":null,"b":[null,null]}"#),
        (Nan::Reject, "converted", r#"{"a":NaN,"b":[-Infinity,Infinity]}"#),
        (Nan::Text, "converted", r#"{"a":"NaN","b":["-Infinity","Infinity"]}"#),
    ] {
        assert_eq!(converted(nan, document), (outcome.into(), expected.into()));
    }
}

#[test]
fn a_malformed_value_is_a_reject_that_names_it_and_shows_none_of_it() {
    for (document, says) in [
        (r#"{"o":{"$oid":"507f1f77bcf86cd79943901"}}"#, "at byte 5: $oid is not a string of 24 hexadecimal digits"),
        (r#"{"o":{"$oid":5}}"#, "at byte 5: $oid"),
        (r#"{"a":[1,{"$date":"yesterday"}]}"#, "at byte 8: $date is neither"),
        (r#"{"a":{"$date":"2024-01-02T03:04:05.0001Z"}}"#, "$date is neither"),
        (r#"{"a":{"$date":1.5}}"#, "$date is neither"),
        (r#"{"a":{"$date":0001704164645006}}"#, "$date is neither"),
        (r#"{"a":{"$date":+5}}"#, "$date is neither"),
        (r#"{"a":{"$numberInt":"1.5"}}"#, "a whole number has no 64 bits"),
        (r#"{"a":{"$numberLong":"9223372036854775808"}}"#, "a whole number has no 64 bits"),
        (r#"{"a":{"$numberDouble":"inf"}}"#, "$numberDouble is not a number"),
        (r#"{"a":{"$numberDouble":"1e999"}}"#, "$numberDouble is not a number"),
        (r#"{"a":{"$numberDecimal":"1,5"}}"#, "$numberDecimal is not"),
        (r#"{"a":{"$binary":{"base64":"/wBh"}}}"#, "$binary has no base64 and no subType"),
        (r#"{"a":{"$binary":{"base64":"/w","subType":"00"}}}"#, "$binary has no base64"),
        (r#"{"a":{"$binary":"/wBh","$type":"x"}}"#, "$type is no subtype"),
        (r#"{"a":{"$uuid":"0011223344-55-6677-8899-aabbccddeeff"}}"#, "$uuid is not a UUID"),
        (r#"{"a":{"$uuid":"00112233"}}"#, "$uuid is not a UUID"),
        (r#"{"a":{"$symbol":1}}"#, "$symbol is not a string"),
        (r#"{"a":{"$undefined":false}}"#, "$undefined is not true"),
    ] {
        let (outcome, detail) = converted(Nan::Null, document.as_bytes());
        assert!(outcome == "malformed" && detail.contains(says), "{document}: {outcome} {detail}");
    }
}

#[test]
fn what_is_no_document_is_left_to_the_decoder() {
    let deep = |levels: usize| format!("{}{{\"$x\":1}}{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert_eq!(converted(Nan::Null, deep(NESTING_MAX).as_bytes()).0, "plain");
    assert_eq!(converted(Nan::Null, deep(100 * NESTING_MAX).as_bytes()).0, "unreadable");
    for document in [
        &br#"{"$a":"#[..],
        br#"{"$a""#,
        br#"{"$a"#,
        br#"{"$a\"#,
        br#"{"$a" 1}"#,
        br#"{"$a":1,}"#,
        br#"{"$a":[1,]}"#,
        br#"{"$a":[1}"#,
        br#"{"$a":1]"#,
        br#"{"$a":1} {}"#,
        br#"{"$a":1}}"#,
        br#"{"$a":1 2}"#,
        br#"{"$a":"1""2"}"#,
        br#"{,"$a":1}"#,
        br#"{"o":{"$oid" "507f1f77bcf86cd799439011"}}"#,
        br#"{"o":{"$oid"::"507f1f77bcf86cd799439011"}}"#,
    ] {
        assert_eq!(converted(Nan::Null, document).0, "unreadable", "{}", document.escape_ascii());
    }
    // A scalar that is none stays, and the decoder finds it.
    let (outcome, text) = converted(Nan::Null, br#"{"a":{"$numberInt":"1"},"b":tru}"#);
    assert_eq!((outcome.as_str(), text.as_str()), ("converted", r#"{"a":1,"b":tru}"#));
}
