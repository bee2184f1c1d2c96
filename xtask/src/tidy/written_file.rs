//! Rule `written_file`: one crate decides how files and folders are made and opened to be written.

use super::{Report, Rule};
use crate::pieces::{PieceKind, lines_of, tests_begin};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "written_file",
    says: "outside tests, millstream-host makes files and folders: it follows no link and lets nobody else write",
    check,
};

/// How code that breaks the rule begins, and what to do instead. Any letters may follow: `File::create_new` begins so, too.
const WORDS: &[(&str, &str)] = &[
    ("DirBuilder", FOLDER),
    ("File::create", FILE),
    ("File::options", FILE),
    ("OpenOptions", FILE),
    ("canonicalize", LINK),
    ("create_dir", FOLDER),
    ("fs::copy", FILE),
    ("fs::write", FILE),
    ("tempdir", "makes a folder that others may write, use millstream_host::scratch_folder"),
];

const FILE: &str = "opens what may be a link, use TargetFile, write_whole or own_file of millstream-host";
const FOLDER: &str = "makes a folder that others may write, use make_folder of millstream-host";
const LINK: &str = "follows links of others, write to the name itself by millstream_host::TargetFile";

/// A file or folder, one of the words or "" for all, and why it may stand there.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/millstream-change/", "", "keeps the machine's files and their journal in its own way"),
    ("crates/millstream-copy/src/extra.rs", "canonicalize", "compares the ends of a copy"),
    ("crates/millstream-copy/src/manifest/journal.rs", "File::options", "opens by open_private"),
    ("crates/millstream-copy/src/place.rs", "canonicalize", "compares the ends of a copy"),
    ("crates/millstream-copy/src/servers.rs", "canonicalize", "finds what a running server uses"),
    ("crates/millstream-copy/src/verification.rs", "canonicalize", "finds the notes of a copy"),
    ("crates/millstream-doctor/src/host.rs", "canonicalize", "asks whether a directory can be reached"),
    ("crates/millstream-document/src/source/location.rs", "canonicalize", "names a source, which is read"),
    ("crates/millstream-failpoint/", "", "is empty in a build of the program"),
    ("crates/millstream-host/src/disk_latency.rs", "OpenOptions", "reads past the cache"),
    ("crates/millstream-host/src/file_lock.rs", "File::options", "opens by open_private"),
    ("crates/millstream-host/src/kernel/", "canonicalize", "follows links of the kernel"),
    ("crates/millstream-host/src/memory_limit.rs", "", "writes files of the kernel"),
    ("crates/millstream-host/src/named_file.rs", "", "opens to read, without waiting for a pipe"),
    ("crates/millstream-host/src/new_file.rs", "", "is the one way to make a file beside its name"),
    ("crates/millstream-host/src/ours.rs", "", "is the one way to make a directory that only we may change"),
    ("crates/millstream-host/src/own_file.rs", "", "is the one way to open a file of ours, and to make folders"),
    ("crates/millstream-host/src/plain_file.rs", "", "is the one way to open a file by its own name"),
    ("crates/millstream-host/src/process.rs", "canonicalize", "compares directories of processes"),
    ("crates/millstream-host/src/setting.rs", "fs::write", "writes files of the kernel"),
    ("crates/millstream-host/src/slow_disk/mod.rs", "canonicalize", "compares a name with those that the kernel lists"),
    ("crates/millstream-host/src/target_file.rs", "File::options", "writes pipes and devices as they are"),
    ("crates/millstream-lab/src/experiments/wal.rs", "", "moves a server's directory, in which it makes nothing new"),
    ("crates/millstream-lab/src/guest/image.rs", "canonicalize", "finds a program, which is read"),
    ("crates/millstream-lab/src/guest/mod.rs", "canonicalize", "gives a directory its whole path"),
    ("crates/millstream-lab/src/measured.rs", "fs::write", "is for tests alone"),
    ("crates/millstream-local/", "", "keeps the files of the local server in its own way"),
    ("crates/millstream-pg/src/named_file.rs", "", "opens to read, without waiting for a pipe"),
    ("crates/millstream-ranges/src/input/transcript.rs", "", "is for tests alone"),
    ("crates/millstream-ranges/src/store/", "canonicalize", "compares stores, which are read"),
    ("crates/millstream-testkit/", "", "is for tests alone"),
    ("crates/millstream/src/commands/lab/start.rs", "canonicalize", "gives a directory its whole path"),
    ("crates/millstream/src/reference/mod.rs", "fs::write", "is for tests alone"),
];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        if !file.path.starts_with("crates/") || !file.path.contains("/src/") || file.name() == "tests.rs" {
            continue;
        }
        let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
        for (line, code) in lines_of(&file.text, PieceKind::Code).filter(|(line, _)| *line < tests) {
            let broken = WORDS.iter().find(|(word, _)| begins_in(code, word) && !is_allowed(&file.path, word));
            if let Some((_, says)) = broken {
                report.broken(&file.path, line, *says);
            }
        }
    }
}

fn is_allowed(path: &str, word: &str) -> bool {
    ALLOWED.iter().any(|(place, only, _)| path.starts_with(place) && (only.is_empty() || *only == word))
}

/// Whether a name in the code begins with this, such as `File::create`, which `TargetFile::create` does not.
fn begins_in(code: &str, word: &str) -> bool {
    let inner = |before: char| before.is_alphanumeric() || before == '_';
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(inner))
}
