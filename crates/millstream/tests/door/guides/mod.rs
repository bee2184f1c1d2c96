//! The shell lines of README and the guides, run against a real server, page by page.

mod line;

use crate::process::command;
use line::{Line, lines, needs, pages};
use millstream_host::in_path;
use millstream_testkit::{Need, database, machine_has, skip};
use std::path::Path;
use std::process::{Command, Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn shell_lines_of_the_guides_work() {
    let mut running = Vec::new();
    for (page, lines, needs) in pages() {
        if let Some(missing) = needs.iter().find(|program| in_path(program).is_none()) {
            skip(&format!("{page} needs {missing}"));
        } else if needs.iter().any(|program| program == "nsenter") && !machine_has(&[Need::Networks]) {
            println!("{page} is left out");
        } else if lines.iter().any(runs) {
            let database = database().await;
            let run = move || (run_page(&lines, &database.url()), database);
            running.push((page, tokio::task::spawn_blocking(run)));
        }
    }
    assert!(running.len() > 3, "the guides were not found");
    let mut failures = Vec::new();
    for (page, run) in running {
        let (failure, _database) = run.await.unwrap();
        failures.extend(failure.map(|failure| format!("{page}: {failure}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn shell_lines_are_found_with_their_notes() {
    let page = "text\n<!-- test: setup\nseq 3 > a\n-->\n```sh\none \\\n    two   # three\n\n# four\n```\n\n\
                <!-- test: parsed only, minutes -->\n```sh\nfive\n```\n```text\nsix\n```\n<!-- test: ends with 1 -->\n\
                ```sh\nseven\n```\n";
    let line = |number, text: &str, runs, may_find| Line {
        at: format!("a.md:{number}"),
        text: text.to_owned(),
        runs,
        may_find,
    };
    let expected = [
        line(3, "seq 3 > a", true, false),
        line(6, "one  two   # three", true, false),
        line(14, "five", false, false),
        line(21, "seven", true, true),
    ];
    assert_eq!(lines("a.md", page), expected);
    let table =
        "| `millstream a` |\n<!-- test: commands in tables -->\n| b | `millstream c --d`, `e` or `millstream f` |\n";
    let expected = [line(3, "millstream c --d", false, false), line(3, "millstream f", false, false)];
    assert_eq!(lines("a.md", table), expected);
    assert_eq!(needs("a\n<!-- test: needs nft zstd -->\nb\n"), ["nft", "zstd"]);
}

/// Lines that begin with `millstream db` are skipped: `local` tests the local server.
fn runs(line: &Line) -> bool {
    line.runs && !line.text.starts_with("millstream db ")
}

/// Runs the lines of a page in a directory of their own. Returns what failed, with the line and all output.
fn run_page(lines: &[Line], url: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut script = String::from("exec 2>&1\nset -o pipefail\n");
    for line in lines.iter().filter(|line| runs(line)) {
        let accepted = if line.may_find { "1" } else { "0" };
        script += &format!("printf '%s\\n' '== {}'\n{}\n", line.at, line.text);
        script += &format!("code=$?; [ $code -le {accepted} ] || {{ echo \"exit code $code\"; exit 1; }}\n");
    }
    let millstream = command(&[]);
    let binary = Path::new(millstream.get_program()).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(dir.path()).stdin(Stdio::null());
    for (name, value) in millstream.get_envs() {
        match value {
            Some(value) => bash.env(name, value),
            None => bash.env_remove(name),
        };
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    bash.env("PATH", path).env("MILLSTREAM_DB", url).env("MILLSTREAM_CHECKOUT", checkout);
    let output = bash.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    (!output.status.success()).then(|| printed[printed.rfind("== ").unwrap_or(0)..].to_owned())
}
