//! Files that are not text, recognised by their first bytes: those that are converted, and the way to text of the others.

use super::compression::Compression;
use super::error::{Error, Way};
use millstream_records::{ARROW_FILE, ARROW_STREAM, AVRO, BSON, Format, PARQUET};

/// A kind of file that Millstream does not read.
struct Signature {
    kind: &'static str,
    /// Bytes and their offsets. All must match, because a document may hold some of them there by chance.
    marks: &'static [(usize, &'static [u8])],
    way: Way,
}

/// The kinds that are recognised, to say what to do. The first match counts.
const SIGNATURES: &[Signature] = &[
    Signature { kind: "bzip2", marks: &[(0, b"BZh"), (4, b"1AY&SY")], way: Way::Pipe("bzip2 -dc FILE") },
    Signature { kind: "xz", marks: &[(0, b"\xfd7zXZ\0")], way: Way::Pipe("xz -dc FILE") },
    Signature { kind: "lz4", marks: &[(0, b"\x04\x22\x4d\x18")], way: Way::Pipe("lz4 -dc FILE") },
    Signature { kind: "7z", marks: &[(0, b"7z\xbc\xaf\x27\x1c")], way: Way::Pipe("7z e -so FILE") },
    Signature {
        kind: "Microsoft Office (xlsx)",
        marks: &[(0, b"PK\x03\x04"), (30, b"[Content_Types].xml")],
        way: Way::Say("save the sheet as CSV"),
    },
    Signature { kind: "zip", marks: &[(0, b"PK\x03\x04")], way: Way::Pipe("unzip -p FILE") },
    Signature {
        kind: "Excel (xls)",
        marks: &[(0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")],
        way: Way::Say("save the sheet as CSV"),
    },
    Signature { kind: "tar", marks: &[(107, b"\0"), (257, b"ustar")], way: Way::Pipe("tar -xOf FILE") },
    Signature {
        kind: "Feather (version 1)",
        // It is padded to eight bytes.
        marks: &[(0, b"FEA1"), (4, b"\0")],
        way: Way::Say("write it as Parquet or as Arrow, for instance with pyarrow"),
    },
    // With an encrypted footer, another magic number stands at the beginning, too. The length of the first encrypted part
    // follows, and no length begins a text such as `PARENT,NAME`.
    Signature {
        kind: "Parquet (encrypted)",
        marks: &[(0, b"PARE"), (7, b"\0")],
        way: Way::Say("decrypt it where its keys are, for instance with pyarrow, and load what that writes"),
    },
    Signature {
        kind: "SQLite",
        marks: &[(0, b"SQLite format 3\0")],
        way: Way::Pipe("sqlite3 -json FILE 'select * from TABLE'"),
    },
    Signature {
        kind: "mongodump --archive",
        marks: &[(0, b"\x6d\xe2\x99\x81")],
        way: Way::Say(
            "write a folder of files: mongodump --out FOLDER; an archive is read by mongorestore --archive=FILE only",
        ),
    },
    Signature { kind: "pg_dump", marks: &[(0, b"PGDMP")], way: Way::Say("restore it: pg_restore -d DATABASE FILE") },
    Signature { kind: "PDF", marks: &[(0, b"%PDF-")], way: Way::Say("export its data as CSV or JSON") },
];

/// The formats that are read as the NDJSON they stand for. The first match counts.
pub(super) const CONVERTERS: &[&Format] = &[&PARQUET, &ARROW_FILE, &ARROW_STREAM, &AVRO, &BSON];

/// Length of the shortest document, `{}`. A live input may give no more for a long time.
const SHORTEST_BYTES: usize = 2;

/// How many bytes show UTF-16 without a byte order mark, two ASCII characters, or UTF-32, one character.
const WIDE_BYTES: usize = 4;

/// Whether more bytes are needed to recognise an input that begins with these.
pub(super) fn is_open(bytes: &[u8]) -> bool {
    let mut beginnings = SIGNATURES.iter().map(|s| s.marks[0]).filter(|(at, _)| *at == 0);
    beginnings.any(|(_, magic)| bytes.len() < magic.len() && magic.starts_with(bytes))
        || CONVERTERS.iter().any(|format| format.is_open(bytes))
        || bytes.len() < SHORTEST_BYTES
        || (bytes.len() < WIDE_BYTES && (bytes.contains(&0) || bytes.starts_with(b"\xff\xfe")))
}

/// Refuses an input that begins with these bytes if they are of a file that a converter would read, but not here: within
/// compressed data, in a pipe, or with this build.
///
/// # Errors
/// [`Error::Unbuilt`] and [`Error::Refused`] say what to do.
pub(super) fn refuse_unconverted(name: &str, bytes: &[u8], outer: Option<&Compression>) -> Result<(), Error> {
    let Some(format) = CONVERTERS.iter().find(|format| format.begins(bytes)) else { return Ok(()) };
    let (name, kind) = (name.to_owned(), format.kind);
    if format.open.is_none() {
        return Err(Error::Unbuilt { name, kind, feature: format.feature });
    }
    let (place, hint) = match outer {
        Some(outer) => {
            (format!("in {} data", outer.name), format!("open it first: {} >FILE.{}", outer.writer, format.name))
        }
        None => ("in a pipe".to_owned(), "write it into a file, and name the file".to_owned()),
    };
    let why = if format.needs_file { ", and it is read from its end" } else { "" };
    Err(Error::Refused { name, problem: format!("is {kind} {place}{why}"), hint })
}

/// Refuses an input that begins with these bytes if it is not text that we read. They may be `decoded` from another
/// encoding.
///
/// # Errors
/// [`Error::Container`], [`Error::Utf16`], [`Error::Utf32`] and [`Error::OtherByteOrder`] name what it is.
pub(super) fn refuse(name: &str, bytes: &[u8], decoded: bool) -> Result<(), Error> {
    let stands = |(at, magic): &(usize, &[u8])| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    let has = |s: &&Signature| s.marks.iter().all(stands);
    if let Some(Signature { kind, way, .. }) = SIGNATURES.iter().find(has) {
        return Err(Error::Container { name: name.into(), kind, way: *way });
    }
    if decoded && is_swapped(bytes) {
        return Err(Error::OtherByteOrder { name: name.into() });
    }
    match utf16(bytes) {
        // UTF-32 that was decoded as UTF-16.
        found if decoded && (found || bytes.first() == Some(&0)) => Err(Error::Utf32 { name: name.into() }),
        _ if utf32(bytes) => Err(Error::Utf32 { name: name.into() }),
        true => Err(Error::Utf16 { name: name.into() }),
        false => Ok(()),
    }
}

/// Whether the bytes begin with UTF-32's byte order mark, or with an ASCII character in UTF-32.
fn utf32(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => true,
        [a, 0, 0, 0, ..] | [0, 0, 0, a, ..] => is_ascii_text(*a),
        _ => false,
    }
}

/// Whether the bytes begin with UTF-16's byte order mark, or with two ASCII characters in UTF-16.
fn utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [a, 0, b, 0, ..] | [0, a, 0, b, ..] => is_ascii_text(*a) && is_ascii_text(*b),
        _ => false,
    }
}

