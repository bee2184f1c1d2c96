//! The profiles of NetworkManager as a change that can be taken back.

mod bus;
mod checkpoint;
mod daemon;
mod keyfiles;
mod unfinished;

pub use crate::output::DIRECTORY;
pub use daemon::is_running;
pub(crate) use daemon::{Activity, loaded};
pub use keyfiles::Profiles;

use checkpoint::Checkpoint;
use millstream_change::{Answer, Kind, Large, Place, Values, WayBack};
use millstream_model::Refusal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The one target: all profiles in NetworkManager's directory. So two changes never lie beside each other.
pub const TARGET: &str = "network";

/// The profiles of NetworkManager. A value is the text of all of them.
#[derive(Debug)]
pub struct NetworkProfiles;

impl Kind for NetworkProfiles {
    fn name(&self) -> &'static str {
        "network"
    }

    fn commands(&self) -> &'static str {
        "network"
    }

    fn read<'a>(&'a self, place: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async {
            let profiles = known(place)?;
            if unfinished::read(place)?.is_some() {
                return Ok(Some(format!("{}, not all of which were started", profiles.digest())));
            }
            Ok(profiles.text().map(|_| profiles.digest()))
        })
    }

    fn write<'a>(&'a self, place: &'a Place, _: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let dir = place.path(Path::new(DIRECTORY));
            let profiles = parsed(value)?;
            let loaded = daemon::loaded_when_running(&dir).await?;
            let checkpoint = Checkpoint::of_change(place)?.filter(|one| one.before == profiles.digest());
            // The way back of NetworkManager deletes also what somebody else has added meanwhile.
            let theirs = match &checkpoint {
                Some(checkpoint) => Profiles::read(&dir)?.beyond(&checkpoint.known),
                None => Profiles::default(),
            };
            let is_rolled_back = match &checkpoint {
                Some(checkpoint) if loaded.is_some() => checkpoint.roll_back().await,
                Some(_) | None => false,
            };
            // An interrupted write may have replaced more files than differ now.
            let mut changed = unfinished::read(place)?.unwrap_or_default();
            changed.extend(profiles.differing(&known(place)?));
            unfinished::write(place, &changed)?;
            profiles.write(&changed, &dir)?;
            let lost = theirs.differing(&Profiles::read(&dir)?.among(&theirs.names()));
            theirs.write(&lost, &dir)?;
            let Some(loaded) = loaded else {
                // It ran when the checkpoint was made, and may still hold links of the change.
                return match profiles.running.is_empty() && checkpoint.is_none() {
                    true => unfinished::remove(place),
                    false => Err(Refusal::new("the profiles are written, but NetworkManager does not run")
                        .hint("start it; until then links stay as they are")),
                };
            };
            daemon::load(&changed.iter().chain(&lost).map(|name| dir.join(name)).collect::<Vec<_>>()).await?;
            // A profile that runs keeps its old text until it is started again.
            let ran = names_of(loaded);
            let stale = changed.intersection(&ran).filter(|name| !is_rolled_back && profiles.running.contains(*name));
            daemon::start(&dir, &profiles.running, stale.cloned().collect()).await?;
            unfinished::remove(place)
        })
    }

    /// If NetworkManager has gone back to its checkpoint, it has written files in words of its own.
    fn overwrites(&self, is_confirmed: bool) -> bool {
        !is_confirmed
    }

    fn large(&self) -> Option<&dyn Large> {
        Some(self)
    }

    fn way_back(&self) -> Option<&dyn WayBack> {
        Some(self)
    }
}

impl Large for NetworkProfiles {
    fn whole<'a>(&'a self, place: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async { Ok(now(place).await?.text()) })
    }

    fn digest(&self, whole: &str) -> Option<String> {
        Profiles::parse(whole).ok().map(|profiles| profiles.digest())
    }
}

