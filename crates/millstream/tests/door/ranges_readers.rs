//! Readers of range stores in other languages, as `examples/ranges/` has them, asked the questions in `data/ranges/`.

use crate::process::millstream;
use millstream_host::{Child, Command, Ended};
use millstream_ranges::Generation;
use millstream_testkit::skip;
use serde_json::Value;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UdpSocket;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ranges");
const RANGES: &str = include_str!("../../../../data/ranges/ranges.csv");
const QUESTIONS: &str = include_str!("../../../../data/ranges/questions.csv");

/// Time in which a program ends, begins to serve, or answers.
pub const TIME_MAX: Duration = Duration::from_secs(60);

/// Time after which a question is sent again: a datagram may be lost.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Most times that a question is sent.
const SENDS_MAX: usize = 10;

/// Where Debian has it: not in everybody's path.
const RECURSOR: &str = "/usr/sbin/pdns_recursor";
/// Most starts of a recursor, each on another port.
const STARTS_MAX: usize = 10;
/// Runs a program that does not read its input, and ends it with the input. If the program ends first, so does this.
const KEEPER: &str = r#"("$@" >"$LOG" 2>&1; kill $$) & cat >/dev/null; kill -KILL 0"#;

/// Types of DNS records.
const A: u16 = 1;
const TXT: u16 = 16;
/// Codes of DNS answers.
const NO_ERROR: u8 = 0;
const NAME_ERROR: u8 = 3;

/// The first address, the last address and the name of each range.
fn ranges() -> impl Iterator<Item = [&'static str; 3]> {
    RANGES.lines().skip(1).map(|line| {
        let mut fields = line.splitn(3, ',');
        [(); 3].map(|()| fields.next().unwrap())
    })
}

/// Addresses, and the name of the range in which each lies.
fn questions() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    QUESTIONS.lines().skip(1).map(|line| {
        let (address, name) = line.split_once(',').unwrap();
        (address, (!name.is_empty()).then_some(name))
    })
}

/// The name in a value.
fn name(value: &str) -> String {
    let value: Value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{error}: {value}"));
    value["name"].as_str().unwrap().to_owned()
}

/// A store in a directory of its own.
struct Store {
    dir: TempDir,
    path: String,
}

impl Store {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store").to_str().unwrap().to_owned();
        Self { dir, path }
    }

    /// Builds a generation, with this prefix before each name.
    fn build(&self, prefix: &str, options: &[&str]) {
        let mut csv = String::from("first,last,name\n");
        for [first, last, name] in ranges() {
            writeln!(csv, "{first},{last},{prefix}{name}").unwrap();
        }
        let file = self.dir.path().join("ranges.csv");
        std::fs::write(&file, csv).unwrap();
        let args = ["ranges", "build", &self.path, file.to_str().unwrap(), "--range", "first,last"];
        millstream(&[&args[..], &["--progress", "none"], options].concat()).ends(0);
    }
}

/// Whether an interpreter is here and runs this code.
pub async fn can(program: &str, code: &str) -> bool {
    let option = if program.contains("python") { "-c" } else { "-e" };
    let ended = Command::new(program).args([option, code]).run(TIME_MAX).await;
    ended.is_ok_and(|ended| ended.status.success())
}

/// The same. If not, the test is skipped, because it needs these packages.
pub async fn is_here(program: &str, code: &str, packages: &str) -> bool {
    let here = can(program, code).await;
    if !here {
        skip(&format!("it needs {packages}"));
    }
    here
}

async fn luajit_is_here() -> bool {
    let code = "require('ffi').load('liblmdb.so.0') require('cjson')";
    is_here("luajit", code, "luajit, lua-cjson and liblmdb0").await
}

/// Where Lua finds modules: among the examples, then where it always does.
fn lua_path() -> String {
    format!("{EXAMPLES}/?.lua;;")
}

/// A reader that runs until it is dropped.
trait Reader {
    /// The name of the range in which the address lies.
    async fn ask(&mut self, address: &str) -> Option<String>;
}

/// Asks all questions, builds another generation while the reader has the first one open, and asks again.
async fn answers(mut reader: impl Reader, store: &Store) {
    for prefix in ["", "new "] {
        store.build(prefix, &[]);
        for (address, name) in questions() {
            let expected = name.map(|name| format!("{prefix}{name}"));
            assert_eq!(reader.ask(address).await, expected, "{address}");
        }
    }
}

/// A program that reads addresses and prints each with a tab and the value of its range.
struct Program {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Killed when it is dropped.
    _child: tokio::process::Child,
}

