//! Whether a server could be started here. Nothing is made, started or downloaded to find out.

use crate::account::{account_to_look, check_reach, owner_of};
use crate::download::offered;
use crate::error::Error;
use crate::home::Home;
use crate::installation::Installation;
use crate::limits::INIT_FREE_BYTES_MIN;
use crate::options::LocalOptions;
use crate::selection::{Choice, choice};
use millstream_host::{Account, disk_free_bytes};
use rustix::fs::{Access, access};
use std::path::Path;

/// What a start would use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// Programs that are here.
    Found(Installation),
    /// A build that would be downloaded first.
    Offered {
        /// Its version.
        version: String,
        /// Name of the source that has it.
        source: &'static str,
    },
}

/// What [`start`](crate::start) would use now for a server that does not run.
///
/// # Errors
/// What would prevent the start, as far as it can be seen from outside.
pub async fn outlook(options: &LocalOptions) -> Result<Outlook, Error> {
    let home = Home::choose(options.home.as_deref())?;
    let data = home.data();
    let has_data = std::fs::symlink_metadata(&data).is_ok();
    let account = if has_data { owner_of(&data)? } else { account_to_look()? };
    check_place(&home, &account, home.data_major()?.is_none())?;
    match choice(options, &home, &account)? {
        Choice::Found(installation) => Ok(Outlook::Found(installation)),
        Choice::Download => {
            let (version, source) = offered().await?;
            Ok(Outlook::Offered { version, source: source.name })
        }
    }
}

/// Checks that the home can be made, or written to if it is there.
fn check_place(home: &Home, account: &Account, is_new: bool) -> Result<(), Error> {
    let above = home.dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/"));
    check_reach(account, above)?;
    access(above, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| Error::io("write to", above)(error.into()))?;
    match disk_free_bytes(above) {
        Some(free) if is_new && free < INIT_FREE_BYTES_MIN => {
            Err(Error::DiskFull { path: above.to_owned(), free_bytes: Some(free) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::PostgresBin;

    fn options(home: &Path, bin: &str) -> LocalOptions {
        LocalOptions { home: Some(home.to_owned()), postgres_bin: PostgresBin::from(bin), ..LocalOptions::default() }
    }

    #[tokio::test]
    async fn looking_names_the_build_and_makes_nothing() {
        let build = millstream_testkit::default_build().await.installation.bin.clone();
        let above = millstream_testkit::LocalHome::new();
        let home = above.dir.join("a/b");
        let found = outlook(&options(&home, build.to_str().unwrap())).await.unwrap();
        assert!(matches!(&found, Outlook::Found(one) if one.bin == build), "{found:?}");
        assert!(!above.dir.join("a").exists());
    }

    #[tokio::test]
    async fn what_prevents_a_start_is_named() {
        let above = millstream_testkit::LocalHome::new();
        let none = outlook(&options(&above.dir, "/nowhere/bin")).await.unwrap_err();
        assert!(none.to_string().contains("/nowhere/bin"), "{none}");
        std::fs::create_dir(above.dir.join("data")).unwrap();
        std::fs::write(above.dir.join("data/mine"), "").unwrap();
        let strange = outlook(&options(&above.dir, "auto")).await.unwrap_err();
        assert!(matches!(strange, Error::NotData { .. }), "{strange}");
    }
}
