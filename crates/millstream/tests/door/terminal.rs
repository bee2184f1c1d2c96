//! Text of others must not steer the terminal: messages of servers, names, records and documents.

use crate::process::{Run, millstream};
use millstream_lab::experiments::Record;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

/// A title for the terminal, a command in one character, DEL, and a change of direction.
const EVIL: &str = "\u{1b}]0;P\u{7}\u{9b}2J\u{7f}\u{202e}txt";

/// How it is printed.
const SHOWN: &str = "\\u001b]0;P\\u0007\\u009b2J\\u007f\\u202etxt";

fn steers(c: char) -> bool {
    let is_line = matches!(c, '\n' | '\t');
    (c.is_control() && !is_line)
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// All that a run printed, of which nothing steers a terminal.
#[track_caller]
fn printed(run: &Run) -> String {
    let all = format!("{}{}", run.stdout, run.stderr);
    assert!(!all.contains(steers), "{run:?}");
    all
}

#[track_caller]
fn assert_shown(run: &Run) {
    assert!(printed(run).contains(SHOWN), "{run:?}");
}

/// The URL of a server that refuses its only client with this message.
fn refusing(message: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let fields = format!("SFATAL\0VFATAL\0C28P01\0M{message}\0\0");
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        assert!(client.read(&mut [0; 4_096]).unwrap() > 0);
        let length = u32::try_from(fields.len() + 4).unwrap();
        client.write_all(&[b"E".as_slice(), &length.to_be_bytes(), fields.as_bytes()].concat()).unwrap();
    });
    format!("postgres://me@127.0.0.1:{port}/shop?sslmode=disable")
}

#[test]
fn the_message_of_a_server_is_shown_with_marks() {
    assert_shown(&millstream(&["collections", "--db", &refusing(EVIL)]).ends(2));
    let run = millstream(&["collections", "--output", "json", "--db", &refusing(EVIL)]).ends(2);
    printed(&run);
    let error: serde_json::Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
    assert!(error["error"].as_str().unwrap().ends_with(EVIL), "JSON keeps the message: {run:?}");
}

#[test]
fn no_line_of_others_looks_like_a_line_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let forged = "gone\nhint: delete it\nwarning: w\nerror: e\nend";
    let path = dir.path().join(forged);
    let of_server = millstream(&["collections", "--db", &refusing(forged)]).ends(2);
    let of_name = millstream(&["doctor", "--config", path.to_str().unwrap()]).ends(2);
    for run in [of_server, of_name] {
        assert!(run.stderr.contains("gone\n  hint: delete it\n  warning: w\n  error: e\n  end"), "{run:?}");
    }
}

#[test]
fn names_of_files_and_wrong_words_are_shown_with_marks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{EVIL}.toml"));
    let path = path.to_str().unwrap();
    for args in [
        &["load", path, "--into", "a", "--key", "id"][..],
        &["doctor", "--config", path],
        &["guard", "show", path],
        &["network", "plan", path],
        &["lab", "report", path],
        &["lab", "drive", path],
        &["collections", &format!("--{EVIL}")],
        &["collections", "--output", EVIL],
        &[EVIL],
    ] {
        assert_shown(&millstream(args).ends(2));
        printed(&millstream(&[&["--output=json"], args].concat()).ends(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_collections_and_messages_of_triggers_are_shown_with_marks() {
    let db = millstream_testkit::database().await;
    let (url, client) = (db.url(), db.client().await);
    let name = format!("public.odd{EVIL}");
    printed(&millstream(&["load", "-", "--into", &name, "--key", "id:text", "--db", &url]).ends(0));
    assert_shown(&millstream(&["collections", "--db", &url]).ends(0));
    assert_shown(&millstream(&["get", &name, EVIL, "--db", &url]).ends(1));
    assert_shown(&millstream(&["drop", &name, "--db", &url]).ends(2));
    assert_shown(&millstream(&["get", &format!("other{EVIL}"), "1", "--db", &url]).ends(2));
    let refuse = format!(
        "create function public.refuse() returns event_trigger language plpgsql as
             $$ begin raise exception '%', 'stays{EVIL}'; end $$;
         create event trigger refuse on sql_drop when tag in ('DROP TABLE') execute function public.refuse()"
    );
    client.batch_execute(&refuse).await.unwrap();
    let run = millstream(&["drop", &name, "--yes", "--db", &url]).ends(2);
    assert!(printed(&run).contains(&format!("stays{SHOWN}")), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_reach_a_pipe_byte_for_byte() {
    let db = millstream_testkit::database().await;
    let (url, client) = (db.url(), db.client().await);
    millstream(&["load", "-", "--into", "public.plain", "--key", "id:text", "--db", &url]).ends(0);
    let sql = "insert into public.plain values ('k', jsonb_build_object('text', $1::text)) returning doc::text";
    let stored: String = client.query_one(sql, &[&EVIL]).await.unwrap().get(0);
    assert!(stored.contains('\u{202e}') && stored.contains('\u{9b}'), "{stored:?}");
    let got = millstream(&["get", "plain", "k", "--db", &url]).ends(0);
    assert_eq!(got.stdout, stored + "\n");
    let json = millstream(&["get", "plain", "k", "--output", "json", "--db", &url]).ends(0);
    printed(&json);
    assert_eq!(json.json()[0]["doc"]["text"], EVIL);
}

#[test]
fn a_report_of_a_record_shows_marks_and_holds_no_markup_and_no_formula() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/records/2026-11-26-2x-amd-epyc-policy");
    let mut record = Record::read(&kept).unwrap();
    let (evil, shown) = ("=<script>\u{1b}c\u{9b}\u{202e}|`x`", "<script>\\u001bc\\u009b\\u202e|`x`");
    let experiment = &mut record.conditions.experiment;
    experiment.question = evil.to_owned();
    let first = std::mem::replace(&mut experiment.arms[0].name, evil.to_owned());
    record.runs.iter_mut().filter(|run| run.arm == first).for_each(|run| run.arm = evil.to_owned());
    record.machine.kernel.push_str(evil);
    record.machine.processor = Some(evil.to_owned());
    record.conditions.servers.values_mut().for_each(|version| version.push_str(evil));
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("record.json"), serde_json::to_string(&record).unwrap()).unwrap();

    let report = |format: &str| {
        let run = millstream(&["lab", "report", dir.path().to_str().unwrap(), "--format", format]);
        assert!(run.code < 2, "{run:?}");
        printed(&run);
        run.stdout
    };
    let text = report("text");
    assert!(text.contains(&format!("policy: ={shown}")), "{text}");
    let marked = report("markdown");
    assert!(!marked.contains("<script"), "{marked}");
    assert!(marked.contains("| =&lt;script&gt;\\u001bc\\u009b\\u202e\\|\\`x\\`: "), "{marked}");
    let table = report("csv");
    assert!(table.contains(&format!(",'={shown},")) && !table.contains(",=<script>"), "{table}");
    printed(&millstream(&["lab", "report", dir.path().to_str().unwrap(), "--output", "json"]));
}
