//! A new database cluster and the files that configure it.

use crate::error::Error;
use crate::home::Home;
use crate::installation::Installation;
use crate::limits::{CONF_BYTES_MAX, INIT_FREE_BYTES_MIN, PROGRAM_SECONDS_MAX, SOCKET_PATH_BYTES_MAX};
use crate::options::Progress;
use crate::postmaster::write_as;
use millstream_host::{Account, Command, Ended, disk_free_bytes, facts, read_plain};
use millstream_pg::sizing::{BuildFacts, Setting, settings};
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the superuser and of the database.
pub(crate) const ROLE: &str = "millstream";

/// Prefix of the directories in which clusters are made.
const STAGING_PREFIX: &str = ".new-";

/// Makes a new cluster in a staging directory and moves it into place when it is complete, so that an interrupted
/// attempt never looks like a data directory. Removes what such attempts left.
pub(crate) async fn create(
    home: &Home,
    installation: &Installation,
    account: &Account,
    wal_segment_mb: Option<u32>,
    progress: Progress<'_>,
) -> Result<(), Error> {
    if let Some(free_bytes) = disk_free_bytes(&home.dir)
        && free_bytes < INIT_FREE_BYTES_MIN
    {
        return Err(Error::DiskFull { path: home.dir.clone(), free_bytes: Some(free_bytes) });
    }
    progress(&format!("making a new database cluster in {}", home.data().display()));
    remove_unfinished(home);
    let staging = home.dir.join(format!("{STAGING_PREFIX}{:016x}", fastrand::u64(..)));
    Home::create_for(account, &staging)?;
    let made = fill(home, installation, account, wal_segment_mb, &staging).await;
    let _ = fs::remove_dir_all(&staging);
    made
}

