//! Newline-delimited JSON: one object on each line.

use super::objects::Objects;
use super::{Format, Input, InputOptions, Read, refuse_columns, rejected, require_whole, so_far};
use crate::error::Error;
use crate::limits::{LINE_BYTES_MAX, UNDECIDED_MAX};
use millstream_input::{Line, Lines, Window};

/// The format's entry in the list.
pub(super) const FORMAT: Format =
    Format { name: "ndjson", about: "one JSON object per line; values are kept as they are written", open };

fn open(mut window: Window, options: &InputOptions) -> Result<Box<dyn Input>, Error> {
    refuse_columns(window.name(), options)?;
    let objects = Objects::new(window.name(), options, UNDECIDED_MAX)?;
    let mark = window.begin_text(None)?;
    window.skip(mark);
    Ok(Box::new(Ndjson { lines: Lines::new(window, LINE_BYTES_MAX), objects }))
}

/// Lines of a file. Empty ones are skipped.
struct Ndjson {
    lines: Lines,
    objects: Objects,
}

impl Input for Ndjson {
    fn next(&mut self, members: &mut String) -> Result<Option<Read>, Error> {
        members.clear();
        while let Some(Line { number, text, is_whole }) = self.lines.read()? {
            if text.trim_ascii().is_empty() && is_whole {
                continue;
            }
            let range = if is_whole {
                self.objects.range(text, members)?
            } else {
                Err(format!("the line has more than {LINE_BYTES_MAX} bytes"))
            };
            let range = range.map_err(|reason| {
                members.clear();
                rejected(reason, text)
            });
            return Ok(Some(Read { line: number, range }));
        }
        require_whole(self.lines.window())?;
        self.objects.end()?;
        Ok(None)
    }

    fn name(&self) -> &str {
        self.lines.window().name()
    }

    fn progress(&self) -> (u64, Option<u64>) {
        so_far(self.lines.window())
    }

