//! `ranges export`: writes a store for other programs, or fills a table of PostgreSQL with it.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::{count, things};
use crate::screen::{self, visible};
use crate::store_name::StoreName;
use crate::target::{self, Purpose};
use clap::builder::{PossibleValue, PossibleValuesParser};
use millstream_host::{TargetFile, shell_word};
use millstream_model::CollectionName;
use millstream_pg::{SessionSettings, quote_identifier, quote_literal, quote_name};
use millstream_ranges::Generation;
use millstream_ranges::export::{EXPORTS, ExportOptions, TableOptions, export, lateral, to_table};
use millstream_store::trusted_owners;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  millstream ranges export cities --to csv > cities.csv
  millstream ranges export cities --to csv --cidr networks.csv
  millstream ranges export cities@6 --to mmdb cities.mmdb
  millstream ranges export blocked --to nftables --into blocked | nft -f -
  millstream ranges export cities --to table --into geo.cities";

/// The form that is not a file.
const TABLE: &str = "table";

/// The form that is not text.
const BINARY: &str = "mmdb";

/// An option, the forms for which it means something, and whether it is given.
type FormOption = (&'static str, &'static [&'static str], fn(&ExportArgs) -> bool);

/// Options that mean something for some forms only.
const OPTIONS: &[FormOption] = &[
    ("--into", &[BINARY, "nftables", "sql", TABLE], |args| args.into.is_some()),
    ("--cidr", &["csv"], |args| args.cidr),
    ("--without-ipv4-space", &[BINARY], |args| args.without_ipv4_space),
    ("--ip4r", &[TABLE], |args| args.ip4r),
    ("--no-function", &[TABLE], |args| args.no_function),
    ("--db", &[TABLE], |args| args.target.db.is_some()),
];

/// Write a store in a format of other programs, or into a table of PostgreSQL
///
/// The table has the columns start, "end" and doc, one for each member that has a type, and a B-tree on start. Millstream fills a new table, which
/// replaces the table of this name if Millstream made that one, too. Readers wait only while the two change places.
/// The function range_of(TABLE, IP) finds the range of an address; it is in the schema of Millstream's own tables.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Store to export
    #[arg(value_name = "STORE[@N]")]
    store: StoreName,

    /// File to write, which is replaced when it is complete [default: standard output]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// What to write
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    to: String,

    /// Name of the table for table, sql and nftables, or of the type of database for mmdb [default: ip_ranges]
    #[arg(long, value_name = "[SCHEMA.]NAME", required_if_eq("to", TABLE))]
    into: Option<String>,

    /// For csv: write networks (10.0.0.0/8) in a column network, several lines for a range that is no network
    #[arg(long)]
    cidr: bool,

    /// For mmdb: leave out IPv6 addresses in ::/96, where such a file keeps IPv4
    #[arg(long)]
    without_ipv4_space: bool,

    /// For table: add a column of the type iprange with a GiST index; the extension ip4r must be installed
    #[arg(long)]
    ip4r: bool,

    /// For table: do not make the function range_of
    #[arg(long)]
    no_function: bool,

    #[command(flatten)]
    target: TargetArgs,
}

fn formats() -> PossibleValuesParser {
    let files = EXPORTS.iter().map(|export| {
        let needs = if export.needs.is_empty() { String::new() } else { format!("; {}", export.needs) };
        PossibleValue::new(export.name).help(format!("{}{needs}", export.about))
    });
    let table = PossibleValue::new(TABLE).help("a table of PostgreSQL: start, \"end\", doc");
    files.chain([table]).collect::<Vec<_>>().into()
}

/// Runs the command.
pub async fn run(args: &ExportArgs, output: Output) -> Result<Exit, Failure> {
    refuse(args)?;
    if args.to == TABLE {
        return fill(args, output).await;
    }
    let generation = args.store.open()?;
    let Some(path) = args.file.as_deref().filter(|path| *path != Path::new("-")) else {
        if args.to == BINARY && screen::stdout_columns().is_some() {
            return Err(Failure::user("a terminal cannot show an .mmdb file")
                .hint(format!("name a file: millstream ranges export {} --to mmdb FILE", shell_word(&args.store))));
        }
        let mut stdout = screen::data();
        write(args, &generation, &mut stdout)?;
        stdout.flush()?;
        return Ok(Exit::Done);
    };
    let ranges = replace(path, |file| write(args, &generation, file))?;
    let written = json!({ "file": path.display().to_string(), "ranges": ranges });
    output.print(&written, &visible(&format!("{} in {}", things(ranges, "range"), path.display())))?;
    Ok(Exit::Done)
}

/// Refuses options that mean nothing for the form.
fn refuse(args: &ExportArgs) -> Result<(), Failure> {
    let files: Vec<&str> = EXPORTS.iter().map(|export| export.name).collect();
    let is_unfit = |forms: &[&str]| !forms.contains(&args.to.as_str());
    let unfit = OPTIONS.iter().find(|(_, forms, given)| given(args) && is_unfit(forms));
    let unfit = match unfit {
        Some((option, forms, _)) => Some((*option, forms.to_vec())),
        None => (args.file.is_some() && is_unfit(&files)).then_some(("FILE", files)),
    };
    let Some((option, forms)) = unfit else { return Ok(()) };
    Err(Failure::user(format!("--to {} takes no {option}", args.to))
        .hint(format!("leave it out; it is for --to {}", forms.join(", --to "))))
}

fn write(args: &ExportArgs, generation: &Generation, out: &mut dyn Write) -> Result<u64, Failure> {
    let (without_ipv4_space, cidr) = (args.without_ipv4_space, args.cidr);
    let mut options = ExportOptions { without_ipv4_space, cidr, ..ExportOptions::default() };
    if let Some(name) = &args.into {
        options.name.clone_from(name);
    }
    Ok(export(generation, &args.to, out, &options)?)
}

/// Writes the file that is named. If that fails, what was there stays.
fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<u64, Failure>) -> Result<u64, Failure> {
    let failed = Failure::cannot("write", path);
    let mut file = TargetFile::create(path).map_err(&failed)?;
    let ranges = write(&mut file).map_err(|failure| failure.at(path.display().to_string()))?;
    file.finish().map_err(failed)?;
    Ok(ranges)
}

