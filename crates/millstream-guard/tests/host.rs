//! This host as another one: a test runs once more in a network of its own, with files of its own below `/etc`, and calls the
//! library there.

use millstream_host::{Command, Ended, Sandbox};
use millstream_testkit::{Need, machine_has};
use std::fs;
use std::path::{Path, PathBuf};

/// What the tests need that load rules, in networks of their own.
pub(crate) const NEEDS: &[Need] = &[Need::Networks, Need::NFT, Need::IPTABLES];

/// Variables that say to a test that it is on such a host: a directory of the test, and the number of the script before it.
const DIR: &str = "MILLSTREAM_TEST_HOST";
const SCRIPT: &str = "MILLSTREAM_TEST_HOST_SCRIPT";

/// A host that a test may change.
#[derive(Debug)]
pub(crate) struct Host {
    /// A directory of the test.
    pub(crate) dir: PathBuf,
    /// Which script was run before the test.
    pub(crate) script: usize,
}

impl Host {
    /// The host on which the test of this name is. Outside of any, the test is run on one, and there is none: `None`, also after
    /// a skip, where none can be made. Only root can read all of `/etc`.
    pub(crate) fn of(test: &str) -> Option<Self> {
        Self::after(test, &[""])
    }

    /// The same on as many hosts as there are scripts. On each of them, the shell that starts the test has run one.
    pub(crate) fn after(test: &str, scripts: &[impl AsRef<str>]) -> Option<Self> {
        if let Some(dir) = std::env::var_os(DIR) {
            let script = std::env::var(SCRIPT).unwrap().parse().unwrap();
            return Some(Self { dir: dir.into(), script });
        }
        if !machine_has(&[&[Need::Root], NEEDS].concat()) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let etc = dir.path().join("etc");
        let mut copy = Command::new("cp");
        copy.arg("-a").arg("/etc").arg(dir.path()).run_blocking().and_then(Ended::succeeded).unwrap();
        fs::create_dir_all(etc.join("systemd/system")).unwrap();
        for (n, script) in scripts.iter().enumerate() {
            let script = format!("mount --bind {} /etc\n{}\nexec \"$@\"\n", etc.display(), script.as_ref());
            let sandbox = Sandbox::make(1).unwrap();
            let mut again = sandbox.command(0, "unshare");
            again.args(["--mount", "sh", "-ec", &script, "sh"]).arg(std::env::current_exe().unwrap());
            again.args(["--exact", test, "--nocapture"]).env_remove("SSH_CONNECTION");
            let ended = again.env(DIR, dir.path()).env(SCRIPT, n.to_string()).run_blocking().unwrap();
            let is_run = ended.stdout.contains("test result: ok. 1 passed");
            assert!(ended.status.success() && is_run, "{script}: {}\n{}", ended.stdout, ended.stderr);
        }
        None
    }
}

/// What a script of shell prints.
pub(crate) fn shell(script: &str) -> String {
    Command::new("sh").args(["-ec", script]).run_blocking().and_then(Ended::succeeded).unwrap().stdout
}

/// Gives nft a script.
pub(crate) fn load(rules: &str) {
    Command::new("nft").args(["-f", "-"]).input(rules).run_blocking().and_then(Ended::succeeded).unwrap();
}

/// All rules that are in effect.
pub(crate) fn listed() -> String {
    shell("nft --stateless list ruleset")
}

/// A file below `/etc`, if it is there.
pub(crate) fn etc(name: &str) -> Option<String> {
    fs::read_to_string(Path::new("/etc").join(name)).ok()
}