impl Program {
    fn start(program: &str, file: &str, store: &Store) -> Self {
        let mut command = tokio::process::Command::new(program);
        command.arg(format!("{EXAMPLES}/{file}")).arg(&store.path).env("LUA_PATH", lua_path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { input, output: BufReader::new(output).lines(), _child: child }
    }
}

impl Reader for Program {
    async fn ask(&mut self, address: &str) -> Option<String> {
        self.input.write_all(format!("{address}\n").as_bytes()).await.unwrap();
        let line = timeout(TIME_MAX, self.output.next_line()).await.expect("an answer in time").unwrap();
        let line = line.expect("the program has not ended");
        let (asked, value) = line.split_once('\t').unwrap();
        assert_eq!(asked, address);
        (!value.is_empty()).then(|| name(value))
    }
}

/// PowerDNS Recursor with the example as its script, on a port of its own. It asks nobody else.
struct Recursor {
    socket: UdpSocket,
    /// Number of the last question.
    id: u16,
    /// Killed when this is dropped, before its directory is removed.
    child: Child,
    dir: TempDir,
}

/// An answer over DNS: its code, and the data of its records.
#[derive(Debug)]
struct Answer {
    code: u8,
    data: Vec<Vec<u8>>,
}

impl Recursor {
    async fn start(store: &Store) -> Self {
        for _ in 0..STARTS_MAX {
            match Self::try_start(store).await {
                Ok(recursor) => return recursor,
                Err(log) if log.contains("in use") => {}
                Err(log) => panic!("the recursor ended:\n{log}"),
            }
        }
        panic!("no port is free");
    }

