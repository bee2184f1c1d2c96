//! A script of psql that makes a table with a row for each range.

use super::table::{TABLE, comment, typed_columns};
use super::{Export, ExportOptions, failed, members, unfit};
use crate::error::Error;
use crate::jsonb;
use crate::store::Generation;
use millstream_model::CollectionName;
use millstream_pg::{fill, quote_literal, quote_name};
use std::io::{self, Write};

pub(super) const EXPORT: Export = Export {
    name: "sql",
    about: "a script for psql that makes a table: start, \"end\", doc",
    needs: "psql loads it in one transaction",
    write,
};

fn write(generation: &Generation, out: &mut dyn Write, options: &ExportOptions) -> Result<u64, Error> {
    let name: CollectionName = options.name.parse().map_err(|error: millstream_model::NameError| {
        Error::refused(error.to_string(), "name the table as NAME or SCHEMA.NAME")
    })?;
    let table = quote_name(&name);
    begin(out, &table, &typed_columns(generation, false)?).map_err(failed)?;
    let mut ranges = 0;
    for found in generation.ranges()? {
        let found = found?;
        let members = members(&found)?;
        if let Some(problem) = jsonb::problem(&members) {
            return Err(unfit(found.range, problem, "build the store again without it, or export it as ndjson"));
        }
        write!(out, "{}\t{}\t{{", found.range.first(), found.range.last()).map_err(failed)?;
        put(out, &members).map_err(failed)?;
        out.write_all(b"}\n").map_err(failed)?;
        ranges += 1;
    }
    let comment = quote_literal(&comment(generation));
    writeln!(out, "\\.\nalter table {table} add primary key (start);").map_err(failed)?;
    writeln!(out, "comment on table {table} is {};", comment.trim_start()).map_err(failed)?;
    writeln!(out, "commit;\nanalyze {table};").map_err(failed)?;
    Ok(ranges)
}

fn begin(out: &mut dyn Write, table: &str, more: &str) -> io::Result<()> {
    writeln!(out, "-- IP ranges, exported by Millstream. Load it: psql -f FILE")?;
    writeln!(out, "\\set ON_ERROR_STOP on\n\\encoding UTF8\nbegin;")?;
    writeln!(out, "{};", fill!(TABLE, table, more).trim_end())?;
    writeln!(out, "copy {table} (start, \"end\", doc) from stdin;")
}

/// Writes a text as the text format of COPY wants it.
fn put(out: &mut dyn Write, text: &str) -> io::Result<()> {
    for part in text.split_inclusive(['\\', '\n', '\r', '\t']) {
        let (plain, escape) = match part.as_bytes() {
            [plain @ .., b'\\'] => (plain, "\\\\"),
            [plain @ .., b'\n'] => (plain, "\\n"),
            [plain @ .., b'\r'] => (plain, "\\r"),
            [plain @ .., b'\t'] => (plain, "\\t"),
            plain => (plain, ""),
        };
        out.write_all(plain)?;
        out.write_all(escape.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::ExportOptions;
    use super::super::tests::{exported, text};

    #[test]
    fn the_script_copies_every_range() {
        let script = text("sql", &[("1.0.0.0-1.0.129.0", "\"a\":\"\\n\\\\\",\t\"b\":\n1"), ("2001:db8::1", "")]);
        let create = "create table \"public\".\"ip_ranges\" (\n    start inet not null,";
        let (begin, rest) = script.split_once(create).unwrap();
        assert!(begin.contains("\\set ON_ERROR_STOP on\n\\encoding UTF8\nbegin;\n"), "{begin}");
        let (columns, rest) = rest.split_once("\n);\n").unwrap();
        assert!(!columns.contains('{'), "{columns}");
        let expected = "copy \"public\".\"ip_ranges\" (start, \"end\", doc) from stdin;\n\
            1.0.0.0\t1.0.129.0\t{\"a\":\"\\\\n\\\\\\\\\",\\t\"b\":\\n1}\n\
            2001:db8::1\t2001:db8::1\t{}\n\
            \\.\nalter table \"public\".\"ip_ranges\" add primary key (start);\n\
            comment on table \"public\".\"ip_ranges\" is 'IP ranges by Millstream: generation 1 of ";
        assert!(rest.starts_with(expected), "{rest}");
        assert!(rest.ends_with("';\ncommit;\nanalyze \"public\".\"ip_ranges\";\n"), "{rest}");
    }

    #[test]
    fn what_jsonb_refuses_is_named() {
        let ranges = [("1.0.0.0", "\"a\":1"), ("1.0.0.7", "\"a\":\"\\u0000\"")];
        let error = exported("sql", &ExportOptions::default(), &ranges).unwrap_err();
        assert_eq!(error.to_string(), "1.0.0.7-1.0.0.7: a string holds \\u0000, which jsonb cannot hold");
    }

    #[test]
    fn names_are_quoted_or_refused() {
        let options = |name: &str| ExportOptions { name: name.into(), ..ExportOptions::default() };
        let (script, _) = exported("sql", &options("geo.\"a\"\"b\""), &[("::1", "")]).unwrap();
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("copy \"geo\".\"a\"\"b\" (start"), "{script}");
        assert!(exported("sql", &options("a.b.c"), &[("::1", "")]).is_err());
    }
}
