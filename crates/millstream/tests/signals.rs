//! Ctrl-C and SIGTERM while a command waits.

use crate::process::command;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

#[test]
fn signals_end_a_waiting_command_with_their_code() {
    // Connections are accepted by the system and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://me@{}/shop?connect_timeout=0", silent.local_addr().unwrap());
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut waiting = command(&["collections", "--db", &url]).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(waiting.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("target: "), "{line}");
        let kill = Command::new("kill").args(["-s", signal, &waiting.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert_eq!(waiting.wait().unwrap().code(), Some(code));
    }
}
