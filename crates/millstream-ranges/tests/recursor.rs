//! PowerDNS Recursor with the example as its script, asked over DNS.

use crate::readers::{EXAMPLES, Reader, Store, TIME_MAX, answers, lua_path, luajit_is_here, name};
use millstream_host::{Child, Command};
use millstream_testkit::skip;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::UdpSocket;
use tokio::time::timeout;

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

/// The recursor on a port of its own. It asks nobody else.
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
