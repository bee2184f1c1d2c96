//! The options besides the format that decide how bytes become documents.

use super::{Encoding, Nan, SOURCES, Takes};
use millstream_input::csv::QUOTE;
use millstream_model::{KeyRequest, Refusal};
use std::collections::BTreeSet;

/// How a source is written within its format. The defaults are those of the format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dialect {
    /// The ASCII character that separates the fields of a delimited file.
    pub delimiter: Option<u8>,
    /// The quote that may enclose a field of a delimited file.
    pub quote: Option<Quote>,
    /// The unquoted text of a field that becomes null.
    pub null: Option<String>,
    /// The names of the columns, for a source without a header line.
    pub header: Option<Vec<String>>,
    /// How many lines to skip at the beginning of every source.
    pub skip_lines: u64,
    /// The encoding; `None` means UTF-8.
    pub encoding: Option<&'static Encoding>,
    /// Whether spaces and tabs at both ends of an unquoted field are dropped.
    pub trim: bool,
    /// Whether unquoted numbers, `true` and `false` become those of JSON and not strings.
    pub infer_types: bool,
    /// Path of the array of documents in a JSON object; empty if there is no such object.
    pub root: Vec<String>,
    /// Whether a badly quoted record of a delimited file is a reject as a whole. Otherwise its lines are read anew, each
    /// with the quotes that enclose its fields. What is read without rejects is the same, so this is not recorded with a
    /// load.
    pub strict_quotes: bool,
    /// What becomes of numbers that are not finite, in a file that is no text.
    pub nan: Nan,
}

/// The quote that may enclose a field of a delimited file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// This ASCII character. Written twice within a quoted field, it means itself.
    Byte(u8),
    /// Nothing: every character but the delimiter and the line end is text.
    None,
}

impl Dialect {
    /// Whether it sets an option that only delimited files have.
    pub(super) fn is_delimited(&self) -> bool {
        let Self { delimiter, quote, null, header, trim, infer_types, .. } = self;
        delimiter.is_some() || quote.is_some() || null.is_some() || header.is_some() || *trim || *infer_types
    }

    /// The quote that may enclose a field, if any may.
    pub(super) fn quote_byte(&self) -> Option<u8> {
        match self.quote {
            Some(Quote::Byte(quote)) => Some(quote),
            Some(Quote::None) => None,
            None => Some(QUOTE),
        }
    }

    /// The root as it is typed.
    pub(super) fn root_text(&self) -> String {
        KeyRequest { column: String::new(), path: self.root.clone(), key_type: None }.path_text()
    }

    /// What is wrong with it for this format, and what to do.
    pub fn problem(&self, format: &str) -> Option<Refusal> {
        let usable = |byte: u8| byte.is_ascii() && !matches!(byte, b'\r' | b'\n' | 0);
        let quote = self.quote_byte();
        let of_table = "--delimiter, --quote, --null, --header, --trim and --types";
        // What `auto` recognises in the content decides later.
        let takes = |option: Takes| {
            let chosen = SOURCES.iter().find(|one| one.name == format);
            chosen.is_none_or(|chosen| chosen.takes.contains(&option))
        };
        if self.is_delimited() && !takes(Takes::Fields) {
            if !takes(Takes::NamedFields) {
                let problem = format!("{of_table} do not go with --format {format}");
                return Some(Refusal::new(problem).hint(format!("use --format {}", that_take(&[Takes::Fields]))));
            }
            if self.header.is_none() {
                let problem = format!("{of_table} go with --format {format} only if --header is one of them");
                return Some(Refusal::new(problem).hint("name the columns of the records with --header"));
            }
        }
        if !self.root.is_empty() && !takes(Takes::Root) {
            let problem = format!("--root does not go with --format {format}");
            let hint = format!("use --format {}, or leave it out", that_take(&[Takes::Root]));
            return Some(Refusal::new(problem).hint(hint));
        }
        if !self.root.is_empty() && self.is_delimited() {
            let problem = format!("--root does not go with {of_table}");
            return Some(Refusal::new(problem).hint("a delimited file has no root; leave it out"));
        }
        if self.delimiter.is_some() && !takes(Takes::Delimiter) {
            let problem = format!("--delimiter does not go with --format {format}");
            let hint = format!("use --format {} with --delimiter", that_take(&[Takes::Fields, Takes::Delimiter]));
            return Some(Refusal::new(problem).hint(hint));
        }
        let chosen = SOURCES.iter().find(|one| one.name == format);
        let is_text = self.encoding.is_none_or(|encoding| encoding.name == "utf-8") && self.skip_lines == 0;
        if chosen.is_some_and(|chosen| chosen.made.is_some()) && !is_text {
            let problem = format!("--encoding and --skip-lines do not go with --format {format}");
            return Some(Refusal::new(problem).hint("leave them out; such a file is no text"));
        }
        if self.nan != Nan::default() && !takes(Takes::Nan) {
            let problem = format!("--nan does not go with --format {format}");
            let hint = format!("leave it out; only {} have such numbers", that_take(&[Takes::Nan]));
            return Some(Refusal::new(problem).hint(hint));
        }
        if [self.delimiter, quote].into_iter().flatten().any(|byte| !usable(byte)) {
            let problem = "--delimiter and --quote take one ASCII character that is not a line end";
            return Some(Refusal::new(problem).hint("convert the file first, for instance with sed"));
        }
        if quote.is_some() && self.delimiter == quote {
            let problem = "--delimiter and --quote are the same";
            return Some(Refusal::new(problem).hint("name another one, or --quote none"));
        }
        None
    }

