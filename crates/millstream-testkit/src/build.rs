//! The builds of PostgreSQL that tests run against.

use crate::cases::{deal, is_night};
use crate::feature::Feature;
use millstream_host::Account;
use millstream_local::limits::MAJOR_DOWNLOADED;
use millstream_local::{Home, Installation, server_account};
use millstream_pg::Explained;
use tokio::sync::OnceCell;

/// One build of PostgreSQL.
#[derive(Debug)]
pub struct Build {
    /// Its programs.
    pub installation: Installation,
}

impl Build {
    /// Major version.
    pub fn major(&self) -> u32 {
        self.installation.major
    }

    /// Whether the build has all of these features.
    pub fn has(&self, features: &[Feature]) -> bool {
        let account = account();
        features.iter().all(|one| one.is_in(&self.installation, &account))
    }
}

/// The account that test servers run under.
pub(crate) fn account() -> Account {
    server_account().unwrap_or_else(|error| panic!("{error}"))
}

/// The home with the downloaded builds and the templates that the tests use.
pub(crate) fn home() -> Home {
    Home::choose(None).unwrap_or_else(|error| panic!("{error}"))
}

/// Every build to test, the default build first.
///
/// # Panics
/// If a version that `MILLSTREAM_TEST_POSTGRES` names is not available, or no version is.
pub async fn builds() -> &'static [Build] {
    static BUILDS: OnceCell<Vec<Build>> = OnceCell::const_new();
    BUILDS.get_or_init(find_all).await
}

/// The build for tests that need only one: the first that `MILLSTREAM_TEST_POSTGRES` names, else
/// the newest installed, else a downloaded one.
///
/// # Panics
/// As [`builds`].
pub async fn default_build() -> &'static Build {
    &builds().await[0]
}

/// The first build that has all of these features; `None` (after [`crate::skip`]) if none has.
pub async fn build_with(features: &[Feature]) -> Option<&'static Build> {
    builds_with(features).await.first().copied()
}

/// Every build that has all of these features. If none has, after [`crate::skip`].
pub async fn builds_with(features: &[Feature]) -> Vec<&'static Build> {
    let found: Vec<&Build> = builds().await.iter().filter(|build| build.has(features)).collect();
    if found.is_empty() {
        crate::skip(&format!("no build of PostgreSQL here has {features:?}"));
    }
    found
}

/// The builds that this test runs on: one of [`builds`], which the test's name and `MILLSTREAM_TEST_DEAL` choose. With
/// `MILLSTREAM_TEST_SCALE` above 1, and where the name is unknown, all of them.
pub async fn dealt_builds() -> Vec<&'static Build> {
    dealt_builds_with(&[]).await
}

/// The same of those builds that have all of these features. If none has, after [`crate::skip`].
pub async fn dealt_builds_with(features: &[Feature]) -> Vec<&'static Build> {
    let found = builds_with(features).await;
    match test_name() {
        Some(name) if !is_night() && !found.is_empty() => vec![found[one_of(&name, deal(), found.len())]],
        _ => found,
    }
}

/// The name of the test that runs on this thread. A thread without one is not of the test harness, or runs all tests.
pub(crate) fn test_name() -> Option<String> {
    std::thread::current().name().filter(|name| *name != "main" && !name.starts_with("tokio-")).map(str::to_owned)
}

fn one_of(name: &str, deal: u64, hands: usize) -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let hands = u64::try_from(hands).expect("few builds");
    usize::try_from(hasher.finish().wrapping_add(deal) % hands).expect("one of few")
}

async fn find_all() -> Vec<Build> {
    let account = account();
    let mut installed = millstream_local::installed(&account);
    installed.dedup_by_key(|one| one.major);
    let found = match std::env::var("MILLSTREAM_TEST_POSTGRES") {
        Ok(list) => named(&list, &installed, &account).await,
        Err(_) => available(installed, &account).await,
    };
    assert!(!found.is_empty(), "there is no PostgreSQL to test with");
    found.into_iter().map(|installation| Build { installation }).collect()
}

async fn named(list: &str, installed: &[Installation], account: &Account) -> Vec<Installation> {
    let mut found = Vec::new();
    for word in list.split(',').map(str::trim) {
        let major: u32 = word
            .parse()
            .unwrap_or_else(|_| panic!("MILLSTREAM_TEST_POSTGRES is a list of major versions, not \"{list}\""));
        let known = installed.iter().find(|one| one.major == major).cloned();
        found.push(match known {
            Some(installation) => installation,
            None if major == MAJOR_DOWNLOADED => downloaded(account).await.unwrap_or_else(|why| panic!("{why}")),
            None => panic!("PostgreSQL {major} is not installed"),
        });
    }
    found
}

async fn available(installed: Vec<Installation>, account: &Account) -> Vec<Installation> {
    let mut found = installed;
    if !found.iter().any(|one| one.major == MAJOR_DOWNLOADED) {
        match downloaded(account).await {
            Ok(installation) => found.push(installation),
            Err(why) if found.is_empty() => panic!("{why}"),
            Err(why) => crate::skip(&format!("PostgreSQL {MAJOR_DOWNLOADED}: {why}")),
        }
    }
    found
}

/// The downloaded build. The first call downloads it.
async fn downloaded(account: &Account) -> Result<Installation, String> {
    let builds = home().builds();
    let known = millstream_local::downloaded(&builds, account).into_iter().find(|one| one.major == MAJOR_DOWNLOADED);
    if let Some(installation) = known {
        return Ok(installation);
    }
    let mut progress = |line: &str| println!("{line}");
    millstream_local::download(&builds, account, &mut progress)
        .await
        .map_err(|error| format!("{error}; {}", error.hint().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_deal_gives_every_test_another_build() {
        let names = ["load::one", "load::two", "log::three", "models::four", "models::five", "verify::six"];
        let dealt = |deal| names.map(|name| one_of(name, deal, 2));
        let (even, odd) = (dealt(0), dealt(1));
        assert!(even.iter().zip(odd).all(|(even, odd)| even + odd == 1), "{even:?} {odd:?}");
        assert!(even.contains(&0) && even.contains(&1), "{even:?}");
        assert_eq!(one_of("any", 7, 1), 0);
    }

    #[test]
    fn the_harness_names_the_thread_of_a_test() {
        // With one thread for all tests it does not.
        if let Some(name) = test_name() {
            assert_eq!(name, "build::tests::the_harness_names_the_thread_of_a_test");
        }
    }
}