fn remove_unfinished(home: &Home) {
    for entry in fs::read_dir(&home.dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

async fn fill(
    home: &Home,
    installation: &Installation,
    account: &Account,
    wal_segment_mb: Option<u32>,
    staging: &Path,
) -> Result<(), Error> {
    let data = staging.join("data");
    let password = password()?;
    let password_file = staging.join("password");
    write_as(account, &password_file, &password)?;

    let mut initdb = account.command(installation.program("initdb"));
    initdb
        .args(initdb_arguments(installation.major).split(' '))
        .arg("--pwfile")
        .arg(password_file)
        .arg("--pgdata")
        .arg(&data);
    if let Some(megabytes) = wal_segment_mb {
        initdb.arg(format!("--wal-segsize={megabytes}"));
    }
    run(&mut initdb, home).await?;
    write_as(account, &data.join("pg_hba.conf"), HBA)?;
    write_as(account, &data.join("pg_ident.conf"), &ident(&account.name))?;
    write_as(account, &data.join("postgresql.conf"), &postgresql_conf(&data)?)?;

    let mut single = account.command(installation.program("postgres"));
    single.args(["--single", "-c", "exit_on_error=on", "-D"]).arg(&data).arg("postgres");
    run(single.input(format!("create database {ROLE}\n")), home).await?;

    // Write the password first, so that a cluster in place always has one.
    Home::replace(&home.password(), 0o600, &password)?;
    fs::rename(&data, home.data()).map_err(Error::io("create", &home.data()))
}

/// Sorts by code point whatever the machine's language: it is the fastest order, and no update of the system's locales
/// can change it under an index. From version 17 on, PostgreSQL itself knows upper and lower case of all letters. Older
/// versions with locale C know only that of the English ones.
fn initdb_arguments(major: u32) -> String {
    let mut arguments = vec!["--username", ROLE, "--encoding", "UTF8", "--locale", "C", "--data-checksums"];
    if major >= 17 {
        arguments.extend(["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]);
    }
    arguments.extend(["--auth-local", "peer", "--auth-host", "scram-sha-256"]);
    arguments.join(" ")
}

/// Who may connect, and how.
const HBA: &str = "\
# Made by millstream. On the unix socket the operating system says who you are; pg_ident.conf says
# who may be whom. On the network, which is this machine alone, the generated password.
local all all peer map=millstream
host all all 127.0.0.1/32 scram-sha-256
host all all ::1/128 scram-sha-256
local replication all peer map=millstream
";

/// Root and the account that runs the server are the superuser on the unix socket. Only these two can reach the socket;
/// if an ordinary user runs the server, that user and root.
fn ident(account: &str) -> String {
    let mut text = "# Made by millstream: map, system account, role.\n".to_owned();
    let others = Some("root").filter(|root| *root != account);
    for name in [account].into_iter().chain(others) {
        let _ = writeln!(text, "millstream \"{name}\" {ROLE}");
    }
    text
}

fn postgresql_conf(data: &Path) -> Result<String, Error> {
    let path = data.join("postgresql.conf");
    let usual = read_plain(&path, CONF_BYTES_MAX).map_err(Error::io("read", &path))?.unwrap_or_default();
    Ok(format!(
        "{usual}\n\
         # Generated at every start for the machine and the build. To change a setting for good use\n\
         # \"alter system\", whose settings win over all files.\n\
         include_if_exists '../millstream.conf'\n"
    ))
}

fn password() -> Result<String, Error> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 24];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(Error::io("read", path))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs a program to its end. If we end, it ends too: what it has made so far is of no use.
async fn run(command: &mut Command, home: &Home) -> Result<(), Error> {
    let ended = command.run(Duration::from_secs(PROGRAM_SECONDS_MAX)).await.and_then(Ended::succeeded);
    let Err(error) = ended else { return Ok(()) };
    let output = error.to_string();
    if output.contains("No space left on device") {
        return Err(Error::DiskFull { path: home.dir.clone(), free_bytes: disk_free_bytes(&home.dir) });
    }
    Err(Error::Init { home: home.dir.clone(), output })
}

/// The directory of the unix socket; `None` if the socket's path would be too long.
pub(crate) fn socket_dir(home: &Home) -> Option<PathBuf> {
    let dir = home.socket_dir();
    let longest = dir.join(".s.PGSQL.65535");
    (longest.as_os_str().len() <= SOCKET_PATH_BYTES_MAX).then_some(dir)
}

/// Writes the generated settings.
pub(crate) fn write_conf(home: &Home, installation: &Installation, account: &Account, port: u16) -> Result<(), Error> {
    let build = BuildFacts {
        major: installation.major,
        lz4: installation.accepts(account, "default_toast_compression", "lz4"),
    };
    let mut list = access(home, port);
    list.extend(settings(&facts(&home.dir), build));
    Home::replace(&home.conf(), 0o644, &conf(&list))
}

fn access(home: &Home, port: u16) -> Vec<Setting> {
    let setting = |name, value: String, reason: &str| Setting { name, value, reason: reason.to_owned() };
    let sockets = socket_dir(home).map_or_else(String::new, |dir| dir.display().to_string());
    vec![
        setting("listen_addresses", "127.0.0.1".to_owned(), "this machine alone"),
        setting("port", port.to_string(), "free when the server was first started, and remembered"),
        setting(
            "unix_socket_directories",
            sockets,
            "beside the data; none where the path would be too long for a socket",
        ),
        setting("unix_socket_permissions", "0700".to_owned(), "the account that runs the server, and root"),
        setting(
            "search_path",
            "public".to_owned(),
            "the role has the name of the schema of millstream's own tables: with \"$user\" first, tables \
             made by hand would land there, and its tables would hide those of the same name",
        ),
        setting("log_line_prefix", "%m [%p] %a ".to_owned(), "time, process and application: a lane has its own name"),
    ]
}

fn conf(list: &[Setting]) -> String {
    let mut text = "# Generated by millstream at every start; changes here are lost. To change a setting for\n\
                    # good use \"alter system set NAME = VALUE\", which wins over this file.\n"
        .to_owned();
    for one in list {
        let _ = write!(text, "\n# {}\n{} = '{}'\n", one.reason, one.name, one.value.replace('\'', "''"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_reason_as_a_comment() {
        let list = [Setting { name: "a", value: "it's".to_owned(), reason: "because".to_owned() }];
        assert!(conf(&list).ends_with("\n# because\na = 'it''s'\n"));
    }

    #[test]
    fn root_and_the_account_map_to_the_superuser() {
        assert_eq!(ident("postgres").matches(ROLE).count(), 5);
        assert!(ident("postgres").contains("\nmillstream \"root\" millstream\n"));
        assert_eq!(ident("root").matches("\"root\"").count(), 1);
    }

    #[test]
    fn a_long_home_directory_gets_no_socket() {
        let home = |dir: String| Home { dir: PathBuf::from(dir) };
        assert!(socket_dir(&home("/var/lib/millstream".to_owned())).is_some());
        assert!(socket_dir(&home(format!("/{}", "x".repeat(90)))).is_none());
    }

    #[test]
    fn passwords_differ_and_need_no_quoting() {
        let (one, two) = (password().unwrap(), password().unwrap());
        assert_ne!(one, two);
        assert!(one.len() == 48 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