    /// The format and every option that differs from its default. It is recorded with a load, so that the load resumes
    /// only if its sources are read in the same way. `made` are the versions of the texts that are made of sources that
    /// are no text, by [`probe`](super::probe).
    pub fn label(&self, format: &str, made: &BTreeSet<&'static str>) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let list = |names: &[String]| serde_json::Value::from(names.to_vec()).to_string();
        let byte = |byte: u8| char::from(byte).escape_default().to_string();
        let chosen = SOURCES.iter().find(|one| one.name == format).and_then(|chosen| chosen.made);
        let mut label = chosen.map_or(format, |made| made.version).to_owned();
        let mut say = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                label.push_str(&format!(";{name}={value}"));
            }
        };
        say("delimiter", self.delimiter.filter(|b| *b != b',').map(byte));
        say(
            "quote",
            match self.quote {
                Some(Quote::None) => Some("none".into()),
                Some(Quote::Byte(quote)) if quote != b'"' => Some(byte(quote)),
                _ => None,
            },
        );
        say("null", self.null.as_deref().map(text));
        say("header", self.header.as_deref().map(list));
        say("skip-lines", (self.skip_lines > 0).then(|| self.skip_lines.to_string()));
        say("encoding", self.encoding.filter(|e| e.name != "utf-8").map(|e| e.name.into()));
        say("trim", self.trim.then(|| "on".into()));
        say("types", self.infer_types.then(|| "infer".into()));
        say("nan", (self.nan != Nan::default()).then(|| self.nan.name().into()));
        let versions = || made.iter().copied().collect::<Vec<_>>().join(",");
        say("made", (chosen.is_none() && !made.is_empty()).then(versions));
        say("root", (!self.root.is_empty()).then(|| list(&self.root)));
        label
    }
}