/// Whether text that was decoded from UTF-16 begins with a byte order mark whose bytes are swapped, or with two ASCII
/// characters whose bytes are.
fn is_swapped(text: &[u8]) -> bool {
    const SWAPPED_MARK: char = '\u{fffe}';
    let text = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let is_ascii = |c: char| {
        let [high @ .., low] = u32::from(c).to_be_bytes();
        low == 0 && high[..2] == [0, 0] && is_ascii_text(high[2])
    };
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(SWAPPED_MARK), _) => true,
        (Some(first), Some(second)) => is_ascii(first) && is_ascii(second),
        _ => false,
    }
}

fn is_ascii_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoding, Input, Window};
    use millstream_testkit::{gzip, zstd};
    use std::io::Cursor;

    fn begin(content: &[u8], encoding: Option<&str>) -> Result<usize, Error> {
        let input = Input::from_reader(Box::new(Cursor::new(content.to_vec())), "test", None)?;
        Window::new(input, 1000).begin_text(encoding.map(|name| Encoding::by_name(name).unwrap()))
    }

    #[test]
    fn unsupported_files_are_named_even_if_compressed() {
        for signature in SIGNATURES {
            let mut content = Vec::new();
            for (at, magic) in signature.marks {
                content.resize(*at, b'B');
                content.extend_from_slice(magic);
            }
            content.extend_from_slice(b"rest");
            for content in [content.clone(), gzip(&content)] {
                let error = begin(&content, None).unwrap_err();
                assert!(error.to_string().contains(&format!("is a {} file", signature.kind)), "{error}");
                match signature.way {
                    Way::Pipe(writer) => {
                        assert_eq!(error.hint("load - .."), crate::piped(writer, "load - .."));
                    }
                    Way::Say(way) => assert_eq!(error.hint("load - .."), way),
                }
            }
        }
    }

    #[test]
    fn files_that_are_converted_elsewhere_say_what_they_lack_here() {
        for format in CONVERTERS {
            // What has no marks is an empty document of BSON.
            let mut content = if format.marks.is_empty() { b"\x05\0\0\0\0".to_vec() } else { Vec::new() };
            for (at, magic) in format.marks {
                content.resize(*at, b'B');
                content.extend_from_slice(magic);
            }
            content.extend_from_slice(b"\x15\x04\x15\x04");
            let (within, piped) = (begin(&gzip(&content), None).err(), begin(&content, None).err());
            if format.open.is_none() {
                for error in [within, piped].map(Option::unwrap) {
                    assert!(matches!(error, Error::Unbuilt { .. }), "{error}");
                    let (says, hint) = (error.to_string(), error.hint("load - .."));
                    assert!(
                        says.contains(&format!("is a {} file", format.kind)) && says.contains("'columnar'"),
                        "{says}"
                    );
                    assert!(hint.ends_with("--features columnar`"), "{hint}");
                }
                continue;
            }
            assert_eq!(
                (within.is_some(), piped.is_some()),
                (format.needs_file, format.needs_file),
                "{within:?} {piped:?}"
            );
            assert!(within.is_none_or(|error| {
                let hint = format!("gzip -dc FILE >FILE.{}", format.name);
                error.to_string().contains("in gzip data") && error.hint("load - ..").ends_with(&hint)
            }));
            assert!(piped.is_none_or(|error| error.to_string().ends_with("in a pipe, and it is read from its end")));
        }
    }

    #[test]
    fn a_document_that_holds_magic_bytes_by_chance_is_read() {
        for (at, magic) in SIGNATURES.iter().flat_map(|s| s.marks).filter(|(at, magic)| *at > 0 && !magic.contains(&0))
        {
            let mut document = format!("{{\"{}", "x".repeat(at - 2)).into_bytes();
            document.extend_from_slice(magic);
            document.extend_from_slice(b"\":1}\n");
            assert_eq!(begin(&document, None).unwrap(), 0, "{}", document.escape_ascii());
        }
    }

    #[test]
    fn a_header_that_begins_like_a_file_of_columns_is_text() {
        for text in ["PARENT,NAME\n1,a\n", "PAR1,PAR2,id\n1,2,3\n", "PAR1\n{}", "PAR1", "FEA1,FEA2\n1,2\n"] {
            for content in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
                assert_eq!(begin(&content, None).unwrap(), 0, "{text}");
            }
        }
        let error = begin(b"FEA1\0\0\0\0rest", None).unwrap_err();
        assert!(error.to_string().contains("Feather"), "{error}");
        let error = begin(b"PARE*\0\0\0rest", None).unwrap_err();
        assert!(error.to_string().contains("Parquet (encrypted)") && error.hint("load - ..").contains("decrypt it"));
    }

    #[test]
    fn utf16_is_recognised_with_and_without_a_byte_order_mark() {
        let le: Vec<u8> = "{\"a\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = "id,name".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for content in [&le[..], &be, b"\xff\xfe", b"\xfe\xff\0{"] {
            let error = begin(content, None).unwrap_err();
            assert!(matches!(error, Error::Utf16 { .. }), "{error}");
            assert!(error.hint("load -").contains("iconv -f UTF-16 -t UTF-8"), "{}", error.hint("load -"));
        }
        assert_eq!(begin(b"{}", None).unwrap(), 0);
        assert_eq!(begin(b"P,K\n1,2", None).unwrap(), 0);
        assert_eq!(begin("\u{feff}a".as_bytes(), None).unwrap(), 3);
    }

    #[test]
    fn utf16_in_the_other_byte_order_is_named() {
        let swapped =
            |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> { text.encode_utf16().flat_map(bytes).collect() };
        for (content, encoding) in [
            (swapped("\u{feff}{\"a\":1}", u16::to_le_bytes), "utf-16be"),
            (swapped("\u{feff}id,name", u16::to_be_bytes), "utf-16le"),
            (swapped("{\"a\":1}", u16::to_le_bytes), "utf-16be"),
            (swapped("id,name", u16::to_be_bytes), "utf-16"),
        ] {
            let error = begin(&content, Some(encoding)).unwrap_err();
            assert!(matches!(error, Error::OtherByteOrder { .. }), "{encoding}: {error}");
            assert!(error.hint("load -").contains("--encoding utf-16"), "{}", error.hint("load -"));
        }
        assert_eq!(begin(&swapped("漢字,名", u16::to_be_bytes), Some("utf-16be")).unwrap(), 0);
    }

    #[test]
    fn data_that_is_compressed_twice_is_named() {
        type Compress = fn(&[u8]) -> Vec<u8>;
        for (outer, outer_name) in [(gzip as Compress, "gzip"), (zstd, "zstd")] {
            for (inner, inner_name) in [(gzip as Compress, "gzip"), (zstd, "zstd")] {
                let error = begin(&outer(&inner(b"{}\n")), None).unwrap_err();
                let says = format!("test is compressed twice: the {outer_name} data holds {inner_name} data");
                assert_eq!(error.to_string(), says);
                assert_eq!(error.hint("load - .."), crate::piped(&format!("{outer_name} -dc FILE"), "load - .."));
            }
        }
    }

    #[test]
    fn utf32_is_recognised_also_behind_an_encoding() {
        let wide = |text: &str, bytes: fn(u32) -> [u8; 4]| -> Vec<u8> {
            text.chars().flat_map(|c| bytes(u32::from(c))).collect()
        };
        for (content, encoding) in [
            (wide("\u{feff}{\"a\":1}", u32::to_le_bytes), "utf-16"),
            (wide("\u{feff}{\"a\":1}", u32::to_be_bytes), "utf-16be"),
            (wide("{\"a\":1}", u32::to_le_bytes), "utf-16le"),
            (wide("id,name", u32::to_be_bytes), "utf-16be"),
        ] {
            for error in [begin(&content, None), begin(&content, Some(encoding))].map(Result::unwrap_err) {
                assert!(matches!(error, Error::Utf32 { .. }), "{error}");
                assert!(error.hint("load -").contains("iconv -f UTF-32 -t UTF-8"), "{}", error.hint("load -"));
            }
        }
    }
}
