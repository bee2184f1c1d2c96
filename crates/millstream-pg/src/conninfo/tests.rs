//! What connection strings mean: URLs, pairs, variables, files, and their order of precedence.

use crate::Explained;
use millstream_testkit::{Need, machine_has};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::*;

fn plain() -> Environment {
    Environment::default().with_user("me")
}

fn parse(text: &str) -> ConnInfo {
    ConnInfo::parse(text, &plain()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refusal(text: &str) -> String {
    ConnInfo::parse(text, &plain()).expect_err(text).to_string()
}

fn shown(info: &ConnInfo) -> Vec<String> {
    info.hosts.iter().map(ToString::to_string).collect()
}

fn password(info: &ConnInfo, host: usize) -> Option<&str> {
    info.hosts[host].password.as_ref().map(Secret::reveal)
}

#[test]
fn an_empty_string_means_the_defaults() {
    let info = parse("");
    assert_eq!((info.user.as_str(), info.dbname.as_str()), ("me", "me"));
    assert_eq!(shown(&info), ["localhost:5432"]);
    assert_eq!(info.tls.mode, SslMode::Prefer);
    assert_eq!(info.target, TargetSession::Any);
    assert_eq!(info.connect_timeout, Some(Duration::from_secs(limits::CONNECT_TIMEOUT_S)));
    let error = ConnInfo::parse("", &Environment::default()).expect_err("no user");
    assert!(error.hint().expect("a way out").contains("user=NAME"));
}

#[test]
fn a_bare_word_is_a_database() {
    assert_eq!(parse("shop").dbname, "shop");
    assert_eq!(parse("  shop\n").dbname, "shop");
}

#[test]
fn a_url_is_split_and_decoded() {
    let info =
        parse("postgresql://al%69ce:p%40ss%2Fw%3Ard@db.example:6543/sh%20op?sslmode=require&application_name=a%26b");
    assert_eq!(info.user, "alice");
    assert_eq!(password(&info, 0), Some("p@ss/w:rd"));
    assert_eq!(info.dbname, "sh op");
    assert_eq!(shown(&info), ["db.example:6543"]);
    assert_eq!(info.tls.mode, SslMode::Require);
    assert_eq!(info.application_name.as_deref(), Some("a&b"));
}

#[test]
fn parts_of_a_url_may_be_missing() {
    for (text, user, host, dbname) in [
        ("postgres://", "me", "localhost:5432", "me"),
        ("postgres:///d", "me", "localhost:5432", "d"),
        ("postgres://u@/d", "u", "localhost:5432", "d"),
        ("postgres://h", "me", "h:5432", "me"),
        ("postgres://h:1", "me", "h:1", "me"),
        ("postgres://h:/d", "me", "h:5432", "d"),
        ("postgres://:1/d", "me", "localhost:1", "d"),
        ("postgres://u@h", "u", "h:5432", "u"),
        ("postgres://u:@h/", "u", "h:5432", "u"),
        ("postgres://h?dbname=d&user=u", "u", "h:5432", "d"),
        ("postgres:///?host=h&port=7", "me", "h:7", "me"),
        ("postgres://h/d?dbname=other", "me", "h:5432", "other"),
        ("postgres:// u @ h /d?port=2& ", "u", "h:2", "d"),
        ("postgres://[::1]:9/d", "me", "[::1]:9", "d"),
        ("postgres://[2001:db8::1234]/d", "me", "[2001:db8::1234]:5432", "d"),
    ] {
        let info = parse(text);
        assert_eq!(
            (info.user.as_str(), shown(&info)[0].as_str(), info.dbname.as_str()),
            (user, host, dbname),
            "{text}"
        );
    }
}

#[test]
fn several_hosts_take_one_port_or_as_many() {
    assert_eq!(shown(&parse("postgres://a:1,b:2,[::1]:3/d")), ["a:1", "b:2", "[::1]:3"]);
    assert_eq!(shown(&parse("postgres://a,b:2/d")), ["a:5432", "b:2"]);
    assert_eq!(shown(&parse("host=a,b,c port=7")), ["a:7", "b:7", "c:7"]);
    assert_eq!(shown(&parse("host=a,b port=1,2")), ["a:1", "b:2"]);
    assert_eq!(shown(&parse("host=a,b port=,2")), ["a:5432", "b:2"]);
    let env = Environment::from_variables([("PGUSER", "u"), ("PGPORT", "9")]);
    assert_eq!(shown(&ConnInfo::parse("postgres://a/d", &env).expect("parses")), ["a:9"]);
    assert_eq!(shown(&ConnInfo::parse("postgres://a,b/d", &env).expect("parses")), ["a:5432", "b:5432"], "as libpq");
    assert!(refusal("host=a,b,c port=1,2").contains("could not match 2 port numbers to 3 hosts"));
    assert!(refusal("host=a,b hostaddr=127.0.0.1").contains("could not match 2 host names to 1 hostaddr"));
}

#[test]
fn addresses_and_sockets_are_distinguished() {
    let info = parse("host=db.example hostaddr=10.0.0.7");
    assert_eq!(info.hosts[0].address, Address::Ip("10.0.0.7".parse().expect("an address")));
    assert_eq!(info.hosts[0].name.as_deref(), Some("db.example"));
    let bare = parse("hostaddr=::1");
    assert_eq!((bare.hosts[0].name.clone(), bare.is_local()), (None, true));
    let socket = parse("postgres://%2Frun%2Fpg:6000/d");
    assert_eq!(socket.hosts[0].address, Address::Socket("/run/pg".into()));
    assert_eq!(shown(&socket), ["/run/pg/.s.PGSQL.6000"]);
    assert_eq!(parse("host=/run/pg").hosts[0].address, Address::Socket("/run/pg".into()));
    assert!(refusal("hostaddr=db.example").contains("is not an IP address"));
    assert!(refusal("host=@abstract").contains("abstract"));
}

#[test]
fn an_existing_socket_is_used_if_no_host_is_given() {
    let dir = tempfile::tempdir().expect("a directory");
    let (empty, used) = (dir.path().join("empty"), dir.path().join("used"));
    fs::create_dir(&empty).expect("made");
    fs::create_dir(&used).expect("made");
    fs::write(used.join(".s.PGSQL.7000"), "").expect("written");
    let env = plain().with_socket_dirs(vec![empty.clone(), used.clone()]);
    let address = |text: &str| ConnInfo::parse(text, &env).expect("parses").hosts[0].address.clone();
    assert_eq!(address("port=7000"), Address::Socket(used));
    assert_eq!(address("port=7001"), Address::Socket(empty));
}

#[test]
fn a_socket_that_anybody_may_have_made_is_not_used_unless_it_is_named() {
    if !machine_has(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (empty, shared) = (dir.path().join("empty"), dir.path().join("shared"));
    for dir in [&empty, &shared] {
        fs::create_dir(dir).expect("made");
    }
    let socket = shared.join(".s.PGSQL.7000");
    fs::write(&socket, "").expect("written");
    let env = plain().with_socket_dirs(vec![empty.clone(), shared.clone()]);
    let nobody = Some(65_534);
    // The rights of the directory, its owner, the owner of the socket, and whether it is used.
    for (mode, owner, server, used) in [
        (0o1777, None, nobody, false),
        (0o775, None, nobody, false),
        (0o755, None, nobody, true),
        (0o1777, None, None, true),
        (0o2775, nobody, nobody, true),
    ] {
        chown(&shared, owner.or(Some(0)), None).expect("given away");
        chown(&socket, server.or(Some(0)), None).expect("given away");
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).expect("set");
        let host = ConnInfo::parse("port=7000", &env).expect("parses").hosts.remove(0);
        let expected = if used { &shared } else { &empty };
        assert_eq!((host.address, host.is_searched), (Address::Socket(expected.clone()), true), "{mode:o}");
    }
    let named = ConnInfo::parse(&format!("host={}", shared.display()), &env).expect("parses").hosts.remove(0);
    assert_eq!((named.address, named.is_searched), (Address::Socket(shared), false));
}

#[test]
fn pairs_may_be_quoted_and_escaped() {
    let info = parse(r"host = h user='o\'brien x' password='a\\b c' dbname=a\ b options='-c a=b' ");
    assert_eq!(info.user, "o'brien x");
    assert_eq!(password(&info, 0), Some(r"a\b c"));
    assert_eq!(info.dbname, "a b");
    assert_eq!(info.options.as_deref(), Some("-c a=b"));
    assert_eq!(parse("user=a user=b dbname=''").user, "b", "the last one wins");
    assert_eq!(parse("host='' user=x\tdbname=y\n").dbname, "y");
}

#[test]
fn errors_never_repeat_a_misquoted_password() {
    for text in [
        "me:hunter2@db/shop",
        "me:hunter2@db:5432/shop?sslmode=require",
        "me:hun=ter2@db/shop",
        "mysql://me:hunter2@db/shop",
        "postgres://me:x@hunter2@db/shop",
        "postgres://me:x/hunter2@db/shop",
        "postgres://me:1/hunter2@db/shop",
        "postgres://me:1#hunter2@x@db/shop",
    ] {
        let error = ConnInfo::parse(text, &Environment::default()).expect_err(text);
        let shown = format!("{error} {error:?} {:?}", error.hint());
        assert!(!shown.contains("hunter2") && error.hint().is_some(), "{text}: {shown}");
    }
    for text in ["host=a@b user=me", "user=me@realm host=h", "postgres://me:p%40x@h/d", "postgres://h/d?user=me@realm"]
    {
        assert!(ConnInfo::parse(text, &Environment::default()).is_ok(), "{text}");
    }
}

#[test]
fn malformed_text_is_refused_with_its_reason() {
    for (text, reason) in [
        ("hosst=h", "invalid connection option \"hosst\""),
        ("host=h oops", "missing \"=\" after \"oops\""),
        ("user='open", "unterminated quoted string"),
        ("port=0", "invalid port number \"0\""),
        ("port=70000", "invalid port number \"70000\""),
        ("connect_timeout=soon", "invalid integer value \"soon\""),
        ("sslmode=maybe", "invalid sslmode value: \"maybe\""),
        ("target_session_attrs=rw", "invalid target_session_attrs value"),
        ("postgres://a b@h", "blanks inside"),
        ("postgres://h?port=1&&b=2", "missing \"=\""),
        ("postgres://h?nonsense=1", "invalid URL query parameter \"nonsense\""),
        ("postgres://h?sslmode", "missing \"=\""),
        ("postgres://h?sslmode=a=b", "extra \"=\""),
        ("postgres://u:p%4@h", "two hexadecimal digits"),
        ("postgres://u:p%zz@h", "two hexadecimal digits"),
        ("postgres://u:%00@h", "%00"),
        ("postgres://u:%ff@h", "not UTF-8"),
        ("postgres://[::1", "without \"]\""),
        ("postgres://[]/d", "is empty"),
        ("postgres://[::1]x/d", "unexpected character"),
        ("postgres://u@::1:5432/d", "has no brackets"),
        ("postgres://2001:db8::7", "has no brackets"),
        ("postgres://u@h,fe80::1:x/d", "has no brackets"),
        ("postgres://u@h:1:2/d", "port is not a number"),
        ("sslcrl=/x", "revocation lists"),
        ("requirepeer=postgres", "server's user"),
        ("gssencmode=require", "GSSAPI"),
        ("require_auth=scram-sha-256", "cannot be enforced"),
        ("sslmode=prefer sslnegotiation=direct", "weak sslmode"),
        ("sslmode=require sslrootcert=system", "weak sslmode"),
        ("ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2", "higher"),
    ] {
        let message = refusal(text);
        assert!(message.contains(reason), "{text}: {message}");
    }
}

#[test]
fn no_error_repeats_a_password() {
    for text in [
        "postgres://u:s3cr/et@h/d",
        "postgres://u:s3cret%@h/d",
        "postgres://u:s3cr@et@h:x/d",
        "password=pass s3cret!",
        "password='s3cret",
    ] {
        let Err(error) = ConnInfo::parse(text, &plain()) else { continue };
        for text in [error.to_string(), error.hint().unwrap_or_default(), format!("{error:?}")] {
            assert!(!text.contains("s3cr") && !text.contains("et@h"), "{text}");
        }
    }
    let info = parse("postgres://u:s3cret@h/d");
    assert!(!format!("{info:?}{}", info.describe()).contains("s3cret"));
}

#[test]
fn harmless_settings_are_accepted_and_ignored() {
    let info =
        parse("client_encoding=LATIN1 krbsrvname=x gsslib=y sslcompression=1 gssencmode=prefer replication=false");
    assert_eq!(info.user, "me");
    assert_eq!(parse("postgres://h?ssl=true").tls.mode, SslMode::Require);
}

#[test]
fn variables_fill_in_missing_settings() {
    let env = Environment::from_variables([
        ("PGHOST", "envhost"),
        ("PGPORT", "7777"),
        ("PGUSER", "envuser"),
        ("PGPASSWORD", "envpass"),
        ("PGSSLMODE", "verify-full"),
        ("PGTARGETSESSIONATTRS", "primary"),
        ("PGAPPNAME", "envapp"),
        ("PGOPTIONS", "-c geqo=off"),
        ("PGCONNECT_TIMEOUT", "3"),
        ("PGDATABASE", ""),
    ]);
    let info = ConnInfo::parse("", &env).expect("parses");
    assert_eq!(info.describe(), "postgres://envuser@envhost:7777/envuser (sslmode=verify-full)");
    assert_eq!(password(&info, 0), Some("envpass"));
    assert_eq!(info.target, TargetSession::Primary);
    assert_eq!(info.connect_timeout, Some(Duration::from_secs(3)));
    let info = ConnInfo::parse("postgres://u:p@h:1/d?sslmode=disable&options=", &env).expect("parses");
    assert_eq!(info.describe(), "postgres://u@h:1/d (sslmode=disable)");
    assert_eq!(password(&info, 0), Some("p"));
    assert_eq!(info.options.as_deref(), Some(""), "said empty is said");
    let refused = Environment::from_variables([("PGREQUIREPEER", "postgres"), ("PGUSER", "u")]);
    assert!(ConnInfo::parse("", &refused).expect_err("refused").to_string().contains("PGREQUIREPEER"));
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode set");
}

#[test]
fn the_password_file_gives_each_host_its_own() {
    let home = tempfile::tempdir().expect("a directory");
    let sockets = home.path().join("run");
    fs::create_dir(&sockets).expect("made");
    let file = home.path().join(".pgpass");
    write(&file, "a:1:*:me:one\nb:*:d:me:two\nlocalhost:*:*:me:local\n10.0.0.7:*:*:*:byaddr\n", 0o600);
    let env = plain().with_home(home.path()).with_socket_dirs(vec![sockets]);
    let info = ConnInfo::parse("postgres://a:1,b:2,c:3/d", &env).expect("parses");
    assert_eq!([0, 1, 2].map(|i| password(&info, i)), [Some("one"), Some("two"), None]);
    let local = ConnInfo::parse("", &env).expect("parses");
    assert_eq!(password(&local, 0), Some("local"), "the default socket counts as localhost");
    let by_address = ConnInfo::parse("hostaddr=10.0.0.7", &env).expect("parses");
    assert_eq!(password(&by_address, 0), Some("byaddr"));
    let said = ConnInfo::parse("host=a port=1 password=said", &env).expect("parses");
    assert_eq!(password(&said, 0), Some("said"));

    let other = home.path().join("other");
    write(&other, "*:*:*:*:elsewhere\n", 0o600);
    let named = ConnInfo::parse(&format!("host=a passfile={}", other.display()), &env).expect("parses");
    assert_eq!(password(&named, 0), Some("elsewhere"));
    let variables = Environment::from_variables([("PGPASSFILE", other.to_str().expect("UTF-8")), ("PGUSER", "u")]);
    assert_eq!(password(&ConnInfo::parse("host=a", &variables).expect("parses"), 0), Some("elsewhere"));
}

#[test]
fn another_role_has_its_own_password_or_none() {
    let home = tempfile::tempdir().expect("a directory");
    write(&home.path().join(".pgpass"), "*:*:*:shop:theirs\n", 0o600);
    let env = Environment::from_variables([("PGPASSWORD", "mine")]).with_home(home.path());
    let info = ConnInfo::parse("postgres://me@a/d", &env).expect("parses");
    assert_eq!(password(&info, 0), Some("mine"));
    let shop = info.as_role("shop", &env);
    assert_eq!((shop.user.as_str(), password(&shop, 0)), ("shop", Some("theirs")));
    assert_eq!(password(&info.as_role("other", &env), 0), None);
}

#[test]
fn a_password_file_others_can_read_is_ignored_with_a_warning() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join(".pgpass");
    write(&file, "*:*:*:*:secret\n", 0o640);
    let env = plain().with_home(home.path());
    let info = ConnInfo::parse("host=a", &env).expect("parses");
    assert_eq!(password(&info, 0), None);
    assert!(info.warnings()[0].contains("can be read by group or others"), "{:?}", info.warnings());
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("made");
    assert!(ConnInfo::parse("host=a", &env).expect("parses").warnings()[0].contains("not a plain file"));
}

#[test]
fn a_service_ranks_between_text_and_variables() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join(".pg_service.conf");
    write(&file, "[shop]\nhost=svc\nport=6\nuser=svcuser\n", 0o600);
    let env = Environment::from_variables([("PGUSER", "envuser"), ("PGDATABASE", "envdb"), ("PGSERVICE", "shop")])
        .with_home(home.path());
    let info = ConnInfo::parse("port=7", &env).expect("parses");
    assert_eq!(info.describe(), "postgres://svcuser@svc:7/envdb (sslmode=prefer)");
    assert!(ConnInfo::parse("service=none", &env).expect_err("unknown").to_string().contains("\"none\" not found"));
}

