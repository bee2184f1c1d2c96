//! A small server of objects that speaks as S3 does, and fails as real ones do.

use crate::until_blocking;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The only bucket.
const BUCKET: &str = "bucket";

/// Keys that a page of a listing has, unless a test says otherwise.
const PAGE_KEYS: usize = 1000;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// GET or HEAD.
    pub method: String,
    /// The key, decoded; empty for a listing.
    pub key: String,
    /// The first byte that is asked for, and the one behind the last.
    pub range: Option<(u64, u64)>,
    /// The tag that is demanded.
    pub if_match: Option<String>,
    /// The names of all headers, in lower case.
    pub headers: Vec<String>,
    /// What follows the path.
    pub query: String,
    /// How many requests for this key came before.
    pub before: usize,
}

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// As it should be.
    Whole,
    /// With this status, and this code of an error.
    Status(u16, &'static str),
    /// With so many bytes of the body. Then the connection ends.
    Cut(usize),
    /// With so many bytes of the body. Then another object of the same size takes its place, and the connection ends.
    CutAndReplaced(usize),
    /// Not at all: the connection ends.
    Closed,
    /// After this time.
    Late(Duration),
    /// As by a server that does not know If-Match.
    AnyVersion,
    /// As by a server that does not know ranges.
    NoRanges,
    /// As by a server whose tags may be those of several versions.
    WeakTag,
    /// With another address.
    Moved(&'static str),
}

type Answers = Box<dyn FnMut(&Asked) -> Answer + Send>;

#[derive(Default)]
struct Held {
    /// Objects by their keys, each with the number of its version.
    objects: BTreeMap<String, (Arc<Vec<u8>>, u64)>,
    versions: u64,
    asked: Vec<Asked>,
    times: HashMap<String, usize>,
    answers: Option<Answers>,
    page_keys: usize,
}

struct Shared {
    held: Mutex<Held>,
    closing: AtomicBool,
    /// Connections that were accepted and have not ended.
    open: AtomicUsize,
}

/// A server of one bucket on a port of 127.0.0.1. It ends when dropped.
pub struct Bucket {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Bucket {
    /// Starts an empty one.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let held = Mutex::new(Held { page_keys: PAGE_KEYS, ..Held::default() });
        let shared = Arc::new(Shared { held, closing: AtomicBool::new(false), open: AtomicUsize::new(0) });
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if served.closing.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(connection), served) = (connection, Arc::clone(&served)) else { continue };
                served.open.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    // A client that goes away ends it.
                    let _ = serve(&connection, &served);
                    served.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, shared }
    }

    /// Puts an object, or replaces it.
    pub fn put(&self, key: &str, content: impl Into<Vec<u8>>) {
        self.shared.put(key, content.into());
    }

    /// Deletes an object.
    pub fn delete(&self, key: &str) {
        self.held().objects.remove(key);
    }

    /// Decides from now on how requests are answered.
    pub fn answers(&self, answers: impl FnMut(&Asked) -> Answer + Send + 'static) {
        self.held().answers = Some(Box::new(answers));
    }

    /// Waits until all requests of clients that have ended are noted, also of those that were killed.
    ///
    /// # Panics
    /// If a client does not end in two minutes.
    pub fn until_alone(&self) {
        // Connections are accepted in their order.
        let mut last = TcpStream::connect(self.address).expect("it listens");
        last.write_all(b"HEAD / HTTP/1.1\r\n\r\n").expect("it reads");
        last.read_exact(&mut [0]).expect("it answers");
        drop(last);
        until_blocking("no client is connected", || self.shared.open.load(Ordering::Relaxed) == 0);
    }

    /// Answers as it should be from now on, and forgets what was asked.
    pub fn calm(&self) {
        let mut held = self.held();
        (held.answers, held.asked, held.times) = (None, Vec::new(), HashMap::new());
    }

    /// Has so many keys on a page of a listing.
    pub fn set_page_keys(&self, keys: usize) {
        self.held().page_keys = keys;
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.held().asked.clone()
    }

    /// The address of an object in S3's way.
    pub fn s3(key: &str) -> String {
        format!("s3://{BUCKET}/{key}")
    }

    /// The address of an object for programs that know no S3.
    pub fn web(&self, key: &str) -> String {
        format!("http://{}/{BUCKET}/{key}", self.address)
    }

    /// The environment of a program that reads [`Bucket::s3`]. The secret is `hush-hush`.
    pub fn environment(&self) -> [(&'static str, String); 7] {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ACCESS_KEY_ID", "hush-id".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "hush-hush".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_CONFIG_FILE", "/dev/null".to_owned()),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null".to_owned()),
            ("NO_PROXY", "127.0.0.1".to_owned()),
        ]
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.shared.held()
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        // It waits for a connection. If there is none to be had, it has ended.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn put(&self, key: &str, content: Vec<u8>) {
        let mut held = self.held();
        held.versions += 1;
        let version = held.versions;
        held.objects.insert(key.to_owned(), (Arc::new(content), version));
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers the requests of a connection until it ends.
fn serve(connection: &TcpStream, shared: &Shared) -> io::Result<()> {
    let (mut from, mut to) = (BufReader::new(connection.try_clone()?), connection.try_clone()?);
    while let Some(mut asked) = read(&mut from)? {
        let (answer, object) = {
            let mut held = shared.held();
            let times = held.times.entry(asked.key.clone()).or_default();
            (asked.before, *times) = (*times, *times + 1);
            held.asked.push(asked.clone());
            let answer = held.answers.as_mut().map_or(Answer::Whole, |answers| answers(&asked));
            (answer, held.objects.get(&asked.key).cloned())
        };
        match answer {
            Answer::Closed => break,
            Answer::Late(time) => std::thread::sleep(time),
            Answer::Status(status, code) => {
                fail(&mut to, &asked, status, code)?;
                continue;
            }
            Answer::Moved(address) => {
                send(&mut to, &asked, 307, &[("Location", address.to_owned())], &[], 0)?;
                continue;
            }
            _ => {}
        }
        if asked.key.is_empty() {
            let listing = listing(&shared.held(), &asked.query);
            send(&mut to, &asked, 200, &[], listing.as_bytes(), usize::MAX)?;
            continue;
        }
        let Some((content, version)) = object else {
            fail(&mut to, &asked, 404, "NoSuchKey")?;
            continue;
        };
        let tag = format!("{}\"v{version}\"", if answer == Answer::WeakTag { "W/" } else { "" });
        let differs = asked.if_match.as_ref().is_some_and(|wanted| *wanted != tag);
        if differs && answer != Answer::AnyVersion {
            fail(&mut to, &asked, 412, "PreconditionFailed")?;
            continue;
        }
        let size = content.len() as u64;
        let range = asked.range.filter(|_| answer != Answer::NoRanges);
        let (start, end) = range.map_or((0, size), |(start, end)| (start, end.min(size)));
        if range.is_some() && start >= end {
            fail(&mut to, &asked, 416, "InvalidRange")?;
            continue;
        }
        let mut headers = vec![("ETag", tag), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT".to_owned())];
        if range.is_some() {
            headers.push(("Content-Range", format!("bytes {start}-{}/{size}", end - 1)));
        }
        let at = |offset: u64| usize::try_from(offset).expect("objects are in memory");
        let body = &content[at(start)..at(end)];
        let sent = match answer {
            Answer::Cut(bytes) | Answer::CutAndReplaced(bytes) => bytes,
            _ => usize::MAX,
        };
        send(&mut to, &asked, if range.is_some() { 206 } else { 200 }, &headers, body, sent)?;
        if let Answer::CutAndReplaced(_) = answer {
            shared.put(&asked.key, content.iter().map(|byte| !byte).collect());
        }
        if sent < body.len() {
            break;
        }
    }
    connection.shutdown(std::net::Shutdown::Both)
}

/// The next request of a connection; `None` at its end.
fn read(from: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = path.trim_start_matches('/').strip_prefix(BUCKET).unwrap_or_default();
    let mut asked = Asked {
        method: method.to_owned(),
        key: decoded(key.strip_prefix('/').unwrap_or(key)),
        range: None,
        if_match: None,
        headers: Vec::new(),
        query: query.to_owned(),
        before: 0,
    };
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { return Ok(Some(asked)) };
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "range" => {
                let bounds = value.strip_prefix("bytes=").and_then(|value| value.split_once('-'));
                asked.range = bounds.and_then(|(from, to)| Some((from.parse().ok()?, to.parse::<u64>().ok()? + 1)));
            }
            "if-match" => asked.if_match = Some(value.to_owned()),
            _ => {}
        }
        asked.headers.push(name);
    }
}