impl WayBack for NetworkProfiles {
    fn checkpoint<'a>(
        &'a self,
        place: &'a Place,
        [before, after]: [Option<&'a str>; 2],
        confirm_within: Duration,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            if now(place).await?.text().as_deref() != before {
                let why = "the profiles have changed meanwhile; nothing was changed";
                return Err(Refusal::new(why).hint("run it again"));
            }
            Checkpoint::make(place, &parsed(before)?, &parsed(after)?, confirm_within).await
        })
    }

    fn extend<'a>(&'a self, place: &'a Place, confirm_within: Duration) -> Answer<'a, ()> {
        Box::pin(async move {
            let gone = || Refusal::new("somebody has removed the note of the checkpoint of NetworkManager");
            Checkpoint::of_change(place)?.ok_or_else(gone)?.extend(confirm_within).await
        })
    }

    /// The directory also holds profiles of others.
    fn recall(&self, place: &Place, values: Values<'_>) -> Result<(), Refusal> {
        let [before, after] = values()?;
        Checkpoint::recall(place, &parsed(before.as_deref())?, &parsed(after.as_deref())?)
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

/// The profiles of a value.
fn parsed(value: Option<&str>) -> Result<Profiles, Refusal> {
    value.map_or_else(|| Ok(Profiles::default()), Profiles::parse)
}

/// The profiles on the disk, and which of them run.
///
/// # Errors
/// Only root can read them, or a file is not text.
pub async fn now(place: &Place) -> Result<Profiles, Refusal> {
    let loaded = daemon::loaded(&place.path(Path::new(DIRECTORY))).await.unwrap_or_default();
    Ok(Profiles { running: names_of(loaded), ..known(place)? })
}

/// The profiles on the disk. While a change waits, those that somebody has added meanwhile are not among them.
fn known(place: &Place) -> Result<Profiles, Refusal> {
    let profiles = Profiles::read(&place.path(Path::new(DIRECTORY)))?;
    Ok(match Checkpoint::of_change(place)? {
        Some(checkpoint) => profiles.among(&checkpoint.known),
        None => profiles,
    })
}

/// The files of the profiles that run or start.
fn names_of(loaded: daemon::Loaded) -> BTreeSet<String> {
    loaded.into_iter().filter(|(_, one)| one.activity.is_some()).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_host::write_private;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn profiles_are_replaced_and_given_back_without_the_daemon() {
        let root = tempfile::tempdir().unwrap();
        let place = Place { root: Some(root.path().to_owned()), ..Place::default() };
        let dir = place.path(Path::new(DIRECTORY));
        fs::create_dir_all(&dir).unwrap();
        assert_eq!(NetworkProfiles.read(&place, TARGET).await.unwrap(), None);
        write_private(&dir.join("old.nmconnection"), "[connection]\nid=old\n").unwrap();
        fs::write(dir.join("ignored.nmconnection"), "[connection]\n").unwrap();
        let before = NetworkProfiles.whole(&place, TARGET).await.unwrap();
        let digest = NetworkProfiles.read(&place, TARGET).await.unwrap().unwrap();
        assert!(digest.starts_with("1 profile ("), "{digest}");
        let after = r##"{"files":{"a.nmconnection":"[connection]\nid=a\n","b.nmconnection":"[connection]\nid=b\n"},"running":[]}"##;
        NetworkProfiles.write(&place, TARGET, Some(after)).await.unwrap();
        assert_eq!(NetworkProfiles.whole(&place, TARGET).await.unwrap().as_deref(), Some(after));
        assert!(!dir.join("old.nmconnection").exists() && dir.join("ignored.nmconnection").exists());
        let mode = fs::metadata(dir.join("a.nmconnection")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "NetworkManager ignores a file that others may read");
        NetworkProfiles.write(&place, TARGET, before.as_deref()).await.unwrap();
        assert_eq!(NetworkProfiles.whole(&place, TARGET).await.unwrap(), before);
        assert_eq!(NetworkProfiles.read(&place, TARGET).await.unwrap(), Some(digest.clone()));

        // After a restart, only the journal knows which profiles are those of a change that nobody has confirmed.
        NetworkProfiles.write(&place, TARGET, Some(after)).await.unwrap();
        write_private(&dir.join("theirs.nmconnection"), "[connection]\nid=theirs\n").unwrap();
        NetworkProfiles.recall(&place, &|| Ok([before.clone(), Some(after.to_owned())])).unwrap();
        NetworkProfiles.write(&place, TARGET, before.as_deref()).await.unwrap();
        assert_eq!(NetworkProfiles.read(&place, TARGET).await.unwrap(), Some(digest.clone()));
        assert!(dir.join("theirs.nmconnection").exists() && !dir.join("a.nmconnection").exists());
        NetworkProfiles.release(&place).await.unwrap();
        assert_eq!(Profiles::read(&dir).unwrap().names().len(), 2, "all count again");
        fs::remove_file(dir.join("theirs.nmconnection")).unwrap();

        // What ran is not there again as long as nobody can start it, however often it is tried.
        let ran = before.unwrap().replace("[]", r#"["old.nmconnection"]"#);
        for _ in 0..2 {
            let refused = NetworkProfiles.write(&place, TARGET, Some(&ran)).await.unwrap_err();
            assert!(refused.to_string().contains("NetworkManager does not run"), "{refused}");
            let now = NetworkProfiles.read(&place, TARGET).await.unwrap().unwrap();
            assert_eq!(now, format!("{digest}, not all of which were started"));
        }
    }

    #[tokio::test]
    async fn no_checkpoint_is_made_of_profiles_that_have_changed_since_they_were_shown() {
        let root = tempfile::tempdir().unwrap();
        let place = Place { root: Some(root.path().to_owned()), ..Place::default() };
        let dir = place.path(Path::new(DIRECTORY));
        fs::create_dir_all(&dir).unwrap();
        write_private(&dir.join("new.nmconnection"), "[connection]\nid=new\n").unwrap();
        let minute = Duration::from_secs(60);
        for shown in [None, Some(r#"{"files":{"old.nmconnection":""},"running":[]}"#)] {
            let refused = NetworkProfiles.checkpoint(&place, [shown, None], minute).await.unwrap_err();
            assert_eq!(refused.problem, "the profiles have changed meanwhile; nothing was changed");
        }
        assert_eq!(Checkpoint::of_change(&place).unwrap(), None);
        let none = NetworkProfiles.extend(&place, minute).await.unwrap_err();
        assert!(none.problem.contains("the note of the checkpoint"), "{none}");
    }
}