#[test]
fn a_service_file_that_is_a_pipe_is_refused_at_once() {
    let home = tempfile::tempdir().expect("a directory");
    let pipe = home.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).expect("made");
    let variables = [("PGUSER", "me"), ("PGSERVICEFILE", pipe.to_str().expect("UTF-8"))];
    let error = ConnInfo::parse("service=shop", &Environment::from_variables(variables)).expect_err("a pipe");
    assert!(error.to_string().ends_with("cannot be read: it is a pipe, and must be a file"), "{error}");
}

#[test]
fn certificates_come_from_the_home_directory_unless_named() {
    let env = plain().with_home("/home/me");
    let tls = |text: &str| ConnInfo::parse(text, &env).expect("parses").tls;
    let usual = tls("host=h");
    assert_eq!(usual.root, TlsRoot::File("/home/me/.postgresql/root.crt".into()));
    let client = usual.client.expect("the usual place");
    assert_eq!(client.key, PathBuf::from("/home/me/.postgresql/postgresql.key"));
    assert!(!client.named);
    let named = tls("host=h sslrootcert=/r sslcert=/c sslkey=/k sslmode=verify-ca sslsni=0");
    assert_eq!(named.root, TlsRoot::File("/r".into()));
    assert!(named.client.is_some_and(|c| c.named && c.key == Path::new("/k")));
    assert!(!named.sni);
    assert_eq!(tls("host=h sslcertmode=disable").client, None);
    let system = tls("host=h sslrootcert=system");
    assert_eq!((system.root, system.mode), (TlsRoot::System, SslMode::VerifyFull));
}

