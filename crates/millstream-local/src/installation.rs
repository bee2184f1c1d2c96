//! PostgreSQL's programs on this machine: where they are, which version, what they can do.

use crate::account::check_reach;
use crate::error::Error;
use crate::limits::MAJOR_MIN;
use millstream_host::{Account, Ended};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Directories in which PostgreSQL's programs usually are, searched after `PATH`. `*` stands for the rest of a name.
pub const PLACES: &[&str] = &[
    "/usr/lib/postgresql/*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/lib64/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql*/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/opt/postgresql/*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];

/// Programs that a usable directory must have.
const PROGRAMS: &[&str] = &["postgres", "initdb", "pg_ctl"];

/// Which PostgreSQL to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PostgresBin {
    /// The newest installed one, else a downloaded one. If there is data already, one of its version.
    #[default]
    Auto,
    /// The programs in this directory.
    Dir(PathBuf),
    /// A downloaded one.
    Download,
}

impl From<&str> for PostgresBin {
    /// `auto`, `download`, or a directory.
    fn from(text: &str) -> Self {
        match text {
            "auto" => Self::Auto,
            "download" => Self::Download,
            dir => Self::Dir(PathBuf::from(dir)),
        }
    }
}

/// Where an installation came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It was on the machine.
    Installed,
    /// It was downloaded from the source of this name.
    Downloaded(String),
}

/// The programs of one build of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Directory of the programs.
    pub bin: PathBuf,
    /// Major version, such as 18.
    pub major: u32,
    /// Minor version, such as 6; 0 for a build before the first release.
    pub minor: u32,
    /// Where it came from.
    pub origin: Origin,
}

impl Installation {
    /// Checks the programs in that directory and asks for their version.
    ///
    /// # Errors
    /// [`Error::Binaries`] if a program is missing, does not run for the account, or is too old.
    pub fn open(bin: &Path, origin: Origin, account: &Account) -> Result<Self, Error> {
        let broken = |why: String| Error::Binaries { dir: bin.to_owned(), why };
        for program in PROGRAMS {
            if !bin.join(program).is_file() {
                return Err(broken(format!("{program} is missing")));
            }
        }
        check_reach(account, bin)?;
        let printed = account.command(bin.join("postgres")).arg("--version").run_blocking().and_then(Ended::succeeded);
        let text = printed.map_err(|error| broken(error.to_string()))?.stdout;
        let (major, minor) =
            parse_version(&text).ok_or_else(|| broken(format!("its version is unclear: {}", text.trim())))?;
        if major < MAJOR_MIN {
            return Err(broken(format!("it is PostgreSQL {major}, and at least {MAJOR_MIN} is needed")));
        }
        Ok(Self { bin: bin.to_owned(), major, minor, origin })
    }

    /// Path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// Whether the build accepts a setting, such as `wal_compression` `lz4`. Needs no server.
    pub fn accepts(&self, account: &Account, setting: &str, value: &str) -> bool {
        account
            .command(self.program("postgres"))
            .args(["-C", setting, "-c", "config_file=/dev/null"])
            .args(["-c", "hba_file=/dev/null", "-c", "ident_file=/dev/null"])
            .args(["-c", "data_directory=/", "-c"])
            .arg(format!("{setting}={value}"))
            .run_blocking()
            .is_ok_and(|ended| ended.status.success())
    }
}

impl std::fmt::Display for Installation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PostgreSQL {}.{}", self.major, self.minor)?;
        match &self.origin {
            Origin::Installed => write!(f, " in {}", self.bin.display()),
            Origin::Downloaded(source) => write!(f, " (downloaded, {source})"),
        }
    }
}

/// Every usable installation on this machine, newest first. Of equal versions, the one on `PATH` comes first.
pub fn installed(account: &Account) -> Vec<Installation> {
    let mut seen = HashSet::new();
    let bins = candidates().into_iter().filter(|bin| seen.insert(bin.clone()));
    let open = |bin: PathBuf| Installation::open(&bin, Origin::Installed, account).ok();
    let mut found: Vec<Installation> = bins.filter_map(open).collect();
    found.sort_by_key(|one| std::cmp::Reverse((one.major, one.minor)));
    found
}

/// Directories that may hold the programs. Links are resolved file by file, because `pg_ctl` on `PATH` is often a link
/// into the directory that has them all.
fn candidates() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    let usual = PLACES.iter().flat_map(|place| expand(place));
    let file = |dir: PathBuf| PROGRAMS.iter().find_map(|program| dir.join(program).canonicalize().ok());
    on_path.chain(usual).filter_map(file).filter_map(|file| file.parent().map(Path::to_owned)).collect()
}

/// What matches a pattern, in order.
fn expand(pattern: &str) -> Vec<PathBuf> {
    glob::glob(pattern).into_iter().flatten().flatten().collect()
}

/// Major and minor version in what `postgres --version` prints.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let version = text.strip_prefix("postgres (PostgreSQL) ")?;
    let digits_end = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    let (major, rest) = version.split_at(digits_end(version));
    let minor = rest.strip_prefix('.').map_or("0", |m| &m[..digits_end(m)]);
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::server_account;
    use millstream_pg::Explained as _;

    #[test]
    fn versions_of_every_build_are_parsed() {
        for (text, version) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some((15, 18))),
            ("postgres (PostgreSQL) 18.6\n", Some((18, 6))),
            ("postgres (PostgreSQL) 19beta2\n", Some((19, 0))),
            ("postgres (PostgreSQL) 18rc1 (Homebrew)\n", Some((18, 0))),
            ("postgres (PostgreSQL) 9.6.24\n", Some((9, 6))),
            ("postgres: command not found\n", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text), version, "{text}");
        }
    }

    #[test]
    fn a_star_matches_the_rest_of_a_path_segment() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["pgsql-15/bin", "pgsql-18/bin", "pgsql-16", "other/bin"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let pattern = format!("{}/pgsql-*/bin", dir.path().display());
        let expected = ["pgsql-15/bin", "pgsql-18/bin"].map(|name| dir.path().join(name));
        assert_eq!(expand(&pattern), expected);
        assert_eq!(expand("/nowhere/at-*/all"), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_directory_without_programs_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let account = server_account().unwrap();
        let error = Installation::open(dir.path(), Origin::Installed, &account).unwrap_err();
        assert!(error.to_string().contains("postgres is missing"), "{error}");
        assert!(error.hint().unwrap().contains("--postgres-bin takes"));
    }
}
