//! What NetworkManager does with profiles.

use super::bus;
use crate::limits::{DAEMON_START_MAX, LOOK, SELF_START_MAX, SETTLE_MAX, START_MAX, TRIES_MAX};
use millstream_host::{Command, Ended};
use millstream_model::Refusal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The object and the interface that hold all others.
const MANAGER: [&str; 2] = ["/org/freedesktop", "org.freedesktop.DBus.ObjectManager"];

/// The object and the interface that read profiles.
const SETTINGS: [&str; 2] = ["/org/freedesktop/NetworkManager/Settings", "org.freedesktop.NetworkManager.Settings"];

/// The interface of a profile.
const PROFILE: &str = "org.freedesktop.NetworkManager.Settings.Connection";

/// The interface of a profile that runs.
const ACTIVE: &str = "org.freedesktop.NetworkManager.Connection.Active";

/// Profiles by the names of their files.
pub(crate) type Loaded = BTreeMap<String, One>;

/// A profile that NetworkManager has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct One {
    /// Its object on the bus.
    object: String,
    /// What it does; `None`: nothing.
    pub(crate) activity: Option<Activity>,
}

/// What a profile does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It starts.
    Starting,
    /// It has started whole.
    Up,
}

/// Whether NetworkManager runs here.
pub async fn is_running() -> bool {
    bus::daemon().await.is_some()
}

