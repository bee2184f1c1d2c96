//! MaxMind's database format: networks in a tree, each with a value.

use super::members::{IS_RESERVED, RESERVED, fitting, is_kept, put, unseen};
use super::{Format, Input, InputOptions, Read, Rejected, fill, refuse_columns, so_far};
use crate::error::Error;
use crate::limits::{BATCH_QUEUE, BATCH_RECORDS, MMDB_BYTES_MAX, MMDB_TEXT_BYTES, MMDB_TEXTS_BYTES};
use bytes::Bytes;
use maxminddb::{LookupResult, Reader, WithinOptions};
use millstream_input::Window;
use millstream_model::quantity;
use millstream_model::range::{AddressReading, Family, Range};
use serde_json::Value;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The format's entry in the list.
pub(super) const FORMAT: Format =
    Format { name: "mmdb", about: "MaxMind's database format; the file is held in memory", open };

/// Name of the member for a value that is not an object.
const VALUE: &str = "value";

fn open(mut window: Window, options: &InputOptions) -> Result<Box<dyn Input>, Error> {
    refuse_columns(window.name(), options)?;
    let reader = reader(&mut window, options.mmdb_bytes_max)?;
    let (sender, messages) = sync_channel(BATCH_QUEUE);
    let keep = options.keep.clone();
    let decoder = Decoder { seen: vec![false; keep.len()], keep, reading: options.reading };
    // The iterator borrows the reader, so both stay on a thread of their own.
    std::thread::Builder::new()
        .name("mmdb".into())
        .spawn(move || send_networks(&reader, decoder, &sender))
        .map_err(Error::file("start a thread to read", Path::new(window.name())))?;
    Ok(Box::new(Mmdb {
        name: window.name().to_owned(),
        progress: so_far(&window),
        messages,
        networks: Vec::new().into_iter(),
        number: 0,
        has_ended: false,
        unseen: Vec::new(),
    }))
}

/// A reader of all that is left.
fn reader(window: &mut Window, bytes_max: usize) -> Result<Reader<Bytes>, Error> {
    Reader::from_source(rest(window, bytes_max)?).map_err(|error| Error::Input {
        name: window.name().to_owned(),
        problem: format!("it cannot be read as a MaxMind database: {error}"),
    })
}

/// All that is left.
fn rest(window: &mut Window, bytes_max: usize) -> Result<Bytes, Error> {
    let mut all: Vec<u8> = Vec::new();
    loop {
        // The beginning was read before, to recognise the format.
        let read = window.take(window.bytes().len());
        if read.len() > bytes_max - all.len() {
            return Err(too_large(window.name(), bytes_max));
        }
        if all.try_reserve(read.len()).is_err() {
            let problem = "it is held in memory, and there is too little".into();
            return Err(Error::Input { name: window.name().to_owned(), problem });
        }
        all.extend_from_slice(&read);
        if !fill(window)? {
            return Ok(all.into());
        }
    }
}

#[cold]
fn too_large(name: &str, bytes_max: usize) -> Error {
    let most = quantity::bytes(bytes_max as u64);
    let problem = format!("{name} is read as a MaxMind database, into memory, and has more than {most}");
    let hint = "if it is one, millstream ranges build takes more with --mmdb-max; if not, say what it is with --format";
    Error::refused(problem, hint)
}

/// A MaxMind database in memory, for look-ups without a store.
#[derive(Debug)]
pub struct MmdbFile {
    name: String,
    reader: Reader<Bytes>,
}

