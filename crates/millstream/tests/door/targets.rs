//! Files at places that a user names: a link there is replaced, and nobody else may write them.

use crate::copy::{Place, shell};
use crate::process::{command, run, with_open_umask};
use crate::ranges::DIRTY;
use millstream_testkit::{Need, database, machine_has};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// Stands for the target in the arguments of a command.
const TARGET: &str = "TARGET";

const TOPOLOGY: &str = "[cards.card0]\naddresses = ['192.0.2.5/24']\n";

/// Commands that write a file, with their exit codes, in a place that [`prepared`] has made.
fn commands<'a>(url: &'a str, record: &'a str) -> Vec<(Vec<&'a str>, i32)> {
    let load = ["load", "in.ndjson", "--into", "events", "--key", "id:bigint", "--db", url];
    vec![
        (vec!["ranges", "export", "geo", TARGET, "--to", "csv"], 0),
        (vec!["ranges", "build", "geo", "dirty.csv", "--progress", "none", "--rejects", TARGET], 1),
        ([&load[..], &["--progress", "none", "--rejects", TARGET]].concat(), 1),
        (vec!["lab", "report", record, "--html", TARGET], 0),
        (vec!["doctor", "--one-database", "--check", "duplicate-index", "--db", url, "--html", TARGET], 0),
    ]
}

/// A place with what the commands read.
fn prepared() -> Place {
    let place = Place::new();
    place.write("dirty.csv", DIRTY.as_bytes());
    place.write("in.ndjson", b"{\"id\": 1}\nbad\n");
    place.write("host.toml", TOPOLOGY.as_bytes());
    run(&mut at(&place, &["ranges", "build", "geo", "dirty.csv", "--progress", "none"])).ends(1);
    place
}

/// A command in a place.
fn at(place: &Place, args: &[&str]) -> Command {
    let mut command = command(args);
    command.current_dir(place.path("")).env("MILLSTREAM_HOME", place.path("home"));
    command
}

/// The same arguments for a target.
fn aimed<'a>(args: &[&'a str], target: &'a str) -> Vec<&'a str> {
    args.iter().map(|arg| if *arg == TARGET { target } else { *arg }).collect()
}

fn record() -> String {
    format!("{}/../../lab/records/2026-11-23-2x-intel-xeon-clients", env!("CARGO_MANIFEST_DIR"))
}

/// What `find` finds in a folder, apart from links.
fn found(folder: &Path, test: &[&str]) -> String {
    let found = Command::new("find").arg(folder).args(["-mindepth", "1", "!", "-type", "l"]).args(test).output();
    String::from_utf8(found.unwrap().stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_another_user_is_replaced_and_what_it_leads_to_stays() {
    if !machine_has(&[Need::Root]) {
        return;
    }
    let (database, place, shared) = (database().await, prepared(), tempfile::tempdir().unwrap());
    shell(shared.path(), "chmod 1777 .");
    let victim = place.write("victim", b"secret\n");
    shell(&place.path(""), "chmod 600 victim");
    let linked = |name: &str| {
        let link = shared.path().join(name);
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "ln", "-s"]).arg(&victim).arg(&link);
        assert!(nobody.status().unwrap().success());
        link
    };
    let is_safe = |args: &[&str]| {
        let mode = fs::metadata(&victim).unwrap().mode() & 0o777;
        assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), mode), ("secret\n", 0o600), "{args:?}");
    };
    let (url, record) = (database.url(), record());
    for (args, code) in commands(&url, &record) {
        let link = linked("target");
        run(&mut at(&place, &aimed(&args, link.to_str().unwrap()))).ends(code);
        is_safe(&args);
        assert!(link.symlink_metadata().unwrap().is_file(), "{args:?}");
        fs::remove_file(link).unwrap();
    }
    let (link, folder) = (linked("card0.nmconnection"), shared.path().to_str().unwrap());
    let plan = ["network", "plan", "host.toml", "--as", "keyfile", "--to", folder];
    run(&mut at(&place, &plan)).ends(0);
    is_safe(&plan);
    assert!(link.symlink_metadata().unwrap().is_file());
    // Rejects that somebody may have mended are never replaced.
    let link = linked("target");
    let export = ["rejects", "events", "--db", &url, "--export", link.to_str().unwrap()];
    let refused = run(&mut at(&place, &export)).ends(2);
    assert!(refused.stderr.contains("exists already") && link.is_symlink(), "{refused:?}");
    is_safe(&export);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_may_write_what_is_written_whatever_the_umask_is() {
    let (database, place) = (database().await, prepared());
    shell(&place.path(""), "mkdir out; chmod 755 out; echo text > from/file");
    let (url, record) = (database.url(), record());
    let written = |args: &[&str], code| run(&mut with_open_umask(&at(&place, args))).ends(code);
    for (number, (args, code)) in commands(&url, &record).into_iter().enumerate() {
        written(&aimed(&args, &format!("out/{number}")), code);
    }
    written(&["ranges", "build", "out/above/geo", "dirty.csv", "--progress", "none"], 1);
    written(&["rejects", "events", "--db", &url, "--export", "out/rejects"], 0);
    written(&["network", "plan", "host.toml", "--as", "keyfile", "--to", "out/keyfiles"], 0);
    written(&["lab", "run", "--a", "true", "--b", "true", "--quick", "--out", "out/record"], 0);
    written(&["copy", "from/", "to", "--progress", "none"], 0);
    let written = found(&place.path("out"), &["-type", "f"]);
    for name in ["out/0", "out/4", "out/above/geo/lock", "out/rejects", "card0.nmconnection", "out/record/record.json"]
    {
        assert!(written.contains(name), "{name}: {written}");
    }
    assert_eq!(found(&place.path("out"), &["-perm", "/022"]), "");
    // Whoever writes the notes of copies decides what counts as copied.
    let notes = place.path("home/copies");
    assert!(found(&notes, &["-name", "token"]).contains("token"));
    assert_eq!(found(&notes, &["-perm", "/077"]), "");
    assert_eq!(fs::metadata(notes).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_name_of_standard_output_means_where_standard_output_goes() {
    let place = prepared();
    let out = place.path("out.csv");
    let export = at(&place, &["ranges", "export", "geo", "/dev/stdout", "--to", "csv"])
        .stdout(File::create(&out).unwrap())
        .status();
    assert!(export.unwrap().success());
    let text = fs::read_to_string(out).unwrap();
    assert!(text.starts_with("first,last,") && text.ends_with("\n3 ranges in /dev/stdout\n"), "{text}");
    assert!(Path::new("/dev/stdout").is_symlink());
    let null = run(&mut at(&place, &["ranges", "export", "geo", "/dev/null", "--to", "csv"])).ends(0);
    assert!(null.stdout.starts_with("3 ranges in ") && !Path::new("/dev/null").is_file(), "{null:?}");
}