/// The profiles of a directory, also if the daemon is about to start. `None`: it does not run.
pub(super) async fn loaded_when_running(dir: &Path) -> Result<Option<Loaded>, Refusal> {
    let begun = Instant::now();
    loop {
        match loaded(dir).await {
            Ok(loaded) => return Ok(Some(loaded)),
            Err(refusal) if is_running().await => return Err(refusal),
            Err(_) if begun.elapsed() > DAEMON_START_MAX => return Ok(None),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// The profiles of a directory.
///
/// # Errors
/// NetworkManager does not run, or does not answer.
pub(crate) async fn loaded(dir: &Path) -> Result<Loaded, Refusal> {
    Ok(profiles(dir, &bus::call_of(MANAGER, &["GetManagedObjects"]).await?))
}

fn profiles(dir: &Path, answer: &Value) -> Loaded {
    let objects = answer["data"][0].as_object();
    let objects: Vec<(&String, &Value)> = objects.into_iter().flatten().collect();
    let active = objects.iter().map(|(_, interfaces)| &interfaces[ACTIVE]);
    let activities: BTreeMap<&str, Activity> = active
        .filter_map(|one| {
            // Source: NetworkManager, NMActiveConnectionState.
            let activity = match one["State"]["data"].as_u64()? {
                1 => Activity::Starting,
                2 => Activity::Up,
                _ => return None,
            };
            Some((one["Connection"]["data"].as_str()?, activity))
        })
        .collect();
    let profile = |(object, interfaces): (&String, &Value)| {
        let file = Path::new(interfaces[PROFILE]["Filename"]["data"].as_str()?);
        let name = file.strip_prefix(dir).ok()?.to_str()?.to_owned();
        Some((name, One { object: object.clone(), activity: activities.get(object.as_str()).copied() }))
    };
    objects.into_iter().filter_map(profile).collect()
}

/// Lets NetworkManager read files again, also those that are gone. It starts what is new itself.
pub(super) async fn load(files: &[PathBuf]) -> Result<(), Refusal> {
    if files.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let count = names.len().to_string();
    let mut method = vec!["LoadConnections", "as", count.as_str()];
    method.extend(names.iter().map(String::as_str));
    let answer = bus::call_of(SETTINGS, &method).await?;
    let refused: Vec<&str> = answer["data"][1].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match refused.as_slice() {
        [] => Ok(()),
        refused => {
            Err(Refusal::new(format!("NetworkManager does not understand {}", refused.join(", ")))
                .hint("its log says why"))
        }
    }
}

/// Starts the profiles of these files that do not run, and `stale` ones also if they run. NetworkManager starts most of what
/// it has just read itself. A profile may need others, so each is tried a few times.
pub(super) async fn start(dir: &Path, wanted: &BTreeSet<String>, mut stale: BTreeSet<String>) -> Result<(), Refusal> {
    let begun = Instant::now();
    let mut tries: BTreeMap<&String, u32> = BTreeMap::new();
    let mut last = None;
    loop {
        let loaded = loaded(dir).await?;
        let known = wanted.iter().filter_map(|name| Some((name, loaded.get(name)?)));
        let is_pending = |(name, one): &(&String, &One)| one.activity.is_none() || stale.contains(*name);
        let pending: Vec<(&String, &One)> = known.filter(is_pending).collect();
        if pending.is_empty() {
            return settled(dir, wanted).await;
        }
        if stale.is_empty() && begun.elapsed() < SELF_START_MAX {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        // What runs with its old text comes first: others may lie on it.
        let is_due = |name: &String| stale.is_empty() || stale.contains(name);
        for (name, one) in pending.into_iter().filter(|(name, _)| is_due(name)) {
            let tried = tries.entry(name).or_default();
            *tried += 1;
            if *tried > TRIES_MAX {
                let why = last.unwrap_or_else(|| Refusal::new(format!("the profile {name} does not stay up")));
                return Err(why);
            }
            if let Err(error) = up(&one.object).await {
                last = Some(Refusal::new(format!("the profile {name} does not start: {error}")));
            }
        }
        stale.clear();
    }
}

/// Waits a little until what starts is up.
async fn settled(dir: &Path, wanted: &BTreeSet<String>) -> Result<(), Refusal> {
    let begun = Instant::now();
    let is_starting = |(name, one): (&String, &One)| wanted.contains(name) && one.activity == Some(Activity::Starting);
    while begun.elapsed() < SETTLE_MAX && loaded(dir).await?.iter().any(is_starting) {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Starts a profile, and waits until it runs. `nmcli` says why it does not.
async fn up(object: &str) -> Result<(), millstream_host::Error> {
    let seconds = START_MAX.as_secs().to_string();
    let mut nmcli = Command::new("nmcli");
    nmcli.args(["--wait", &seconds, "connection", "up", "path", object]).env("LC_ALL", "C");
    nmcli.run(2 * START_MAX).await.and_then(Ended::succeeded).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_as_the_daemon_lists_them() {
        let answer = serde_json::json!({ "data": [{
            "/s/1": { PROFILE: { "Filename": { "type": "s", "data": "/d/a.nmconnection" }, "Flags": { "data": 0 } } },
            "/s/2": { PROFILE: { "Filename": { "type": "s", "data": "/d/b" } } },
            "/s/3": { PROFILE: { "Filename": { "type": "s", "data": "/d/c" } } },
            "/s/4": { PROFILE: { "Filename": { "type": "s", "data": "/run/NetworkManager/system-connections/lo" } } },
            "/a/1": { ACTIVE: { "Connection": { "type": "o", "data": "/s/1" }, "State": { "type": "u", "data": 2 } } },
            "/a/2": { ACTIVE: { "Connection": { "type": "o", "data": "/s/2" }, "State": { "type": "u", "data": 1 } } },
            "/a/3": { ACTIVE: { "Connection": { "type": "o", "data": "/s/3" }, "State": { "type": "u", "data": 4 } } },
        }] });
        let loaded = profiles(Path::new("/d"), &answer);
        let found: Vec<_> =
            loaded.iter().map(|(name, one)| (name.as_str(), one.object.as_str(), one.activity)).collect();
        let expected = [
            ("a.nmconnection", "/s/1", Some(Activity::Up)),
            ("b", "/s/2", Some(Activity::Starting)),
            ("c", "/s/3", None),
        ];
        assert_eq!(found, expected);
        assert!(profiles(Path::new("/d"), &Value::Null).is_empty());
    }
}