impl MmdbFile {
    /// Reads a file into memory. Gzip and zstd are recognised by their first bytes.
    ///
    /// # Errors
    /// The file cannot be read, has more than [`MMDB_BYTES_MAX`], or is no MaxMind database.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut window = super::window(path)?;
        Ok(Self { reader: reader(&mut window, MMDB_BYTES_MAX)?, name: window.name().to_owned() })
    }

    /// Whether the name of a file says that it is such a database.
    pub fn is_named(path: &Path) -> bool {
        super::named(&path.to_string_lossy()).is_some_and(|format| format.name == FORMAT.name)
    }

    /// The network in which an address lies, and its value as a JSON object. A value that is not an object is the member
    /// `value` of one. `None`: the file says nothing about the address.
    ///
    /// # Errors
    /// The file is damaged, or has a value that JSON cannot hold.
    pub fn get(&self, address: IpAddr) -> Result<Option<(Range, String)>, Error> {
        let failed = |problem: String| Error::Input { name: self.name.clone(), problem };
        if address.is_ipv6() && self.reader.metadata().ip_version == 4 {
            return Ok(None);
        }
        let found = self.reader.lookup(address).map_err(|error| failed(error.to_string()))?;
        let Some(value) = found.decode::<Value>().map_err(|error| failed(format!("{address}: {error}")))? else {
            return Ok(None);
        };
        let network = found.network().map_err(|error| failed(error.to_string()))?;
        let range = Range::of_prefix(network.ip(), network.prefix().into()).map_err(failed)?;
        let value = if value.is_object() { value } else { serde_json::json!({ VALUE: value }) };
        Ok(Some((range, value.to_string())))
    }
}

/// What the thread sends.
enum Message {
    Networks(Vec<Network>),
    /// The file cannot be read on.
    Failed(String),
    /// There are no more. Members to keep that no value has. A thread that panics does not send it.
    End(Vec<String>),
}

/// A network of the tree.
struct Network {
    range: Result<Range, Rejected>,
    /// Most networks share their value with others.
    members: Arc<str>,
}

/// Makes ranges and members.
struct Decoder {
    keep: Vec<String>,
    /// Which of them were there.
    seen: Vec<bool>,
    reading: AddressReading,
}

fn send_networks(reader: &Reader<Bytes>, mut decoder: Decoder, sender: &SyncSender<Message>) {
    let last = match send_batches(reader, &mut decoder, sender) {
        Ok(()) => Message::End(unseen(&decoder.keep, &decoder.seen)),
        Err(problem) => Message::Failed(problem),
    };
    // Nobody receives any more if the build has failed.
    let _ = sender.send(last);
}

fn send_batches(reader: &Reader<Bytes>, decoder: &mut Decoder, sender: &SyncSender<Message>) -> Result<(), String> {
    let networks = reader.networks(WithinOptions::default()).map_err(|error| error.to_string())?;
    // By place in the file.
    let mut texts: HashMap<usize, Result<Arc<str>, String>> = HashMap::new();
    let (mut texts_bytes, mut batch, mut batch_bytes) = (0, Vec::new(), 0);
    for found in networks {
        let found = found.map_err(|error| error.to_string())?;
        let Some(offset) = found.offset() else { continue };
        let text = match texts.get(&offset) {
            Some(text) => text.clone(),
            None => {
                let text = decoder.members(&found);
                let bytes = text.as_ref().map_or(0, |text| text.len()) + MMDB_TEXT_BYTES;
                batch_bytes += bytes;
                texts_bytes += bytes;
                if texts_bytes > MMDB_TEXTS_BYTES {
                    texts.clear();
                    texts_bytes = bytes;
                }
                texts.insert(offset, text.clone());
                text
            }
        };
        batch.push(decoder.network(&found, text)?);
        if batch.len() >= BATCH_RECORDS || batch_bytes > MMDB_TEXTS_BYTES {
            if sender.send(Message::Networks(std::mem::take(&mut batch))).is_err() {
                return Ok(());
            }
            batch_bytes = 0;
        }
    }
    // An error here is an error of the message after it.
    let _ = sender.send(Message::Networks(batch));
    Ok(())
}

impl Decoder {
    /// A network, given its members or what is wrong with them.
    fn network(&self, found: &LookupResult<'_, Bytes>, text: Result<Arc<str>, String>) -> Result<Network, String> {
        let network = found.network().map_err(|error| error.to_string())?;
        let fitted = text.and_then(|members| {
            let range = if self.reading.unmap && Family::of(network.ip()) == Family::V6 {
                Range::parse(&network.to_string(), self.reading)
            } else {
                Range::of_prefix(network.ip(), network.prefix().into())
            };
            Ok((fitting(range?, &members)?, members))
        });
        Ok(match fitted {
            Ok((range, members)) => Network { range: Ok(range), members },
            Err(reason) => {
                Network { range: Err(Rejected { reason, text: network.to_string() }), members: Arc::default() }
            }
        })
    }

