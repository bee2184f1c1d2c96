//! Servers that send more than a login needs, and one from which much is read after it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use millstream_pg::{ErrorKind, Explained};
use millstream_testkit as testkit;

use crate::{connected, one, refused};

/// Far more than a client may take, with what the kernel keeps between the two.
const FLOOD_BYTES: usize = 64 << 20;

/// What a server sends that lets everybody in.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0";

/// A message of the server: its kind, its length, its content.
fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len() + 4).expect("a short message");
    [&[kind][..], &length.to_be_bytes(), content].concat()
}

/// A server on a port of its own that answers a login with `first`, and then sends `next` again and again. The thread
/// returns how many bytes its client took.
fn flooding(first: Vec<u8>, next: Vec<u8>) -> (u16, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let sent = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("somebody connects");
        assert!(client.read(&mut [0; 4_096]).expect("a login") > 0);
        client.write_all(&first).expect("the client reads the beginning");
        let mut sent = first.len();
        while sent < FLOOD_BYTES && client.write_all(&next).is_ok() {
            sent += next.len();
        }
        sent
    });
    (port, sent)
}

#[tokio::test]
async fn a_server_that_floods_us_before_the_login_is_refused() {
    let notice = message(b'N', &[b"SNOTICE\0C00000\0M".as_slice(), &[b'x'; 10_000], b"\0\0"].concat());
    let longest = [b"E".as_slice(), &i32::MAX.to_be_bytes()].concat();
    for (first, next) in [
        (WELCOME.to_vec(), notice),
        (WELCOME.to_vec(), message(b'S', b"name\0value\0").repeat(1_000)),
        (longest, vec![b'x'; 10_000]),
    ] {
        let (port, sent) = flooding(first, next);
        let error = refused(&format!("host=127.0.0.1 port={port} user=u sslmode=disable connect_timeout=60")).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().ends_with("the server sent more than 1 MiB before the login was done"), "{error}");
        assert!(error.hint().expect("a way out").contains("is it a PostgreSQL server"));
        let sent = sent.join().expect("the server ends");
        assert!(sent < FLOOD_BYTES, "the client took {sent} bytes");
    }
}

#[tokio::test]
async fn after_the_login_a_server_may_send_as_much_as_is_asked_for() {
    let database = testkit::database().await;
    for url in [database.url(), database.socket_url()] {
        let connection = connected(&url).await;
        assert_eq!(one(&connection, "select repeat('x', 5 << 20)").await.len(), 5 << 20);
    }
}
