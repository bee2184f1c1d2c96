//! Profiles, as the command `aws` keeps them in two files.

use crate::error::Error;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// The settings of a profile.
#[derive(Default)]
pub(super) struct Profile {
    name: String,
    members: BTreeMap<String, String>,
}

/// Settings of profiles whose credentials another program gets.
const INDIRECT: [&str; 5] = ["sso_session", "sso_start_url", "credential_process", "role_arn", "login_session"];

const DEFAULT: &str = "default";

/// The profile that the environment names, or the default one. It is empty if there are no files.
///
/// # Errors
/// A file cannot be read, or has no profile of the name.
pub(super) fn profile() -> Result<Profile, Error> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let text = |named: Option<OsString>, usual: &str| -> Result<String, Error> {
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".aws").join(usual));
        let Some(path) = named.map(PathBuf::from).or_else(home) else { return Ok(String::new()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(String::new())
            }
            Err(error) => {
                let problem = format!("cannot read {}: {error}", path.display());
                Err(Error::refused(problem, "make it readable, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"))
            }
        }
    };
    let credentials = text(variable("AWS_SHARED_CREDENTIALS_FILE"), "credentials")?;
    let config = text(variable("AWS_CONFIG_FILE"), "config")?;
    let named = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
    let name = named.as_ref().map_or(DEFAULT.into(), |name| name.to_string_lossy());
    let profile = Profile::of(&name, &credentials, &config);
    if named.is_some() && profile.members.is_empty() {
        let problem = format!("there is no profile {name}, which AWS_PROFILE names");
        return Err(Error::refused(problem, "`aws configure list-profiles` lists them"));
    }
    Ok(profile)
}

impl Profile {
    /// The profile of this name in the text of both files. Credentials count before other settings.
    pub(super) fn of(name: &str, credentials: &str, config: &str) -> Self {
        let in_config = if name == DEFAULT { name.to_owned() } else { format!("profile {name}") };
        let mut members = section(config, &in_config);
        members.extend(section(credentials, name));
        Self { name: name.to_owned(), members }
    }

    pub(super) fn get(&self, member: &str) -> Option<&str> {
        self.members.get(member).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Requires that no other program has its credentials.
    ///
    /// # Errors
    /// One has.
    pub(super) fn require_plain(&self) -> Result<(), Error> {
        let Some(indirect) = INDIRECT.iter().find(|member| self.get(member).is_some()) else { return Ok(()) };
        let name = &self.name;
        Err(Error::refused(
            format!("the profile {name} has no keys, but {indirect}"),
            format!("run this first: eval \"$(aws configure export-credentials --profile {name} --format env)\""),
        ))
    }
}

/// The members of a section. Those that are indented belong to another member.
fn section(text: &str, name: &str) -> BTreeMap<String, String> {
    let mut members = BTreeMap::new();
    let mut is_within = false;
    for line in text.lines().filter(|line| !line.starts_with([' ', '\t', '#', ';'])) {
        if let Some(header) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_within = header.split_whitespace().eq(name.split_whitespace());
        } else if let Some((member, value)) = line.split_once('=').filter(|_| is_within) {
            members.insert(member.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_in_both_files() {
        let credentials = "# keys\n[default]\naws_access_key_id = a\n\n[other]\r\naws_access_key_id=b\r\n";
        let config = "[default]\nregion = r1\ns3 =\n  addressing_style = path\n[profile  other]\nregion=r2\n\
                      aws_access_key_id=c\n[other]\nregion=wrong\n";
        for (name, id, region) in
            [("default", Some("a"), Some("r1")), ("other", Some("b"), Some("r2")), ("no", None, None)]
        {
            let profile = Profile::of(name, credentials, config);
            assert_eq!((profile.get("aws_access_key_id"), profile.get("region")), (id, region), "{name}");
            assert!(profile.get("addressing_style").is_none() && profile.get("s3").is_none());
        }
    }
}