    /// The members of a value.
    fn members(&mut self, found: &LookupResult<'_, Bytes>) -> Result<Arc<str>, String> {
        let value: Option<Value> = found.decode().map_err(|error| error.to_string())?;
        let mut members = String::new();
        let mut keep = |name: &str, value: &Value| {
            if is_kept(&self.keep, name, &mut self.seen) == Some(false) {
                return Ok(());
            }
            if name == RESERVED {
                return Err(IS_RESERVED.to_owned());
            }
            put(&Value::from(name).to_string(), &value.to_string(), &mut members);
            Ok(())
        };
        match &value {
            Some(Value::Object(object)) => object.iter().try_for_each(|(name, value)| keep(name, value))?,
            Some(value) => keep(VALUE, value)?,
            None => {}
        }
        Ok(members.into())
    }
}

/// Networks of a file, in order.
struct Mmdb {
    name: String,
    progress: (u64, Option<u64>),
    messages: Receiver<Message>,
    networks: std::vec::IntoIter<Network>,
    /// Networks read.
    number: u64,
    has_ended: bool,
    /// After the end: members to keep that no value has.
    unseen: Vec<String>,
}

impl Mmdb {
    /// The next network, `None` at the end.
    fn network(&mut self) -> Result<Option<Network>, Error> {
        loop {
            if let Some(network) = self.networks.next() {
                return Ok(Some(network));
            }
            if self.has_ended {
                return Ok(None);
            }
            let problem = match self.messages.recv() {
                Ok(Message::Networks(networks)) => {
                    self.networks = networks.into_iter();
                    continue;
                }
                Ok(Message::End(unseen)) => {
                    (self.has_ended, self.unseen) = (true, unseen);
                    continue;
                }
                Ok(Message::Failed(problem)) => problem,
                Err(_) => "its reader stopped".into(),
            };
            return Err(Error::Input { name: self.name.clone(), problem });
        }
    }
}

impl Input for Mmdb {
    fn next(&mut self, members: &mut String) -> Result<Option<Read>, Error> {
        members.clear();
        let Some(network) = self.network()? else { return Ok(None) };
        members.push_str(&network.members);
        self.number += 1;
        Ok(Some(Read { line: self.number, range: network.range }))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.progress
    }