/// Fills a table of PostgreSQL.
async fn fill(args: &ExportArgs, output: Output) -> Result<Exit, Failure> {
    let name = args.into.as_deref().unwrap_or_default();
    let table = name
        .parse::<CollectionName>()
        .map_err(|error| Failure::of(&error).hint("name the table as NAME or SCHEMA.NAME"))?;
    let generation = args.store.open()?;
    let db = target::resolve(&args.target, Purpose::Work).await?;
    let session = SessionSettings::named("millstream ranges");
    let connection = millstream_pg::connect(&db, &session).await?;
    let schema = target::schema(&args.target);
    if !args.no_function {
        schema.require_trusted(&connection.client).await?;
    }
    let function = (!args.no_function).then(|| schema.name().to_owned());
    let owners = trusted_owners(&connection.client, &schema).await?;
    let options = TableOptions { ip4r: args.ip4r, function: function.clone(), owners };
    let rows = Box::pin(to_table(&connection.client, &generation, &table, &options)).await?;
    let question = function.map(|schema| {
        let table = quote_literal(&quote_name(&table));
        format!("select * from {}.range_of({}, '192.0.2.1')", quote_identifier(&schema), table.trim_start())
    });
    let many = lateral(&table);
    let mut text = format!("{table}: {} rows\n", count(rows));
    if let Some(question) = &question {
        text += &format!("\nthe range of an address:\n\n{question};\n");
    }
    text += &format!("\nthe ranges of a table with a column ip:\n\n{};", many.trim_end());
    let made = json!({ "table": table.to_string(), "rows": rows, "function": question, "lateral": many });
    output.print(&made, &text)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_formats_that_exist() {
        let known = |form: &str| form == TABLE || EXPORTS.iter().any(|export| export.name == form);
        assert!(OPTIONS.iter().flat_map(|(_, forms, _)| *forms).all(|form| known(form)));
    }

    #[test]
    fn an_export_that_fails_leaves_the_file_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let put = |text: &'static str, fails: bool| {
            replace(&path, |out| {
                out.write_all(text.as_bytes())?;
                if fails { Err(Failure::user("no more")) } else { Ok(1) }
            })
        };
        put("old", false).unwrap();
        assert!(put("new", true).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        put("newer", false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "newer");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
