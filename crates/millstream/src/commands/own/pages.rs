//! `self man`: the manual pages, one for each command, for whoever makes packages.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use millstream_host::{make_folder, write_target};
use serde_json::json;
use std::io;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example:
  millstream self man man1";

/// Write the manual pages into a directory
///
/// A page says what `--help` says. Packages install the pages.
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = EXAMPLES)]
pub struct PagesArgs {
    /// The directory; it is made if it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// A page.
struct Page {
    /// The name of its file.
    name: String,
    text: String,
}

/// Runs the command.
pub fn run(args: &PagesArgs, output: Output, mut definition: clap::Command) -> Result<Exit, Failure> {
    definition.build();
    let mut pages = Vec::new();
    collect(&definition, &mut pages).map_err(|error| Failure::bug("a manual page cannot be made").because(&error))?;
    make_folder(&args.folder).map_err(Failure::cannot("make", &args.folder))?;
    for page in &pages {
        let path = args.folder.join(&page.name);
        write_target(&path, &page.text).map_err(Failure::cannot("write", &path))?;
    }
    let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    let text = format!("{} manual pages in {}", names.len(), args.folder.display());
    output.print(&json!({ "folder": args.folder, "pages": names }), &text)?;
    Ok(Exit::Done)
}

/// Adds the pages of a command and of those below it, without those that the help hides.
fn collect(command: &clap::Command, pages: &mut Vec<Page>) -> io::Result<()> {
    pages.push(page(command)?);
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| collect(sub, pages))
}

fn page(command: &clap::Command) -> io::Result<Page> {
    let source = concat!("millstream ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Millstream");
    let mut bytes = Vec::new();
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    man.render_synopsis_section(&mut bytes)?;
    man.render_description_section(&mut bytes)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut bytes)?;
    }
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut bytes)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    after_help(&after).to_writer(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    Ok(Page { name: man.get_filename(), text })
}

/// The end of a help: what stands below a line such as `Examples:` keeps its lines, the rest are notes.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut has_notes = false;
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        match block.split_once('\n').filter(|(first, rest)| first.ends_with(':') && rest.starts_with("  ")) {
            Some((heading, lines)) => {
                roff.control("SH", [heading.trim_end_matches(':').to_uppercase().as_str()]);
                roff.control("nf", []);
                for line in lines.lines() {
                    roff.text([roman(line)]);
                }
                roff.control("fi", []);
                has_notes = false;
            }
            None => {
                if has_notes {
                    roff.control("PP", []);
                } else {
                    roff.control("SH", ["NOTES"]);
                }
                roff.text([roman(block)]);
                has_notes = true;
            }
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::Args;
    use clap::CommandFactory;

    fn all() -> Vec<Page> {
        let mut root = Args::command();
        root.build();
        let mut pages = Vec::new();
        collect(&root, &mut pages).unwrap();
        pages
    }

    #[test]
    fn every_command_that_is_shown_has_a_page() {
        let pages = all();
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        for name in ["millstream.1", "millstream-load.1", "millstream-doctor-fix.1", "millstream-self-check.1"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert!(!names.contains(&"millstream-self-man.1"), "hidden commands have none");
        for Page { name, text } in &pages {
            let title = name.trim_end_matches(".1").replace('-', "\\-");
            assert!(text.contains(&format!(".SH NAME\n{title} \\- ")), "{name}: {text}");
        }
    }

    #[test]
    fn examples_keep_their_lines_and_notes_are_filled() {
        let roff = after_help("Examples:\n  one --two\n  .three\n\nA note\nof two lines.\n\nAnother one.").to_roff();
        let expected = ".SH EXAMPLES\n.nf\n  one \\-\\-two\n  .three\n.fi\n.SH NOTES\nA note\nof two lines.\n.PP\n\
                        Another one.\n";
        assert_eq!(roff, expected);
    }
}