    fn unseen(&self) -> Vec<String> {
        self.unseen.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::{read, read_named};
    use super::*;
    use crate::limits::VALUE_BYTES_MAX;
    use millstream_pg::Explained as _;
    use millstream_testkit::gzip;
    use mmdb_writer::ipnet::IpNet;
    use mmdb_writer::{IpVersion, Value as Stored, Writer};

    fn file(version: IpVersion, networks: &[(&str, Stored)]) -> Vec<u8> {
        let mut writer = Writer::builder("Test").ip_version(version).build();
        for (network, value) in networks {
            writer.insert_value(network.parse::<IpNet>().unwrap(), value.clone()).unwrap();
        }
        writer.to_bytes().unwrap()
    }

    fn country(code: &str) -> Stored {
        let country = Stored::map([("iso_code", Stored::from(code)), ("names", Stored::map([("en", "Land")]))]);
        Stored::map([("country", country), ("asn", Stored::from(64_512_u32))])
    }

    fn lines(content: &[u8], keep: &[&str]) -> Vec<String> {
        let keep = keep.iter().copied().map(str::to_owned).collect();
        read("mmdb", content, &InputOptions { keep, ..InputOptions::default() }).unwrap()
    }

    #[test]
    fn networks_of_both_families_come_out_once_with_their_values() {
        let content = file(
            IpVersion::V6,
            &[
                ("1.0.0.0/24", country("AU")),
                ("1.0.2.0/23", country("CN")),
                ("1.0.3.0/24", country("AU")),
                ("2001:db8::/32", country("FR")),
                ("::5/128", Stored::from("five")),
            ],
        );
        let members =
            |code: &str| format!("\"asn\":64512,\"country\":{{\"iso_code\":\"{code}\",\"names\":{{\"en\":\"Land\"}}}}");
        let expected = [
            "1 0.0.0.5-0.0.0.5 \"value\":\"five\"".to_owned(),
            format!("2 1.0.0.0-1.0.0.255 {}", members("AU")),
            format!("3 1.0.2.0-1.0.2.255 {}", members("CN")),
            format!("4 1.0.3.0-1.0.3.255 {}", members("AU")),
            format!("5 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff {}", members("FR")),
        ];
        assert_eq!(lines(&content, &[]), expected);
        assert_eq!(read_named("a.mmdb.gz", &gzip(&content), &InputOptions::default()).unwrap(), expected);
        assert_eq!(read_named("recognised", &content, &InputOptions::default()).unwrap(), expected);
        assert_eq!(lines(&content, &["asn"])[1], "2 1.0.0.0-1.0.0.255 \"asn\":64512");
        assert_eq!(lines(&content, &["asn"])[0], "1 0.0.0.5-0.0.0.5 ");
    }

    #[test]
    fn members_to_keep_that_no_value_has_are_known_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mmdb");
        std::fs::write(&path, file(IpVersion::V4, &[("1.0.0.0/24", country("AU"))])).unwrap();
        let keep = vec!["asn".into(), "ans".into()];
        let mut input = super::super::open(&path, &InputOptions { keep, ..InputOptions::default() }).unwrap();
        while input.next(&mut String::new()).unwrap().is_some() {}
        assert_eq!(input.unseen(), ["ans"]);
    }