#[test]
fn a_description_parses_to_the_same_hosts() {
    for text in [
        "postgres://u:p@a:1,[::1]:2/d%20b",
        "host=/run/pg port=7 user=u dbname=d",
        "host=/run/pg,h port=7,8 user=u dbname=d",
    ] {
        let info = parse(text);
        let url = info.describe();
        let again = parse(url.split(" (").next().expect("a URL"));
        assert_eq!(shown(&again), shown(&info), "{url}");
        assert_eq!((again.user, again.dbname), (info.user, info.dbname), "{url}");
    }
}

#[test]
fn a_connection_string_without_its_password_leads_to_the_same_place() {
    let without = |info: &ConnInfo, text: &str| info.without_password(text).expect("it was read before");
    for text in ["", "shop", "postgres://db1:5433/shop?sslmode=require", "host=db1 user=you"] {
        assert_eq!(without(&parse(text), text), (text.to_owned(), false));
    }
    for text in [
        "postgres://you:se%40cret@db1:5433,[::1]:5434/shop?sslmode=require&application_name=it's%20a",
        "postgres://you@db1/shop?password=se%40cret",
        "host=/run/pg port=5433 password='se@cret' dbname='o\\'clock \\\\'",
    ] {
        let info = parse(text);
        let (given, had_one) = without(&info, text);
        assert!(had_one && !given.contains("cret"), "{given}");
        let same = parse(&given);
        assert_eq!(shown(&same), shown(&info), "{given}");
        assert_eq!((&same.user, &same.dbname, same.tls.mode), (&info.user, &info.dbname, info.tls.mode), "{given}");
        assert_eq!((password(&same, 0), &same.application_name), (None, &info.application_name), "{given}");
    }
}