    fn unseen(&self) -> Vec<String> {
        self.objects.unseen()
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::read;
    use super::*;
    use crate::limits::VALUE_BYTES_MAX;
    use millstream_model::range::{AddressReading, Family};
    use millstream_pg::Explained as _;

    fn options(range: &[&str], keep: &[&str]) -> InputOptions {
        let owned = |names: &[&str]| names.iter().copied().map(str::to_owned).collect();
        InputOptions { range: owned(range), keep: owned(keep), ..InputOptions::default() }
    }

    fn lines(content: &str, options: &InputOptions) -> Vec<String> {
        read("ndjson", content.as_bytes(), options).unwrap()
    }

    #[test]
    fn members_come_out_as_they_are_written() {
        let content = concat!(
            "\u{feff}{\"start\":\"1.0.0.0\",\"end\":\"1.0.0.255\",\"n\":1.50e+00,\"s\":\"\\u00e9\\u0001\\/\"}\r\n",
            "\n \t\r\n",
            " { \"end\" : \"::2\" , \"a\\u0062\" : { \"x\" : [ 1 , 2 ] } , \"start\" : \"::\\u0031\" ,",
            " \"big\":12345678901234567890123} \n",
            "{\"start\":\"2.0.0.0\",\"end\":\"2.0.0.0\"}",
        );
        assert_eq!(
            lines(content, &options(&[], &[])),
            [
                "1 1.0.0.0-1.0.0.255 \"n\":1.50e+00,\"s\":\"\\u00e9\\u0001\\/\"",
                "4 ::1-::2 \"a\\u0062\":{ \"x\" : [ 1 , 2 ] },\"big\":12345678901234567890123",
                "5 2.0.0.0-2.0.0.0 ",
            ]
        );
    }

    #[test]
    fn the_range_can_be_in_one_member_or_as_the_user_says() {
        let content = "{\"network\":\"1.0.0.0/24\",\"from\":\"1.2.3.4\",\"a\":null,\"b\":\"x\"}\n";
        assert_eq!(
            lines(content, &options(&[], &[])),
            ["1 1.0.0.0-1.0.0.255 \"from\":\"1.2.3.4\",\"a\":null,\"b\":\"x\""]
        );
        assert_eq!(lines(content, &options(&["from"], &["b"])), ["1 1.2.3.4-1.2.3.4 \"b\":\"x\""]);
        assert_eq!(
            lines(content, &options(&["from"], &["network", "none"])),
            ["1 1.2.3.4-1.2.3.4 \"network\":\"1.0.0.0/24\""]
        );
        // The first object is on the first line that holds one.
        assert_eq!(lines(&format!("nonsense\n{content}"), &options(&[], &["b"]))[1], "2 1.0.0.0-1.0.0.255 \"b\":\"x\"");
    }

    #[test]
    fn numbers_can_be_addresses() {
        let content = "{\"ip_from\":16777216,\"ip_to\":16777471}\n{\"ip_from\":\"16777216\",\"ip_to\":\"1.0.0.1\"}\n";
        let reading = AddressReading { numbers: Some(Family::V4), ..AddressReading::default() };
        let numbers = InputOptions { reading, ..InputOptions::default() };
        assert_eq!(lines(content, &numbers), ["1 1.0.0.0-1.0.0.255 ", "2 1.0.0.0-1.0.0.1 "]);
        let refused = lines(content, &InputOptions::default());
        assert!(refused[0].starts_with("1 ! \"16777216\" is not an IP address | "), "{}", refused[0]);
    }

    #[test]
    fn dirty_lines_become_rejects_with_line_and_reason() {
        let good = "{\"start\":\"1.2.3.4\",\"end\":\"1.2.3.4\"}";
        for (line, reason) in [
            (
                "{\"start\":\"154.17.129.024\",\"end\":\"154.17.129.255\"}",
                "154.17.129.024 has an octet with a leading zero, 024",
            ),
            ("{\"start\":\"1.2.3.9\",\"end\":\"0.0.0.0\"}", "the last address 0.0.0.0 is before the first, 1.2.3.9"),
            ("{\"start\":\"1.2.3.9\",\"end\":\"::1\"}", "1.2.3.9 and ::1 are of two families"),
            ("{\"start\":\"1.2.3.9\"}", "the member \"end\" is missing"),
            ("{\"start\":\"1.2.3.9\",\"end\":null}", "the member \"end\" is neither a string nor a number"),
            ("{\"start\":\"1.2.3.9\",\"end\":{}}", "the member \"end\" is neither a string nor a number"),
            ("{\"start\":\"1.2.3.9\",\"start\":1,\"end\":\"1.2.3.9\"}", "the member \"start\" is there twice"),
            (
                "{\"start\":\"1.2.3.9\",\"end\":\"1.2.3.9\",\"x\":\"one\",\"\\u0078\":\"two\"}",
                "the member \"x\" is there twice",
            ),
            (
                "{\"start\":\"1.2.3.9\",\"end\":\"1.2.3.9\",\"a\":[{\"x\":1,\"y\":2,\"x\":3}]}",
                "the member \"x\" is there twice",
            ),
            ("{\"start\":\"\\ud800\",\"end\":\"1.2.3.9\"}", "\"\\\"\\\\ud800\\\"\" is not an IP address"),
            (
                "{\"start\":\"1.2.3.9\",\"end\":\"1.2.3.9\",\"a\":\"\\u0000\"}",
                "a string holds \\u0000, which jsonb cannot hold",
            ),
            (
                "{\"start\":\"1.2.3.9\",\"end\":\"1.2.3.9\",\"a\":{\"\\ud800x\":1}}",
                "a string holds half a surrogate pair, which jsonb cannot hold",
            ),
            ("[1]", "it is not a JSON object: invalid type: sequence, expected an object"),
            ("{\"start\":", "it is not a JSON object: EOF while parsing a value at byte 9"),
            ("{} {}", "it is not a JSON object: trailing characters at byte 4"),
            ("{\"a\":\"x\ty\"}", "it is not a JSON object: "),
        ] {
            let lines = lines(&format!("{good}\n{line}\n{good}"), &options(&[], &[]));
            assert_eq!((lines.len(), lines[0].as_str()), (3, "1 1.2.3.4-1.2.3.4 "), "{line}");
            assert!(lines[1].starts_with(&format!("2 ! {reason}")), "{}", lines[1]);
            assert!(lines[1].ends_with(&format!(" | {line}")), "{}", lines[1]);
            assert_eq!(lines[2], "3 1.2.3.4-1.2.3.4 ");
        }
        let bytes = read("ndjson", b"{\"ip\":\"1.2.3.4\",\"a\":\"\xff\"}", &options(&[], &[])).unwrap();
        assert!(bytes[0].starts_with("1 ! it is not UTF-8 | "), "{}", bytes[0]);
    }

    #[test]
    fn a_member_with_the_stores_own_name_is_refused() {
        for name in ["end", "\\u0065nd"] {
            let content = format!("{{\"ip\":\"1.2.3.4\",\"{name}\":1,\"a\":2}}");
            let lines = lines(&content, &options(&[], &[]));
            assert_eq!(lines, [format!("1 ! the member \"end\" is the store's own | {content}")]);
            assert_eq!(super::tests::lines(&content, &options(&[], &["a"])), ["1 1.2.3.4-1.2.3.4 \"a\":2"]);
        }
        assert!(read("ndjson", b"", &options(&[], &["end"])).is_err());
    }

    #[test]
    fn names_that_are_not_known_are_an_error() {
        let error = read("ndjson", b"{\"a\":1,\"b\":\"1.2.3.4\"}\n", &options(&[], &[])).unwrap_err();
        let problem = "no member has a usual name for a range; its members are \"a\", \"b\"";
        assert!(error.to_string().ends_with(problem), "{error}");
        assert_eq!(error.hint().unwrap(), "choose with --range COLUMN[,COLUMN]");
        assert!(read("ndjson", b"", &options(&["a", "b", "c"], &[])).is_err());
        let many = "{\"a\":1}\n".repeat(UNDECIDED_MAX + 1);
        let error = read("ndjson", (many + "{\"ip\":\"1.2.3.4\"}").as_bytes(), &options(&[], &[])).unwrap_err();
        assert!(error.to_string().ends_with("its members are \"a\""), "{error}");
    }

    #[test]
    fn objects_before_the_first_with_a_range_are_rejects() {
        let content = "{\"cc\":\"AU\"}\n{\"ip\":\"1.2.3.4\",\"cidr\":1}\n{\"ip\":\"1.2.3.4\"}\n{\"cidr\":\"::/8\"}\n";
        let lines = lines(content, &options(&[], &[]));
        assert!(lines[0].starts_with("1 ! no member has a usual name for a range"), "{}", lines[0]);
        assert!(lines[1].starts_with("2 ! several members have a usual name for a range"), "{}", lines[1]);
        assert_eq!(lines[2], "3 1.2.3.4-1.2.3.4 ");
        assert!(lines[3].starts_with("4 ! the member \"ip\" is missing"), "{}", lines[3]);
    }

    #[test]
    fn long_lines_and_values_are_rejects() {
        let value = "v".repeat(VALUE_BYTES_MAX);
        let line = "l".repeat(LINE_BYTES_MAX);
        let content = format!(
            "{{\"ip\":\"1.2.3.4\",\"a\":\"{value}\"}}\n{{\"ip\":\"1.2.3.5\"}}\n{{\"ip\":\"{line}\"}}\n\
             {{\"ip\":\"1.2.3.6\"}}\n{}",
            " ".repeat(LINE_BYTES_MAX + 1)
        );
        let lines = lines(&content, &options(&[], &[]));
        assert_eq!(lines.len(), 5);
        assert!(lines[0].starts_with("1 ! its value would have ") && lines[0].len() < 2_000);
        assert_eq!(lines[1], "2 1.2.3.5-1.2.3.5 ");
        assert!(lines[2].starts_with("3 ! the line has more than ") && lines[2].len() < 2_000);
        assert!(lines[2].ends_with("lll…"));
        assert_eq!(lines[3], "4 1.2.3.6-1.2.3.6 ");
        assert!(lines[4].starts_with("5 ! the line has more than "));
    }
}
