//! A confirmation counts only over a connection that began after the rules took effect.

use millstream_change::Kind;
use millstream_guard::packet_filter::PacketFilter;
use millstream_host::{Command, Ended};

/// The variable that says when the rules took effect, in seconds since 1970.
const SINCE: &str = "MILLSTREAM_TEST_SINCE";

/// Run by the test below in a process of its own, below one that serves a connection.
#[test]
fn says_whether_it_counts_if_the_variable_is_set() {
    let Ok(since) = std::env::var(SINCE) else { return };
    let said = PacketFilter.may_confirm(since.parse().unwrap());
    println!("\n{}", said.map_or_else(|refusal| refusal.to_string(), |()| "it counts".to_owned()));
}

#[test]
fn an_old_connection_confirms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // What serves a connection is known by its name. Another process writes the file, so that no child of ours has it open.
    let server = dir.path().join("sshd");
    Command::new("cp").arg("/bin/sh").arg(&server).run_blocking().and_then(Ended::succeeded).unwrap();
    let said = |since: u64, connection: &str| {
        let mut command = Command::new(&server);
        command.args(["-c", "\"$@\"; true", "sh"]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "confirmation::says_whether_it_counts_if_the_variable_is_set", "--nocapture"]);
        command.env(SINCE, since.to_string()).env("SSH_CONNECTION", connection);
        command.run_blocking().and_then(Ended::succeeded).unwrap().stdout
    };
    let (far, here) = ("198.51.100.7 50022 192.0.2.1 22", "127.0.0.1 50022 127.0.0.1 22");
    for (since, connection, expected) in [
        (0, far, "it counts"),
        (u64::MAX, far, "this connection is older than the rules, so it does not prove that new ones come in"),
        (0, here, "this connection comes from the host itself, so it does not prove that new ones come in"),
    ] {
        let said = said(since, connection);
        assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
    }
}
