//! The decoder: a document to its key or a fault, for keys and versions of every type.

use crate::grammar::is_grammatical;
use millstream_document::decode::{DecodeLimits, Decoder, JsonbText, Wanted, infer};
use millstream_model::key_bytes::{key_texts, put_copy_fields};
use millstream_model::limits::KEY_COLUMNS_MAX;
use millstream_model::{Fault, KEY_TYPES, KeyColumn, KeyRequest, KeySpec, KeyType, Reason, VersionType};

/// Paths of the key's columns; short ones, that a fuzzer finds.
const PATHS: [&[&str]; 4] = [&["a"], &["b", "0"], &["a", "-1"], &["a", "b"]];

/// Versions to find in a document, by path and type.
const VERSIONS: [(&[&str], KeyType); 5] = [
    (&["v"], KeyType::Bigint),
    (&["v"], KeyType::Numeric),
    (&["v"], KeyType::Text),
    (&["v"], KeyType::Timestamptz),
    (&["b", "v"], KeyType::Date),
];

pub(crate) fn check(document: &[u8]) {
    for path in PATHS {
        for &key_type in KEY_TYPES {
            drop(judge(&[(path, key_type)], document));
        }
    }
    let all: Vec<_> = KEY_TYPES.iter().map(|&key_type| (PATHS[0], key_type)).collect();
    for columns in all.chunks(KEY_COLUMNS_MAX) {
        drop(judge(columns, document));
    }
    drop(judge(&[(PATHS[0], KeyType::Text), (PATHS[1], KeyType::Bigint)], document));

    let key = spec(&[(PATHS[0], KeyType::Text)]);
    let sums = Wanted { sums: vec![path(&["v"]), path(&["b", "w"])], ..Wanted::default() };
    let versions = VERSIONS.map(|(at, key_type)| Wanted {
        version: Some((path(at), VersionType(key_type))),
        delete_when: Some((path(&["a"]), "d".to_owned())),
        ..sums.clone()
    });
    for wanted in versions.into_iter().chain([sums]) {
        let (mut bytes, mut version) = (b"key".to_vec(), b"version".to_vec());
        let mut decoder = Decoder::wanting(&key, wanted, DecodeLimits::default());
        let verdict = decoder.decode_versioned(document, &mut bytes, &mut version);
        if verdict.is_err() {
            assert_eq!((&*bytes, &*version), (&b"key"[..], &b"version"[..]), "left behind by a fault");
        }
    }
    let requests = KeyRequest::parse_list("a,b.0").expect("two paths");
    // Nothing, or a type that takes this document's value.
    if let Ok(inference) = infer([Ok(document), Ok(document)].into_iter(), &requests) {
        let columns: Vec<_> = inference.spec.columns.iter().map(|column| column.key_type).collect();
        let fault = judge(&[(PATHS[0], columns[0]), (PATHS[1], columns[1])], document).err();
        assert!(fault.is_none_or(|fault| fault.reason != Reason::NotJson), "inferred from what is not JSON");
    }
}

/// Judges a document, and what jsonb would print of it.
fn judge(columns: &[(&[&str], KeyType)], document: &[u8]) -> Result<(), Fault> {
    let spec = spec(columns);
    let mut decoder = Decoder::new(&spec, DecodeLimits::default());
    let mut key = b"before".to_vec();
    let verdict = decoder.decode(document, &mut key);
    assert!(key.starts_with(b"before"));
    let key = &key[6..];
    match &verdict {
        Ok(()) => assert!(is_grammatical(document), "taken though it is not JSON"),
        Err(fault) => {
            assert!(key.is_empty(), "a key in spite of {fault:?}");
            if matches!(fault.reason, Reason::NotJson | Reason::InvalidUtf8) {
                assert!(!is_grammatical(document), "refused though it is JSON: {fault:?}");
            }
        }
    }
    verdict?;
    let types = spec.types();
    put_copy_fields(&types, key, &mut Vec::new());
    let texts = key_texts(&types, key);

    let (mut text, mut again) = (Vec::new(), Vec::new());
    let mut jsonb = JsonbText::default();
    jsonb.put(document, &mut text);
    let mut printed_key = Vec::new();
    decoder.decode(&text, &mut printed_key).expect("what jsonb prints is taken");
    assert_eq!(key, printed_key, "jsonb's spelling has another key: {}", text.escape_ascii());
    jsonb.put(&text, &mut again);
    assert_eq!(text, again, "jsonb's spelling is not spelled as itself");

    // The key as people read it is the same key.
    for (&(_, key_type), text) in columns.iter().zip(&texts) {
        // It is written as its column is, whatever the documents' own spelling.
        let key_type = key_type.column();
        let one = [(PATHS[0], key_type)];
        let document = serde_json::to_vec(&serde_json::json!({ "a": text })).expect("text");
        let mut read = Vec::new();
        Decoder::new(&self::spec(&one), DecodeLimits::default())
            .decode(&document, &mut read)
            .expect("a key that was read");
        assert_eq!(key_texts(&[key_type], &read), [text.as_str()]);
    }
    Ok(())
}

fn path(segments: &[&str]) -> Vec<String> {
    segments.iter().map(|&segment| segment.to_owned()).collect()
}

fn spec(columns: &[(&[&str], KeyType)]) -> KeySpec {
    let column = |(n, &(path, key_type)): (usize, &(&[&str], KeyType))| KeyColumn {
        name: format!("c{n}"),
        path: self::path(path),
        key_type,
    };
    KeySpec { columns: columns.iter().enumerate().map(column).collect() }
}