    #[test]
    fn addresses_are_looked_up_in_the_file_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.MMDB.gz");
        let v6 = file(IpVersion::V6, &[("1.0.0.0/24", country("AU")), ("2001:db8::/32", Stored::from("five"))]);
        std::fs::write(&path, gzip(&v6)).unwrap();
        assert!(MmdbFile::is_named(&path) && !MmdbFile::is_named(folder.path()));
        let opened = MmdbFile::open(&path).unwrap();
        let get = |opened: &MmdbFile, address: &str| {
            let found = opened.get(address.parse().unwrap()).unwrap();
            found.map(|(range, value)| format!("{range} {value}"))
        };
        let au = "1.0.0.0-1.0.0.255 {\"asn\":64512,\"country\":{\"iso_code\":\"AU\",\"names\":{\"en\":\"Land\"}}}";
        assert_eq!(get(&opened, "1.0.0.7").as_deref(), Some(au));
        let five = "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff {\"value\":\"five\"}";
        assert_eq!(get(&opened, "2001:db8::7").as_deref(), Some(five));
        assert_eq!((get(&opened, "1.0.1.0"), get(&opened, "2001:db9::")), (None, None));
        std::fs::write(&path, file(IpVersion::V4, &[("1.0.0.0/24", country("AU"))])).unwrap();
        let opened = MmdbFile::open(&path).unwrap();
        assert_eq!((get(&opened, "1.0.0.7").as_deref(), get(&opened, "::1")), (Some(au), None));
        std::fs::write(&path, "ip\n").unwrap();
        assert!(MmdbFile::open(&path).unwrap_err().to_string().contains("it cannot be read as a MaxMind database"));
    }

    #[test]
    fn a_file_of_ipv4_alone_is_read() {
        let content = file(IpVersion::V4, &[("1.0.0.0/24", country("AU")), ("128.0.0.0/1", Stored::from(7_u32))]);
        assert_eq!(
            lines(&content, &["asn", "value"]),
            ["1 1.0.0.0-1.0.0.255 \"asn\":64512", "2 128.0.0.0-255.255.255.255 \"value\":7"]
        );
        assert!(lines(&file(IpVersion::V4, &[]), &[]).is_empty());
    }

    #[test]
    fn more_networks_than_a_batch_holds_come_out_in_order() {
        let mut writer = Writer::builder("Test").ip_version(IpVersion::V4).build();
        let count = u32::try_from(3 * BATCH_RECORDS + 1).unwrap();
        for number in 0..count {
            let network = IpNet::new(std::net::Ipv4Addr::from_bits(number << 8).into(), 24).unwrap();
            writer.insert_value(network, Stored::map([("n", number)])).unwrap();
        }
        let lines = lines(&writer.to_bytes().unwrap(), &[]);
        assert_eq!(lines.len(), 3 * BATCH_RECORDS + 1);
        for (number, line) in (0..).zip(&lines) {
            let range = Range { family: Family::V4, start: number << 8, end: number << 8 | 0xff };
            assert_eq!(*line, format!("{} {range} \"n\":{number}", number + 1));
        }
    }

    #[test]
    fn values_that_cannot_be_stored_are_rejects() {
        let long = "v".repeat(VALUE_BYTES_MAX);
        let content = file(
            IpVersion::V4,
            &[
                ("1.0.0.0/24", Stored::map([("end", Stored::from("x")), ("cc", Stored::from("AU"))])),
                ("1.0.1.0/24", Stored::map([("a", Stored::from(long))])),
                ("1.0.2.0/24", Stored::map([("a", Stored::from(u128::MAX))])),
                ("1.0.3.0/24", Stored::map([("a", Stored::from(u64::MAX))])),
            ],
        );
        let all = lines(&content, &[]);
        assert_eq!(all[0], "1 ! the member \"end\" is the store's own | 1.0.0.0/24");
        assert!(all[1].starts_with("2 ! its value would have ") && all[1].ends_with(" | 1.0.1.0/24"), "{}", all[1]);
        assert!(all[2].starts_with("3 ! ") && all[2].ends_with(" | 1.0.2.0/24"), "{}", all[2]);
        assert_eq!(all[3], "4 1.0.3.0-1.0.3.255 \"a\":18446744073709551615");
        assert_eq!(lines(&content, &["cc"])[0], "1 1.0.0.0-1.0.0.255 \"cc\":\"AU\"");
    }

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let content = file(IpVersion::V4, &[("1.0.0.0/24", country("AU"))]);
        let limited = |mmdb_bytes_max| read("mmdb", &content, &InputOptions { mmdb_bytes_max, ..Default::default() });
        assert_eq!(limited(content.len()).unwrap().len(), 1);
        for too_few in [0, 1, content.len() - 1] {
            let error = limited(too_few).unwrap_err();
            let most = quantity::bytes(too_few as u64);
            let says = format!("is read as a MaxMind database, into memory, and has more than {most}");
            assert!(error.to_string().ends_with(&says), "{error}");
            let hint = "if it is one, millstream ranges build takes more with --mmdb-max; if not, say what it is with \
                        --format";
            assert_eq!(error.hint().as_deref(), Some(hint));
        }
        // What is no text is taken for such a file, whether it ends or not.
        let options = InputOptions { mmdb_bytes_max: 2 << 20, ..InputOptions::default() };
        let zeros = read_named("zeros.gz", &gzip(&vec![0; 3 << 20]), &options).map(|_| ());
        for opened in [zeros, super::super::open(Path::new("/dev/zero"), &options).map(|_| ())] {
            let error = opened.unwrap_err().to_string();
            assert!(
                error.ends_with("is read as a MaxMind database, into memory, and has more than 2.0 MiB"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_is_none_or_is_damaged_is_an_error() {
        let content = file(IpVersion::V4, &[("1.0.0.0/24", country("AU"))]);
        for damaged in [&b""[..], b"text", &content[..content.len() / 2]] {
            let error = read("mmdb", damaged, &InputOptions::default()).unwrap_err();
            assert!(error.to_string().contains("it cannot be read as a MaxMind database"), "{error}");
        }
        // A tree that points to itself.
        let mut damaged = content.clone();
        damaged[..6].fill(0);
        let error = read("mmdb", &damaged, &InputOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Input { .. }), "{error}");
    }
}
