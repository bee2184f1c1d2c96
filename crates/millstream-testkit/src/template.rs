//! Data directories that are made once per build and copied for every test server, in a tenth of the time of `initdb`.

use crate::build::{Build, account, home};
use crate::limits::{PROGRAM_TIME_MAX, STOP_POLL};
use millstream_host::{Account, Command, Ended, FileLock, wait_until};
use std::fs;
use std::path::{Path, PathBuf};

/// Increase this when the contents of a template change.
const TEMPLATE_VERSION: u32 = 1;

/// A complete data directory that was never started.
#[derive(Debug)]
pub(crate) struct Template {
    /// The data directory, readable only by the account that runs servers.
    pub(crate) data: PathBuf,
    /// Password of the superuser.
    pub(crate) password: String,
}

/// Name of the superuser on test servers.
pub(crate) const SUPERUSER: &str = "millstream";

impl Template {
    /// The template of a build, made if this machine has none yet.
    pub(crate) async fn of(build: &Build) -> Self {
        let parent = home().dir.join("testkit");
        fs::create_dir_all(&parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        let program = build.installation.program("postgres");
        let name = format!(
            "template{TEMPLATE_VERSION}-{}.{}-{:016x}",
            build.major(),
            build.installation.minor,
            path_hash(&program)
        );
        let dir = parent.join(&name);
        if !dir.is_dir() {
            let lock = lock(&parent.join("lock")).await;
            if !dir.is_dir() {
                make(build, &parent, &dir).await;
            }
            drop(lock);
        }
        let password = fs::read_to_string(dir.join("password")).expect("a template has a password");
        Self { data: dir.join("data"), password }
    }
}

/// Distinguishes builds of the same version.
fn path_hash(path: &Path) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// Waits for the lock without blocking the runtime. It is released when it is dropped.
async fn lock(path: &Path) -> FileLock {
    let take = || FileLock::try_take(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    wait_until(PROGRAM_TIME_MAX, STOP_POLL, take).await.expect("making a template takes seconds")
}

async fn make(build: &Build, parent: &Path, dir: &Path) {
    let account = account();
    let staging = tempfile::Builder::new()
        .prefix(".template-")
        .tempdir_in(parent)
        .expect("a directory can be made beside the templates");
    let password = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
    let password_file = staging.path().join("password");
    let data = staging.path().join("data");
    open_up(staging.path());
    fs::write(&password_file, &password).expect("the password can be written");
    fs::create_dir(&data).expect("the data directory can be made");
    for path in [&password_file, &data] {
        account.own(path).unwrap_or_else(|error| panic!("{error}"));
    }
    initdb(build, &account, &data, &password_file).await;
    fs::rename(staging.keep(), dir).expect("the template can be moved into place");
}

/// A temporary directory is private to us, but the account must enter it.
fn open_up(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("our own directory");
}

async fn initdb(build: &Build, account: &Account, data: &Path, password_file: &Path) {
    let mut command = account.command(build.installation.program("initdb"));
    command
        .args(["--username", SUPERUSER, "--encoding", "UTF8"])
        .args(["--locale", "C", "--auth-local", "trust"])
        .args(["--auth-host", "scram-sha-256", "--no-sync", "--pgdata"])
        .arg(data)
        .arg("--pwfile")
        .arg(password_file);
    run(&mut command, "initdb").await;
}

/// Runs a program to its end. If it fails, the panic message holds its output.
pub(crate) async fn run(command: &mut Command, what: &str) {
    let ended = command.run(PROGRAM_TIME_MAX).await.and_then(Ended::succeeded);
    ended.unwrap_or_else(|error| panic!("{what}: {error}"));
}