/// Names of the formats that take all of these options.
fn that_take(options: &[Takes]) -> String {
    let fit = SOURCES.iter().filter(|format| options.iter().all(|option| format.takes.contains(option)));
    fit.map(|format| format.name).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::super::Input;
    use super::super::transcript::{ReadFrame, bad, good, sizes, transcribe};
    use super::*;
    use fastrand::Rng;
    use millstream_model::Reason::DamagedSource;
    use millstream_testkit::{Cases, Pieces, gzip};

    #[test]
    fn a_label_lists_what_differs_from_the_format() {
        let none = BTreeSet::new();
        assert_eq!(Dialect::default().label("csv", &none), "csv");
        let plain = Dialect { delimiter: Some(b','), quote: Some(Quote::Byte(b'"')), ..Dialect::default() };
        assert_eq!(plain.label("auto", &none), "auto");
        let full = Dialect {
            delimiter: Some(b'\t'),
            quote: Some(Quote::None),
            null: Some("\\N".into()),
            header: Some(vec!["a;b".into(), "c".into()]),
            skip_lines: 2,
            encoding: Encoding::by_name("latin1"),
            trim: true,
            infer_types: true,
            root: Vec::new(),
            strict_quotes: true,
            nan: Nan::Null,
        };
        let expected = "csv;delimiter=\\t;quote=none;null=\"\\\\N\";header=[\"a;b\",\"c\"];skip-lines=2;\
                        encoding=latin1;trim=on;types=infer";
        assert_eq!(full.label("csv", &none), expected);
        // The version of a text that is made is a part of what is recorded, also where the content has decided.
        let strings = Dialect { nan: Nan::Text, ..Dialect::default() };
        let made = BTreeSet::from(["parquet/1", "arrow/1"]);
        assert_eq!(strings.label("parquet", &BTreeSet::from(["parquet/1"])), "parquet/1;nan=string");
        assert_eq!(Dialect::default().label("auto", &made), "auto;made=arrow/1,parquet/1");
        assert!(full.problem("csv").is_none() && full.problem("auto").is_none());
    }

    #[test]
    fn contradictory_options_are_refused() {
        let table = Dialect { trim: true, ..Dialect::default() };
        let root = Dialect { root: vec!["a".into()], ..Dialect::default() };
        let latin = Encoding::by_name("latin1");
        let with = |delimiter: u8, quote| Dialect { delimiter: Some(delimiter), quote, ..Dialect::default() };
        for (dialect, format, part) in [
            (&table, "json", "--types do not go with --format json"),
            (&table, "rejects", "only if --header"),
            (&root, "csv", "--root does not go with --format csv"),
            (&Dialect { root: root.root.clone(), ..table.clone() }, "auto", "--root does not go with --delimiter"),
            (&with(b';', None), "tsv", "--format tsv"),
            (&with(b';', None), "parquet", "do not go with --format parquet"),
            (&Dialect { skip_lines: 1, ..Dialect::default() }, "arrow", "--skip-lines do not go with --format arrow"),
            (&Dialect { encoding: latin, ..Dialect::default() }, "parquet", "--encoding and"),
            (&Dialect { nan: Nan::Reject, ..Dialect::default() }, "csv", "--nan does not go with --format csv"),
            (&with(b'"', None), "csv", "are the same"),
            (&with(b'\n', None), "csv", "ASCII"),
            (&with(b';', Some(Quote::Byte(0xe9))), "csv", "ASCII"),
        ] {
            let refusal = dialect.problem(format).expect(part);
            assert!(refusal.problem.contains(part) && refusal.hint.is_some(), "{refusal}");
        }
        assert!(with(b'"', Some(Quote::None)).problem("csv").is_none());
        let named = Dialect { header: Some(vec!["a".into()]), ..table.clone() };
        assert!(named.problem("rejects").is_none());
        assert!(root.problem("auto").is_none() && root.problem("json").is_none());
    }

    fn read(encoding: &str, content: &[u8], plain: &[u8], rng: &mut Rng) -> Vec<ReadFrame> {
        let largest = *rng.choice(&[1, 7, 5000]).unwrap();
        let input = Input::from_reader(Box::new(Pieces::new(content, largest, rng)), "test", None).unwrap();
        let mut options = sizes(*rng.choice(&[1, 16, 1000]).unwrap(), 100);
        options.dialect = Dialect { encoding: Encoding::by_name(encoding), ..Dialect::default() };
        transcribe(input, "ndjson", plain, &options).unwrap()
    }

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn encodings_become_utf8_and_offsets_count_its_bytes() {
        let text = "{\"a\":\"é€\"}\n{\"b\":1}\n";
        let latin = b"{\"a\":\"\xe9\x80\"}\n{\"b\":1}\n";
        let expected = [good(0, 1, "{\"a\":\"é€\"}"), good(14, 2, "{\"b\":1}")];
        let marked = format!("\u{feff}{text}");
        for (encoding, content) in [
            ("utf-8", text.as_bytes().to_vec()),
            ("latin1", latin.to_vec()),
            ("windows-1252", latin.to_vec()),
            ("utf-16le", utf16(text, u16::to_le_bytes)),
            ("utf-16le", utf16(&marked, u16::to_le_bytes)),
            ("utf-16be", utf16(&marked, u16::to_be_bytes)),
            ("utf-16", utf16(text, u16::to_le_bytes)),
            ("utf-16", utf16(&marked, u16::to_be_bytes)),
        ] {
            for mut rng in Cases::new(20) {
                assert_eq!(read(encoding, &content, text.as_bytes(), &mut rng), expected, "{encoding}");
                assert_eq!(read(encoding, &gzip(&content), text.as_bytes(), &mut rng), expected, "{encoding}");
            }
        }
    }

    #[test]
    fn malformed_text_rejects_one_document_and_damage_is_reported() {
        let mut content = utf16("{\"a\":\"", u16::to_le_bytes);
        content.extend(0xd800u16.to_le_bytes());
        content.extend(utf16("\"}\n{}\n", u16::to_le_bytes));
        let plain = b"{\"a\":\"\xff\"}\n{}\n";
        for mut rng in Cases::new(20) {
            let got = read("utf-16le", &content, plain, &mut rng);
            assert_eq!((got[0].bytes.as_slice(), &got[1]), (&plain[..9], &good(10, 2, "{}")));
        }
        let whole = gzip(&utf16("{}\n{}", u16::to_le_bytes));
        let got = read("utf-16le", &whole[..whole.len() - 1], b"{}\n{}", &mut Rng::new());
        assert_eq!(got, [good(0, 1, "{}"), bad(3, 2, "{}", DamagedSource)]);
    }
}