fn fail(to: &mut impl Write, asked: &Asked, status: u16, code: &str) -> io::Result<()> {
    let body = format!("<Error><Code>{code}</Code><AWSAccessKeyId>hush-id</AWSAccessKeyId></Error>");
    send(to, asked, status, &[], body.as_bytes(), usize::MAX)
}

/// Sends an answer with so many bytes of its body.
fn send(
    to: &mut impl Write,
    asked: &Asked,
    status: u16,
    headers: &[(&str, String)],
    body: &[u8],
    sent: usize,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    to.write_all(format!("{head}\r\n").as_bytes())?;
    if asked.method != "HEAD" {
        to.write_all(&body[..sent.min(body.len())])?;
    }
    to.flush()
}

/// A page of a listing. The token of the next one has characters that a query must encode.
fn listing(held: &Held, query: &str) -> String {
    let given = |name: &str| {
        let value = query.split('&').find_map(|one| one.split_once('=').filter(|(known, _)| *known == name));
        value.map(|(_, value)| decoded(value)).unwrap_or_default()
    };
    let (prefix, token) = (given("prefix"), given("continuation-token"));
    let start: usize = token.trim_matches(['+', '/', '=']).parse().unwrap_or(0);
    let keys = held.objects.iter().filter(|(key, _)| key.starts_with(&prefix));
    let all: Vec<_> = keys.collect();
    let end = all.len().min(start + held.page_keys);
    let mut page = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult>".to_owned();
    for (key, (content, version)) in &all[start.min(end)..end] {
        let key = key.replace('&', "&amp;").replace('<', "&lt;");
        let _ = write!(
            page,
            "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
             <ETag>&quot;v{version}&quot;</ETag><Size>{}</Size></Contents>",
            content.len()
        );
    }
    if end < all.len() {
        let _ = write!(page, "<IsTruncated>true</IsTruncated><NextContinuationToken>+/{end}==</NextContinuationToken>");
    }
    page + "</ListBucketResult>"
}

/// A part of an address without percent signs.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, others @ ..] = rest {
        let escaped = (*first == b'%').then(|| text_of(others.get(..2)?)).flatten();
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
