//! The options besides the format that decide how bytes become documents.

use super::encoding::Encoding;
use millstream_model::words::{option, set};
use millstream_model::{KeyRequest, Refusal};

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

    /// The root as it is typed.
    pub(super) fn root_text(&self) -> String {
        KeyRequest { column: String::new(), path: self.root.clone(), key_type: None }.path_text()
    }

    /// What is wrong with it for this format, and what to do.
    pub(crate) fn problem(&self, format: &str) -> Option<Refusal> {
        let usable = |byte: u8| byte.is_ascii() && !matches!(byte, b'\r' | b'\n' | 0);
        let quote = match self.quote {
            Some(Quote::Byte(byte)) => Some(byte),
            Some(Quote::None) => None,
            None => Some(b'"'),
        };
        let of_table = format!(
            "{}, {}, {}, {}, {} and {}",
            option("delimiter"),
            option("quote"),
            option("null"),
            option("header"),
            option("trim"),
            option("types")
        );
        if self.is_delimited() && self.header.is_none() && format == "rejects" {
            let (rejects, header) = (set("format", "rejects"), option("header"));
            let problem = format!("{of_table} go with {rejects} only if {header} is one of them");
            return Some(Refusal::new(problem).hint(format!("name the columns of the records with {header}")));
        }
        if self.is_delimited() && !["auto", "csv", "tsv", "rejects"].contains(&format) {
            let problem = format!("{of_table} do not go with {}", set("format", format));
            return Some(Refusal::new(problem).hint(format!("use {}", set("format", "csv or tsv"))));
        }
        if !self.root.is_empty() && !["auto", "json"].contains(&format) {
            let problem = format!("{} does not go with {}", option("root"), set("format", format));
            return Some(Refusal::new(problem).hint(format!("use {}, or leave it out", set("format", "json"))));
        }
        if !self.root.is_empty() && self.is_delimited() {
            let problem = format!("{} does not go with {of_table}", option("root"));
            return Some(Refusal::new(problem).hint("a delimited file has no root; leave it out"));
        }
        if self.delimiter.is_some() && format == "tsv" {
            let problem = format!("{} does not go with {}", option("delimiter"), set("format", "tsv"));
            let hint = format!("use {} with {}", set("format", "csv"), option("delimiter"));
            return Some(Refusal::new(problem).hint(hint));
        }
        if [self.delimiter, quote].into_iter().flatten().any(|byte| !usable(byte)) {
            let (delimiter, quote) = (option("delimiter"), option("quote"));
            let problem = format!("{delimiter} and {quote} take one ASCII character that is not a line end");
            return Some(Refusal::new(problem).hint("convert the file first, for instance with sed"));
        }
        if quote.is_some() && self.delimiter == quote {
            let problem = format!("{} and {} are the same", option("delimiter"), option("quote"));
            return Some(Refusal::new(problem).hint(format!("name another one, or {}", set("quote", "none"))));
        }
        None
    }

    /// The format and every option that differs from its default. It is recorded with a load, so that the load resumes
    /// only if its sources are read in the same way.
    pub(crate) fn label(&self, format: &str) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let list = |names: &[String]| serde_json::Value::from(names.to_vec()).to_string();
        let byte = |byte: u8| char::from(byte).escape_default().to_string();
        let mut label = format.to_owned();
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
        say("root", (!self.root.is_empty()).then(|| list(&self.root)));
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_lists_what_differs_from_the_format() {
        assert_eq!(Dialect::default().label("csv"), "csv");
        let plain = Dialect { delimiter: Some(b','), quote: Some(Quote::Byte(b'"')), ..Dialect::default() };
        assert_eq!(plain.label("auto"), "auto");
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
        };
        let expected = "csv;delimiter=\\t;quote=none;null=\"\\\\N\";header=[\"a;b\",\"c\"];skip-lines=2;\
                        encoding=latin1;trim=on;types=infer";
        assert_eq!(full.label("csv"), expected);
        assert!(full.problem("csv").is_none() && full.problem("auto").is_none());
    }

    #[test]
    fn contradictory_options_are_refused() {
        let table = Dialect { trim: true, ..Dialect::default() };
        let root = Dialect { root: vec!["a".into()], ..Dialect::default() };
        let with = |delimiter: u8, quote| Dialect { delimiter: Some(delimiter), quote, ..Dialect::default() };
        for (dialect, format, part) in [
            (&table, "json", "types do not go with format json"),
            (&table, "rejects", "only if header"),
            (&root, "csv", "root does not go with format csv"),
            (&Dialect { root: root.root.clone(), ..table.clone() }, "auto", "root does not go with delimiter"),
            (&with(b';', None), "tsv", "format tsv"),
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
}
