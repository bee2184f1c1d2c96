//! Readers of range stores in other languages, as `examples/ranges/` has them, asked the questions in `data/ranges/`.

use crate::stored::built_from;
use millstream_host::{Command, Ended};
use millstream_ranges::input::InputOptions;
use millstream_ranges::{BuildRequest, Generation, Layout, braced};
use millstream_testkit::skip;
use serde_json::Value;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

pub(crate) const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ranges");
const RANGES: &str = include_str!("../../../data/ranges/ranges.csv");
const QUESTIONS: &str = include_str!("../../../data/ranges/questions.csv");

/// Time in which a program ends, begins to serve, or answers.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

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
pub(crate) fn name(value: &str) -> String {
    let value: Value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{error}: {value}"));
    value["name"].as_str().unwrap().to_owned()
}

/// A store in a directory of its own.
pub(crate) struct Store {
    dir: TempDir,
    pub(crate) path: PathBuf,
}

impl Store {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        Self { dir, path }
    }

    /// Builds a generation, with this prefix before each name.
    fn build(&self, prefix: &str, layout: Layout) {
        let mut csv = String::from("first,last,name\n");
        for [first, last, name] in ranges() {
            writeln!(csv, "{first},{last},{prefix}{name}").unwrap();
        }
        let file = self.dir.path().join("ranges.csv");
        std::fs::write(&file, csv).unwrap();
        let range = ["first", "last"].map(str::to_owned).to_vec();
        let mut request = BuildRequest::new(self.path.clone());
        request.layout = layout;
        built_from(&request, &file, &InputOptions { range, ..InputOptions::default() }).unwrap();
    }
}

/// Whether an interpreter is here and runs this code.
pub(crate) async fn can(program: &str, code: &str) -> bool {
    let option = if program.contains("python") { "-c" } else { "-e" };
    let ended = Command::new(program).args([option, code]).run(TIME_MAX).await;
    ended.is_ok_and(|ended| ended.status.success())
}

/// The same. If not, the test is skipped, because it needs these packages.
pub(crate) async fn is_here(program: &str, code: &str, packages: &str) -> bool {
    let here = can(program, code).await;
    if !here {
        skip(&format!("it needs {packages}"));
    }
    here
}

pub(crate) async fn luajit_is_here() -> bool {
    let code = "require('ffi').load('liblmdb.so.0') require('cjson')";
    is_here("luajit", code, "luajit, lua-cjson and liblmdb0").await
}

/// Where Lua finds modules: among the examples, then where it always does.
pub(crate) fn lua_path() -> String {
    format!("{EXAMPLES}/?.lua;;")
}

/// A reader that runs until it is dropped.
pub(crate) trait Reader {
    /// The name of the range in which the address lies.
    async fn ask(&mut self, address: &str) -> Option<String>;
}

/// Asks all questions, builds another generation while the reader has the first one open, and asks again.
pub(crate) async fn answers(mut reader: impl Reader, store: &Store) {
    for prefix in ["", "new "] {
        store.build(prefix, Layout::Named);
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

#[test]
fn a_store_answers_in_both_layouts() {
    let store = Store::new();
    for layout in [Layout::Named, Layout::Single] {
        store.build("", layout);
        let generation = Generation::open(&store.path, None).unwrap();
        for (address, expected) in questions() {
            let found = generation.get(address.parse().unwrap()).unwrap();
            let found = found.map(|found| name(&braced(&found.members().unwrap())));
            assert_eq!(found.as_deref(), expected, "{layout:?} {address}");
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
async fn lua_takes_every_value_apart() {
    let store = Store::new();
    store.build("", Layout::Named);
    let generation = Generation::open(&store.path, None).unwrap();
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
