//! Encrypted logins at every `sslmode`, with right and wrong certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use millstream_pg::{Connection, ErrorKind, Explained};
use millstream_testkit::{Build, Certificates, Feature, Need, Server, Settings, build_with, machine_has};

use crate::{connected, one, refused};

/// A server with TLS, and the files of a client that trusts it.
struct Encrypted {
    server: Server,
    dir: tempfile::TempDir,
}

/// Who may log in how: `plain` only without TLS, `secret` only with it, `certified` only with a certificate.
const HBA: &[&str] = &[
    "hostnossl all plain 127.0.0.1/32 trust",
    "host all plain 127.0.0.1/32 reject",
    "hostssl all secret 127.0.0.1/32 trust",
    "host all secret 127.0.0.1/32 reject",
    "hostssl all certified 127.0.0.1/32 cert",
    "host all certified 127.0.0.1/32 reject",
];

impl Encrypted {
    async fn start(build: &'static Build) -> Encrypted {
        let certificates = Certificates::new(&["localhost", "db.example"], "certified");
        let other = Certificates::new(&["localhost"], "certified");
        let dir = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: &str, mode: u32| write(&dir.path().join(name), text, mode);
        put("root.crt", &certificates.root, 0o644);
        put("client.crt", &certificates.client, 0o644);
        put("client.key", &certificates.client_key, 0o600);
        put("open.key", &certificates.client_key, 0o644);
        put("other.crt", &other.root, 0o644);
        put("stranger.crt", &other.client, 0o644);
        put("stranger.key", &other.client_key, 0o600);
        put("server.crt", &certificates.server, 0o644);
        put("empty.crt", "no certificate", 0o644);
        let hba = HBA.iter().map(|line| (*line).to_owned()).collect();
        let server =
            Server::start(build, Settings { certificates: Some(certificates), hba, ..Settings::default() }).await;
        let admin = millstream_testkit::connect(&server.url("postgres")).await;
        for role in ["plain", "secret", "certified"] {
            admin.batch_execute(&format!("create role {role} login")).await.expect("created");
        }
        Encrypted { server, dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Login as this role by the name `localhost`, which is not resolved.
    fn login(&self, role: &str, rest: &str) -> String {
        self.login_at("localhost", role, rest)
    }

    fn login_at(&self, host: &str, role: &str, rest: &str) -> String {
        let rest = rest.replace("DIR", self.dir.path().to_str().expect("UTF-8"));
        format!("host={host} hostaddr=127.0.0.1 port={} dbname=postgres user={role} {rest}", self.server.port())
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode set");
}

async fn is_encrypted(connection: &Connection) -> bool {
    one(connection, "select ssl from pg_stat_ssl where pid = pg_backend_pid()").await == "t"
}

#[tokio::test]
async fn every_mode_encrypts_as_it_promises() {
    let Some(build) = build_with(&[Feature::Tls]).await else { return };
    let on = Encrypted::start(build).await;
    for (role, mode, encrypted) in [
        ("plain", "disable", false),
        ("plain", "allow", false),
        ("plain", "prefer", false),
        ("secret", "allow", true),
        ("secret", "prefer", true),
        ("secret", "require", true),
        ("secret", "verify-ca sslrootcert=DIR/root.crt", true),
        ("secret", "verify-full sslrootcert=DIR/root.crt", true),
        ("secret", "verify-full sslrootcert=DIR/root.crt ssl_max_protocol_version=TLSv1.2", true),
    ] {
        let connection = connected(&on.login(role, &format!("sslmode={mode}"))).await;
        assert_eq!(is_encrypted(&connection).await, encrypted, "{role} {mode}");
    }
    for (role, mode) in [("secret", "disable"), ("plain", "require")] {
        let error = refused(&on.login(role, &format!("sslmode={mode}"))).await;
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Auth, Some("28000")), "{role} {mode}: {error}");
        assert!(error.hint().expect("a way out").contains("pg_hba.conf"));
    }
    let password = on.server.password();
    for binding in ["disable", "prefer", "require"] {
        let rest = format!("sslmode=require password={password} channel_binding={binding}");
        connected(&on.login("millstream", &rest)).await;
    }
    let plain = format!("sslmode=disable password={password} channel_binding=require");
    assert_eq!(refused(&on.login("millstream", &plain)).await.kind(), ErrorKind::Auth);
}

#[tokio::test]
async fn certificates_are_checked_as_far_as_the_mode_asks() {
    let Some(build) = build_with(&[Feature::Tls]).await else { return };
    let on = Encrypted::start(build).await;
    connected(&on.login_at("db.example", "secret", "sslmode=verify-full sslrootcert=DIR/root.crt")).await;
    connected(&on.login_at("elsewhere", "secret", "sslmode=verify-ca sslrootcert=DIR/root.crt")).await;
    for (host, rest, kind, says) in [
        ("elsewhere", "sslmode=verify-full sslrootcert=DIR/root.crt", ErrorKind::Tls, "not made for this host name"),
        ("127.0.0.1", "sslmode=verify-full sslrootcert=DIR/root.crt", ErrorKind::Tls, "not made for this host name"),
        ("localhost", "sslmode=verify-full sslrootcert=DIR/other.crt", ErrorKind::Tls, "is not signed by"),
        ("localhost", "sslmode=verify-ca sslrootcert=DIR/other.crt", ErrorKind::Tls, "is not signed by"),
        ("localhost", "sslmode=require sslrootcert=DIR/other.crt", ErrorKind::Tls, "is not signed by"),
        ("localhost", "sslmode=verify-full sslrootcert=DIR/none.crt", ErrorKind::Config, "does not exist"),
        ("localhost", "sslmode=verify-ca sslrootcert=DIR/empty.crt", ErrorKind::Config, "holds no certificate"),
        ("localhost", "sslmode=verify-ca sslrootcert=/dev/zero", ErrorKind::Config, "it has more than"),
        ("localhost", "sslmode=verify-full", ErrorKind::Config, "needs a root certificate"),
    ] {
        let error = refused(&on.login_at(host, "secret", rest)).await;
        assert_eq!(error.kind(), kind, "{rest}: {error}");
        assert!(error.to_string().contains(says), "{rest}: {error}");
        assert!(kind != ErrorKind::Tls || error.hint().is_some(), "{rest}");
    }
    let error = refused(&on.login("secret", "sslrootcert=system")).await;
    assert!(error.to_string().contains("certificate authorities"), "{error}");
    let nameless = format!("hostaddr=127.0.0.1 port={} user=secret sslmode=verify-full", on.server.port());
    let rest = format!("{nameless} dbname=postgres sslrootcert={}", on.file("root.crt").display());
    assert!(refused(&rest).await.to_string().contains("needs a host name"));
    connected(&on.login("plain", "sslmode=prefer sslrootcert=DIR/other.crt")).await;
}

#[tokio::test]
async fn a_client_certificate_lets_its_role_in() {
    let Some(build) = build_with(&[Feature::Tls]).await else { return };
    let on = Encrypted::start(build).await;
    let with = |certificate: &str, key: &str| {
        on.login("certified", &format!("sslmode=require sslcert=DIR/{certificate} sslkey=DIR/{key}"))
    };
    connected(&with("client.crt", "client.key")).await;
    for (login, says) in [
        (on.login("certified", "sslmode=require"), "certificate"),
        (with("stranger.crt", "stranger.key"), "alert"),
        (with("client.crt", "open.key"), "can be read by group or others"),
        (with("client.crt", "stranger.key"), "cannot be used"),
        (with("client.crt", "none.key"), "cannot be read"),
        (with("client.crt", "client.crt"), "group or others"),
        (with("none.crt", "client.key"), "cannot be read"),
    ] {
        let error = refused(&login).await;
        assert!(error.to_string().contains(says), "{login}: {error}");
        assert!(matches!(error.kind(), ErrorKind::Tls | ErrorKind::Auth | ErrorKind::Config), "{login}: {error:?}");
    }
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_when_it_is_the_root() {
    let Some(build) = build_with(&[Feature::Tls]).await else { return };
    if !machine_has(&[Need::OPENSSL]) {
        return;
    }
    let on = Encrypted::start(build).await;
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-keyout"])
        .arg(on.file("self.key"))
        .arg("-out")
        .arg(on.file("self.crt"))
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |name: &str| fs::read_to_string(on.file(name)).expect("made by openssl");
    on.server.write("server.crt", &read("self.crt")).await;
    on.server.write("server.key", &read("self.key")).await;
    on.server.restart(millstream_testkit::StopMode::Fast).await;
    let connection = connected(&on.login("secret", "sslmode=verify-full sslrootcert=DIR/self.crt")).await;
    assert!(is_encrypted(&connection).await);
    let rest = "sslmode=verify-full sslrootcert=DIR/self.crt";
    assert_eq!(refused(&on.login_at("elsewhere", "secret", rest)).await.kind(), ErrorKind::Tls);
    assert_eq!(refused(&on.login("secret", "sslmode=verify-ca sslrootcert=DIR/root.crt")).await.kind(), ErrorKind::Tls);
}

#[tokio::test]
async fn a_server_without_tls_is_used_only_where_the_mode_allows() {
    let database = millstream_testkit::database().await;
    for mode in ["disable", "allow", "prefer"] {
        connected(&format!("{}?sslmode={mode}", database.url())).await;
    }
    let error = refused(&format!("{}?sslmode=require", database.url())).await;
    assert_eq!(error.kind(), ErrorKind::Tls);
    assert!(error.to_string().contains("does not support TLS"), "{error}");
    connected(&format!("{}&sslmode=require", database.socket_url())).await;
}

#[tokio::test]
async fn direct_tls_starts_with_the_first_byte() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let listen = async {
        let (mut stream, _) = listener.accept().await.expect("somebody connects");
        let mut hello = vec![0; 4096];
        let length = tokio::io::AsyncReadExt::read(&mut stream, &mut hello).await.expect("bytes");
        hello.truncate(length);
        hello
    };
    let text = format!("host=127.0.0.1 port={port} user=u sslmode=require sslnegotiation=direct");
    let (hello, error) = tokio::join!(listen, refused(&text));
    assert_eq!(hello.first(), Some(&0x16), "a TLS handshake record");
    assert!(hello.windows(10).any(|bytes| bytes == b"postgresql"), "the protocol is named, as PostgreSQL 17 demands");
    assert!(matches!(error.kind(), ErrorKind::Tls | ErrorKind::Unreachable), "{error}");
}
