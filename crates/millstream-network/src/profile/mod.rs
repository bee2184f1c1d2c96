//! The profiles of NetworkManager as a change that can be taken back.

mod bus;
mod checkpoint;
mod daemon;
mod keyfiles;

pub use checkpoint::Checkpoint;
pub use daemon::is_running;
pub(crate) use daemon::{Activity, loaded};
pub use keyfiles::{DIRECTORY, Profiles};

use millstream_change::{Answer, Kind, Place, Reach};
use std::collections::BTreeSet;
use std::path::Path;

/// The one target: all profiles in NetworkManager's directory. So two changes never lie beside each other.
pub const TARGET: &str = "network";

/// The profiles of NetworkManager. A value is the text of all of them.
#[derive(Debug)]
pub struct NetworkProfiles;

impl Kind for NetworkProfiles {
    fn name(&self) -> &'static str {
        "network"
    }

    fn reach(&self) -> Reach {
        Reach::Machine
    }

    fn commands(&self) -> &'static str {
        "network"
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move { Ok(self.whole(place, target).await?.and_then(|whole| self.digest(&whole))) })
    }

    fn whole<'a>(&'a self, place: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async { Ok(Profiles::read(&place.path(Path::new(DIRECTORY)))?.text()) })
    }

    fn digest(&self, whole: &str) -> Option<String> {
        Profiles::parse(whole).ok().map(|profiles| profiles.digest())
    }

    fn write<'a>(&'a self, place: &'a Place, _: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let (dir, profiles) = (place.path(Path::new(DIRECTORY)), Profiles::parse(value.unwrap_or("{}"))?);
            // A daemon that is not there reads the files when it starts.
            let Some(now) = daemon::loaded_when_running(&dir).await? else {
                return profiles.replace(&Profiles::read(&dir)?, &dir).map(|_| ());
            };
            let mut running: BTreeSet<String> =
                now.into_iter().filter(|(_, one)| one.activity.is_some()).map(|(name, _)| name).collect();
            let stale = match Checkpoint::of_change(place)?.filter(|one| one.before == profiles.digest()) {
                // Links lose their ports when NetworkManager goes back, and it does not start those again.
                Some(checkpoint) => {
                    let is_rolled_back = checkpoint.roll_back().await;
                    running.extend(checkpoint.running);
                    if is_rolled_back { BTreeSet::new() } else { running.clone() }
                }
                None => running.clone(),
            };
            let changed = profiles.replace(&Profiles::read(&dir)?, &dir)?;
            daemon::load(&changed.iter().map(|name| dir.join(name)).collect::<Vec<_>>()).await?;
            let wanted =
                changed.iter().chain(&running).filter(|name| profiles.starts_by_itself(name)).cloned().collect();
            // A profile that runs keeps its old text until it is started again.
            let stale = changed.iter().filter(|name| stale.contains(*name)).cloned().collect();
            daemon::start(&dir, &wanted, stale).await
        })
    }

    /// If NetworkManager has gone back to its checkpoint, it has written files in words of its own.
    fn overwrites(&self, is_confirmed: bool) -> bool {
        !is_confirmed
    }

    fn release<'a>(&'a self, place: &'a Place) -> Answer<'a, ()> {
        Box::pin(async move {
            if let Some(checkpoint) = Checkpoint::of_change(place)? {
                checkpoint.destroy().await?;
                Checkpoint::forget(place)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn profiles_are_replaced_and_given_back_without_the_daemon() {
        let root = tempfile::tempdir().unwrap();
        let place = Place { root: Some(root.path().to_owned()), ..Place::default() };
        let dir = place.path(Path::new(DIRECTORY));
        fs::create_dir_all(&dir).unwrap();
        assert_eq!(NetworkProfiles.read(&place, TARGET).await.unwrap(), None);
        fs::write(dir.join("old.nmconnection"), "[connection]\nid=old\n").unwrap();
        let before = NetworkProfiles.whole(&place, TARGET).await.unwrap();
        let digest = NetworkProfiles.read(&place, TARGET).await.unwrap().unwrap();
        assert!(digest.starts_with("1 profile ("), "{digest}");
        let after = r#"{"a.nmconnection":"[connection]\nid=a\n","b.nmconnection":"[connection]\nid=b\n"}"#;
        NetworkProfiles.write(&place, TARGET, Some(after)).await.unwrap();
        assert_eq!(NetworkProfiles.whole(&place, TARGET).await.unwrap().as_deref(), Some(after));
        assert!(!dir.join("old.nmconnection").exists());
        let mode = fs::metadata(dir.join("a.nmconnection")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "NetworkManager ignores a file that others may read");
        NetworkProfiles.write(&place, TARGET, before.as_deref()).await.unwrap();
        assert_eq!(NetworkProfiles.whole(&place, TARGET).await.unwrap(), before);
    }
}