#[test]
fn a_node_gets_the_role_and_the_password_of_the_first_host() {
    let info = parse("host=a.example,b.example port=5001 user=me password=secret dbname=shop sslmode=require");
    for (host, place) in [("w1", "w1:7000"), ("10.0.0.7", "10.0.0.7:7000"), ("/run/pg", "/run/pg/.s.PGSQL.7000")] {
        let node = info.of_node(host, 7_000, "-c a=b");
        assert_eq!((shown(&node), password(&node, 0)), (vec![place.to_owned()], Some("secret")), "{host}");
        assert_eq!((&node.user, &node.dbname, node.tls == info.tls), (&info.user, &info.dbname, true), "{host}");
        assert_eq!(node.options.as_deref(), Some("-c a=b"));
        assert_eq!(node.of_node(host, 7_000, "-c c=d").options.as_deref(), Some("-c a=b -c c=d"));
    }
}

#[test]
fn local_means_every_host_is_this_machine() {
    for (text, local) in [
        ("host=/run/pg", true),
        ("host=localhost,127.0.0.1,::1", true),
        ("host=localhost hostaddr=10.0.0.7", false),
        ("host=localhost,db.example", false),
        ("host=127.8.9.10", true),
    ] {
        assert_eq!(parse(text).is_local(), local, "{text}");
    }
}

#[test]
fn timeouts_and_keepalives_are_read() {
    let info = parse(
        "connect_timeout=0 keepalives=0 keepalives_idle=5 keepalives_interval=' 6 ' keepalives_count=7 tcp_user_timeout=800",
    );
    assert_eq!(info.connect_timeout, None);
    assert!(!info.keepalives.on);
    assert_eq!(info.keepalives.idle, Duration::from_secs(5));
    assert_eq!(info.keepalives.interval, Duration::from_secs(6));
    assert_eq!(info.keepalives.retries, 7);
    assert_eq!(info.keepalives.user_timeout, Some(Duration::from_millis(800)));
    assert!(parse("load_balance_hosts=random").load_balance);
}
