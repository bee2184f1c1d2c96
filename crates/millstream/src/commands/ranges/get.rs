//! `ranges get`: prints the ranges in which addresses lie.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{ADDRESS_LINE_BYTES_MAX, ANSWERS_BYTES_MAX};
use crate::output::Output;
use crate::screen::{self, visible};
use crate::store_name::StoreName;
use millstream_ranges::input::MmdbFile;
use millstream_ranges::{AddressReading, Error, Generation, Range, braced};
use serde::Serialize;
use serde_json::value::RawValue;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::IpAddr;

const EXAMPLES: &str = "\
Examples:
  millstream ranges get cities 1.0.0.1 2001:db8::1
  millstream ranges get cities@6 1.0.0.1 --output json
  millstream ranges get GeoLite2-City.mmdb 1.0.0.1
  cut -d ' ' -f 1 access.log | millstream ranges get cities -

The output has a line for each address: the address, a tab, the first and the
last address of its range, a tab, and the members of its value as JSON. If no
range holds the address, the line is the address, a tab and -. If the input is
no address, it is the input, a tab, error: and the reason.

With --output json each line is an object with the members ip and found, and
with first, last and value, or error.

Exit code 1 if some input was no address, also if all others were found.";

/// Print the range in which each address lies, one line for each address
///
/// Standard input (-) has one address on a line. Answers are written when the input pauses, so another program
/// can ask over a pipe and wait for each answer. All answers come from the generation that the command opened,
/// even if a newer one is built meanwhile.
///
/// A MaxMind database (.mmdb) is asked without a store. It is held in memory as a whole, and the range is the network
/// that it names.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct GetArgs {
    /// Store to ask, or an .mmdb file
    #[arg(value_name = "STORE[@N]")]
    store: StoreName,

    /// Addresses to look up; - is standard input
    #[arg(value_name = "IP", required = true)]
    addresses: Vec<String>,

    /// Look up ::ffff:1.2.3.4 as 1.2.3.4
    #[arg(long)]
    unmap: bool,
}

/// An answer for programs.
#[derive(Debug, Default, Serialize)]
struct Answer<'a> {
    ip: &'a str,
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// What is asked.
enum Source {
    Store(Generation),
    Mmdb(MmdbFile),
}

impl Source {
    fn open(name: &StoreName) -> Result<Self, Failure> {
        // A store is a directory.
        if name.path.is_file() && name.generation.is_none() && MmdbFile::is_named(&name.path) {
            return Ok(Self::Mmdb(MmdbFile::open(&name.path)?));
        }
        name.open().map(Self::Store)
    }

    /// The range of an address, and its value as a JSON object.
    fn get(&self, address: IpAddr) -> Result<Option<(Range, String)>, Error> {
        match self {
            Self::Mmdb(file) => file.get(address),
            Self::Store(generation) => {
                let damaged = |problem| Error::Damaged { path: generation.path().to_owned(), problem };
                let Some(found) = generation.get(address)? else { return Ok(None) };
                Ok(Some((found.range, braced(&found.members().map_err(damaged)?))))
            }
        }
    }
}

/// Answers questions on stdout.
struct Answers<'a, W: Write> {
    source: &'a Source,
    reading: AddressReading,
    output: Output,
    out: W,
    /// Whether some input was no address.
    is_wrong: bool,
}

/// Runs the command.
pub fn run(args: &GetArgs, output: Output) -> Result<Exit, Failure> {
    let source = Source::open(&args.store)?;
    let mut answers = Answers {
        source: &source,
        reading: AddressReading { unmap: args.unmap, ..AddressReading::default() },
        output,
        out: BufWriter::with_capacity(ANSWERS_BYTES_MAX, screen::data()),
        is_wrong: false,
    };
    for address in &args.addresses {
        unless_closed(match address.as_str() {
            "-" => answers.stream(io::stdin().lock()),
            address => answers.add(address),
        })?;
    }
    unless_closed(answers.out.flush().map_err(Failure::from))?;
    Ok(if answers.is_wrong { Exit::Findings } else { Exit::Done })
}

