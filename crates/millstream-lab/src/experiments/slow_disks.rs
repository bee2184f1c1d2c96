//! Slow disks of the lab: made for the arms of an experiment, and removed if a lab was killed.

use super::place::SLOW;
use millstream_host::{Command, Format, SlowDisk, living_in, signal};
use millstream_local::{Home, LocalOptions, Progress, server_account};
use std::fs;
use std::path::{Path, PathBuf};

/// The home of the server on a slow disk.
const SERVER: &str = "server";

/// Makes a slow disk in a directory. `program`: this program, which serves it. Nobody else may make one meanwhile.
///
/// # Errors
/// Why there can be none here.
pub(super) fn make(program: Option<&Path>, dir: &Path, format: &Format) -> Result<SlowDisk, String> {
    let program = program.ok_or_else(|| "it needs a slow disk, which this program does not serve".to_owned())?;
    if !rustix::process::geteuid().is_root() {
        return Err("it needs a slow disk, which only root can mount".to_owned());
    }
    let mut serve = Command::new(program);
    serve.args(["lab", "slow-disk"]);
    SlowDisk::make(&mut serve, dir, format).map_err(|error| error.to_string())
}

/// The home of the server on a slow disk in a directory.
pub(super) fn home_in(dir: &Path) -> PathBuf {
    SlowDisk::point_in(dir).join(SERVER)
}

/// Directories of slow disks. If no lab is at work with them, one was killed.
pub(super) fn left() -> Vec<PathBuf> {
    let lab = Home::choose(None).ok().map(|home| home.dir.join("lab"));
    let entries = lab.into_iter().flat_map(|lab| fs::read_dir(lab).into_iter().flatten().flatten());
    let is_slow = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SLOW));
    entries.map(|entry| entry.path()).filter(is_slow).collect()
}

/// Stops the servers on slow disks that a killed lab has left, and removes the disks.
pub(super) async fn remove(left: &[PathBuf], say: Progress<'_>) {
    for dir in left {
        let home = home_in(dir);
        let data = home.join("data");
        let options = LocalOptions { home: Some(home), ..LocalOptions::default() };
        let stopped = millstream_local::stop(&options, say).await;
        if stopped.is_err()
            && let Ok(account) = server_account()
        {
            signal(&account, "KILL", &living_in(&account, &data, "postgres"));
        }
        SlowDisk::remove_left(dir);
        say(&format!("{} is gone: a run that was killed had left its slow disk", dir.display()));
    }
}