    /// Starts it. The error is its log if it ends.
    async fn try_start(store: &Store) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        // Below the ports for outgoing connections.
        let port = fastrand::u16(20_000..32_000);
        let settings = [
            "local-address=127.0.0.1".to_owned(),
            format!("local-port={port}"),
            format!("socket-dir={}", dir.path().display()),
            format!("lua-dns-script={EXAMPLES}/pdns-recursor.lua"),
            "dont-query=0.0.0.0/0, ::/0".to_owned(),
            "security-poll-suffix=".to_owned(),
            // Each thread opens the store for itself.
            "threads=2".to_owned(),
            "daemon=no".to_owned(),
            "write-pid=no".to_owned(),
            "disable-syslog=yes".to_owned(),
        ];
        std::fs::write(dir.path().join("recursor.conf"), settings.join("\n") + "\n").unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", KEEPER, "sh", RECURSOR]).arg(format!("--config-dir={}", dir.path().display()));
        command.env("LOG", log(&dir)).env("LUA_PATH", lua_path()).env("RANGES_STORE", &store.path);
        let child = command.start().unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let mut recursor = Self { socket, id: 0, child, dir };
        let begun = Instant::now();
        while begun.elapsed() < TIME_MAX {
            if let Some(answer) = recursor.send("geo.example", TXT).await {
                // Without the script, the recursor would try to ask others.
                assert_eq!(answer.code, NO_ERROR, "{}", recursor.log());
                return Ok(recursor);
            }
            if recursor.child.ended().is_some() {
                return Err(recursor.log());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the recursor does not answer:\n{}", recursor.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(log(&self.dir)).unwrap_or_default()
    }

    /// Sends a question until it is answered.
    async fn query(&mut self, name: &str, kind: u16) -> Answer {
        for _ in 0..SENDS_MAX {
            if let Some(answer) = self.send(name, kind).await {
                return answer;
            }
        }
        panic!("no answer for {name}:\n{}", self.log());
    }

    /// Sends a question once. `None` if nobody listens or no answer comes in time.
    async fn send(&mut self, name: &str, kind: u16) -> Option<Answer> {
        self.id = self.id.wrapping_add(1);
        let question = question(self.id, name, kind);
        self.socket.send(&question).await.ok()?;
        timeout(ANSWER_TIME, self.receive(&question)).await.ok()?
    }

    async fn receive(&self, question: &[u8]) -> Option<Answer> {
        let mut buffer = [0; 4096];
        loop {
            let length = self.socket.recv(&mut buffer).await.ok()?;
            // Late answers to earlier questions are skipped.
            if buffer[..length].starts_with(&question[..2]) {
                return Some(answer(&buffer[..length], question));
            }
        }
    }
}

impl Reader for Recursor {
    async fn ask(&mut self, address: &str) -> Option<String> {
        let asked = asked_name(address.parse().unwrap());
        let listed = self.query(&asked, A).await;
        let Answer { code, data } = self.query(&asked, TXT).await;
        assert_eq!(listed.code, code, "{asked}:\n{}", self.log());
        if code == NAME_ERROR {
            assert!(data.is_empty() && listed.data.is_empty(), "{asked}");
            return None;
        }
        assert_eq!((code, data.len()), (NO_ERROR, 1), "{asked}:\n{}", self.log());
        assert_eq!(listed.data, [[127, 0, 0, 2]], "{asked}");
        Some(name(&text(&data[0])))
    }
}

fn log(dir: &TempDir) -> PathBuf {
    dir.path().join("log")
}

/// The name to ask for: the address backwards, in the zone of the example.
fn asked_name(address: IpAddr) -> String {
    let labels: Vec<String> = match address {
        IpAddr::V4(address) => address.octets().iter().rev().map(|octet| octet.to_string()).collect(),
        IpAddr::V6(address) => format!("{:032x}", address.to_bits()).chars().rev().map(String::from).collect(),
    };
    format!("{}.geo.example", labels.join("."))
}

/// A question as a DNS message (RFC 1035, section 4).
fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    // Recursion is desired; there is one question and nothing else.
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(label.len().try_into().unwrap());
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    // The class of the Internet.
    message.extend_from_slice(&[0, 1]);
    message
}

/// Takes an answer apart. It repeats the question.
fn answer(message: &[u8], question: &[u8]) -> Answer {
    assert_eq!(message[2] & 2, 0, "the answer was cut");
    let u16_at = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    assert_eq!(message[12..question.len()], question[12..]);
    let mut at = question.len();
    let mut data = Vec::new();
    for _ in 0..u16_at(6) {
        // A name ends with an empty label, or with two bytes that say where it goes on.
        while (1..0xc0).contains(&message[at]) {
            at += 1 + usize::from(message[at]);
        }
        at += if message[at] == 0 { 1 } else { 2 };
        // Behind it are the type, the class, the time to live and the length.
        let begin = at + 10;
        at = begin + usize::from(u16_at(at + 8));
        data.push(message[begin..at].to_vec());
    }
    Answer { code: message[3] & 15, data }
}

/// The strings of a TXT record, joined.
fn text(mut data: &[u8]) -> String {
    let mut text: Vec<u8> = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        let (string, rest) = rest.split_at(usize::from(*length));
        text.extend_from_slice(string);
        data = rest;
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn the_program_answers_in_both_layouts() {
    let store = Store::new();
    let asked: String = questions().map(|(address, _)| format!("{address}\n")).collect();
    let layouts: [&[&str]; 2] = [&[], &["--single"]];
    for options in layouts {
        store.build("", options);
        let mut get = Command::new(env!("CARGO_BIN_EXE_millstream"));
        get.args(["ranges", "get", &store.path, "-"]).input(asked.clone());
        let printed = get.run(TIME_MAX).await.and_then(Ended::succeeded).unwrap().stdout;
        assert_eq!(printed.lines().count(), questions().count(), "{options:?}");
        for (line, (address, expected)) in printed.lines().zip(questions()) {
            let fields: Vec<&str> = line.split('\t').collect();
            match (&fields[..], expected) {
                ([ip, _, value], Some(expected)) => assert_eq!((*ip, name(value).as_str()), (address, expected)),
                (fields, expected) => assert_eq!((fields, expected), (&[address, "-"][..], None), "{options:?}"),
            }
        }
    }
}

#[tokio::test]
async fn luajit_looks_addresses_up() {
    if luajit_is_here().await {
        let store = Store::new();
        answers(Program::start("luajit", "lookup.lua", &store), &store).await;
    }
}

#[tokio::test]
async fn python_looks_addresses_up() {
    // Only Debian's own finds Debian's modules, and it need not be the first in the path.
    let program = if can("python3", "import lmdb").await { "python3" } else { "/usr/bin/python3" };
    if is_here(program, "import lmdb", "python3-lmdb").await {
        let store = Store::new();
        answers(Program::start(program, "lookup.py", &store), &store).await;
    }
}

#[tokio::test]
async fn powerdns_recursor_answers_over_dns() {
    if !Path::new(RECURSOR).exists() {
        skip("it needs pdns-recursor");
        return;
    }
    // The script runs in the recursor's own LuaJIT, which needs the same libraries.
    if luajit_is_here().await {
        let store = Store::new();
        answers(Recursor::start(&store).await, &store).await;
    }
}

#[tokio::test]
async fn lua_takes_every_value_apart() {
    let store = Store::new();
    store.build("", &[]);
    let generation = Generation::open(Path::new(&store.path), None).unwrap();
    let mut values: Vec<u8> = Vec::new();
    for found in generation.ranges().unwrap() {
        values.extend_from_slice(found.unwrap().value);
        values.push(b'\n');
    }
    let address = |text: &str| -> IpAddr { text.parse().unwrap() };
    let mut expected: Vec<_> =
        ranges().map(|[first, last, name]| (address(first), address(last), name.to_owned())).collect();
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(_, last, name)| (last, name)).collect();
    for program in ["lua5.1", "lua5.4"] {
        if !is_here(program, "require('cjson')", &format!("{program} and lua-cjson")).await {
            continue;
        }
        let mut decode = Command::new(program);
        decode.arg(format!("{EXAMPLES}/decode.lua")).input(values.clone());
        let printed = decode.run(TIME_MAX).await.and_then(Ended::succeeded).unwrap().stdout;
        let lines = printed.lines().map(|line| line.split_once('\t').unwrap());
        let decoded: Vec<_> = lines.map(|(last, value)| (address(last), name(value))).collect();
        assert_eq!(decoded, expected, "{program}");
    }
}