/// Goes on if nobody reads the answers any more: what was asked still decides the exit code. Only a stream of questions
/// ends there.
fn unless_closed(answered: Result<(), Failure>) -> Result<(), Failure> {
    match answered {
        Err(failure) if failure.is_closed_pipe() => Ok(()),
        answered => answered,
    }
}

impl<W: Write> Answers<'_, W> {
    /// Answers a line for each line. Before it would wait for more input, everything that is answered is written.
    fn stream(&mut self, input: impl Read) -> Result<(), Failure> {
        let mut input = BufReader::with_capacity(ANSWERS_BYTES_MAX, input);
        let mut line = Vec::new();
        loop {
            if !input.buffer().contains(&b'\n') {
                self.out.flush()?;
            }
            let more = read_line(&mut input, &mut line);
            if !more.map_err(|error| Failure::user("cannot read standard input").because(&error))? {
                return Ok(());
            }
            self.add(&String::from_utf8_lossy(&line))?;
        }
    }

    fn add(&mut self, text: &str) -> Result<(), Failure> {
        let text = text.trim();
        match self.reading.address(text) {
            Ok(address) => match self.source.get(address)? {
                Some((range, value)) => self.found(text, range, &value),
                None => self.missed(text, None),
            },
            Err(problem) => {
                self.is_wrong = true;
                self.missed(text, Some(&problem))
            }
        }
    }

    fn found(&mut self, ip: &str, range: Range, value: &str) -> Result<(), Failure> {
        let (first, last) = (range.first(), range.last());
        // The value may be spread over lines. In JSON these characters are only ever space between words.
        let value = value.replace(|c: char| c < ' ', " ");
        if !self.output.is_json() {
            return Ok(writeln!(self.out, "{}\t{first}-{last}\t{value}", visible(ip))?);
        }
        let value = RawValue::from_string(value).map_err(|error| {
            let problem = format!("the value of {range} is not JSON");
            Failure::user(problem).because(&error).hint("see what else is wrong: millstream ranges verify STORE")
        })?;
        let (first, last, value) = (Some(first), Some(last), Some(value));
        self.object(&Answer { ip, found: true, first, last, value, error: None })
    }

    fn missed(&mut self, ip: &str, problem: Option<&str>) -> Result<(), Failure> {
        if self.output.is_json() {
            return self.object(&Answer { ip, error: problem, ..Answer::default() });
        }
        match problem {
            None => writeln!(self.out, "{}\t-", visible(ip))?,
            Some(problem) => writeln!(self.out, "{}\terror: {}", visible(ip), visible(problem))?,
        }
        Ok(())
    }

    fn object(&mut self, answer: &Answer<'_>) -> Result<(), Failure> {
        // Only writing can fail.
        serde_json::to_writer(&mut self.out, answer).map_err(io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }
}

/// Reads a line without its end. Of a long one only the beginning is kept. `false` at the end of the input.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let any = input.by_ref().take(ADDRESS_LINE_BYTES_MAX as u64).read_until(b'\n', line)? > 0;
    if line.pop_if(|last| *last == b'\n').is_none() && line.len() == ADDRESS_LINE_BYTES_MAX {
        input.skip_until(b'\n')?;
    }
    Ok(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_once_and_long_ones_are_cut() {
        let long = "1".repeat(3 * ADDRESS_LINE_BYTES_MAX);
        let text = format!("1.2.3.4\r\n\n{long}\n::1");
        for capacity in [1, 7, 100_000] {
            let mut input = BufReader::with_capacity(capacity, text.as_bytes());
            let mut lines = Vec::new();
            let mut line = Vec::new();
            while read_line(&mut input, &mut line).unwrap() {
                lines.push(String::from_utf8(line.clone()).unwrap());
            }
            assert_eq!(lines, ["1.2.3.4\r", "", &long[..ADDRESS_LINE_BYTES_MAX], "::1"]);
        }
    }
}
