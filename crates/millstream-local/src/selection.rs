//! Chooses the PostgreSQL installation, by the caller's option and the version of the data.

use crate::download::{download, downloaded};
use crate::error::Error;
use crate::home::{BUILDS, Home};
use crate::installation::{Installation, Origin, PostgresBin, installed};
use crate::limits::MAJOR_DOWNLOADED;
use crate::options::{LocalOptions, Progress};
use millstream_host::Account;

/// What a start uses.
pub(crate) enum Choice {
    /// Programs that are here.
    Found(Installation),
    /// A build that must be downloaded first.
    Download,
}

/// The installation to start with.
pub(crate) async fn installation(
    options: &LocalOptions,
    home: &Home,
    account: &Account,
    progress: Progress<'_>,
) -> Result<Installation, Error> {
    match choice(options, home, account)? {
        Choice::Found(installation) => Ok(installation),
        Choice::Download => download(&home.folder(BUILDS)?, account, progress).await,
    }
}

/// Chooses, and downloads nothing.
pub(crate) fn choice(options: &LocalOptions, home: &Home, account: &Account) -> Result<Choice, Error> {
    let data = home.data_major()?;
    let wanted = data.as_deref();
    let builds = home.folder(BUILDS)?;
    let found = match &options.postgres_bin {
        PostgresBin::Dir(dir) => vec![Installation::open(dir, Origin::Installed, account)?],
        PostgresBin::Download => downloaded(&builds, account),
        PostgresBin::Auto => {
            let mut all = installed(account);
            all.extend(downloaded(&builds, account));
            all
        }
    };
    if let Some(fitting) = pick(&found, wanted) {
        return Ok(Choice::Found(fitting.clone()));
    }
    let downloadable = wanted.is_none_or(|major| major == MAJOR_DOWNLOADED.to_string());
    if downloadable && !matches!(options.postgres_bin, PostgresBin::Dir(_)) {
        return Ok(Choice::Download);
    }
    let found = describe(&options.postgres_bin, &found);
    Err(Error::OtherVersion { data: home.data(), data_major: data.unwrap_or_default(), found })
}

/// The first installation that can open the data, or the first of all if there is no data.
fn pick<'a>(found: &'a [Installation], data_major: Option<&str>) -> Option<&'a Installation> {
    found.iter().find(|one| data_major.is_none_or(|major| one.major.to_string() == major))
}

fn describe(wish: &PostgresBin, found: &[Installation]) -> String {
    if *wish == PostgresBin::Download {
        return format!("a downloaded one is PostgreSQL {MAJOR_DOWNLOADED}");
    }
    if found.is_empty() {
        return "no PostgreSQL is installed".to_owned();
    }
    let names: Vec<String> = found.iter().map(Installation::to_string).collect();
    format!("what is here is {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(major: u32) -> Installation {
        let bin = format!("/usr/lib/postgresql/{major}/bin").into();
        Installation { bin, major, minor: 1, origin: Origin::Installed }
    }

    #[test]
    fn data_chooses_the_version_and_a_new_server_the_newest() {
        let found = [build(18), build(15)];
        assert_eq!(pick(&found, None), Some(&found[0]));
        assert_eq!(pick(&found, Some("15")), Some(&found[1]));
        assert_eq!(pick(&found, Some("16")), None);
        assert_eq!(pick(&found, Some("9.6")), None);
        assert_eq!(pick(&[], None), None);
    }

    #[test]
    fn an_error_names_everything_that_was_found() {
        let text = describe(&PostgresBin::Auto, &[build(18), build(15)]);
        assert!(text.contains("PostgreSQL 18.1 in /usr") && text.contains("PostgreSQL 15.1"), "{text}");
        assert_eq!(describe(&PostgresBin::Auto, &[]), "no PostgreSQL is installed");
    }
}
