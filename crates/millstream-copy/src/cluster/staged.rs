//! Files of a cluster that are made for its copy, in a folder of their own until they are copied.

use super::backup_manifest::Arrived;
use crate::error::Error;
use crate::path::shown_path;
use millstream_host::{make_folder, own_file, scratch_folder};
use millstream_model::Refusal;
use millstream_pg::{Address, ConnInfo};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

/// A folder with files that look as if the server had made them.
pub(super) struct Staged {
    folder: tempfile::TempDir,
    /// Whose the data directory is, and its rights.
    model: fs::Metadata,
}

impl Staged {
    pub(super) fn new(home: &Path, data: &Path) -> Result<Self, Error> {
        let model = fs::metadata(data).map_err(Error::file("look at", data))?;
        let folder = scratch_folder(home, ".tmp", 0o700).map_err(Error::file("make a folder in", home))?;
        let staged = Self { folder, model };
        staged.dress(staged.folder.path(), staged.model.mode())?;
        Ok(staged)
    }

    /// What is in it, as the source of a copy.
    pub(super) fn content(&self) -> PathBuf {
        self.folder.path().join("")
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<Arrived, Error> {
        let path = self.place(name)?;
        let opened = own_file(0o600).write(true).create(true).truncate(true).open(&path);
        opened.and_then(|mut file| file.write_all(bytes)).map_err(Error::file("write", &path))?;
        self.dress(&path, self.model.mode() & 0o640)?;
        Ok(Arrived::made(name, bytes))
    }

    /// Makes an empty folder.
    pub(super) fn folder(&self, name: &str) -> Result<(), Error> {
        self.make(&self.place(name)?)
    }

    /// Makes a link.
    pub(super) fn link(&self, name: &str, target: &Path) -> Result<(), Error> {
        let path = self.place(name)?;
        symlink(target, &path).map_err(Error::file("make", &path))
    }

    /// The path of a name. The folder that it is in is made. What is made becomes the server's account's, so no name may lead
    /// out of here: some have parts that the server says.
    fn place(&self, name: &str) -> Result<PathBuf, Error> {
        if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Refusal::new(format!("{} is no plain path of a file in a cluster", shown_path(name))).into());
        }
        let path = self.folder.path().join(name);
        let folder = path.parent().unwrap_or(self.folder.path()).to_owned();
        if !folder.exists() {
            self.make(&folder)?;
        }
        Ok(path)
    }

    fn make(&self, folder: &Path) -> Result<(), Error> {
        make_folder(folder).map_err(Error::file("make", folder))?;
        self.dress(folder, self.model.mode())
    }

    fn dress(&self, path: &Path, mode: u32) -> Result<(), Error> {
        let dressed = fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777)).and_then(|()| {
            match chown(path, Some(self.model.uid()), Some(self.model.gid())) {
                // Only root may give it away; others copy as the server's user.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                owned => owned,
            }
        });
        dressed.map_err(Error::file("dress", path))
    }
}

/// Settings of a standby, behind those that `alter system` has set.
///
/// # Errors
/// A name in them has a control character, which no line of settings can hold.
pub(super) fn standby_settings(own: &str, conninfo: &ConnInfo, slot: &str) -> Result<String, Error> {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut words = vec![format!("user={}", quoted(&conninfo.user))];
    if let Some(host) = conninfo.hosts.first() {
        let place = match (&host.name, &host.address) {
            (Some(name), _) | (None, Address::Name(name)) => name.clone(),
            (None, Address::Ip(ip)) => ip.to_string(),
            (None, Address::Socket(folder)) => shown_path(folder),
        };
        words.extend([format!("host={}", quoted(&place)), format!("port={}", host.port)]);
    }
    let words = words.join(" ");
    if words.contains(char::is_control) {
        let says = "the role or the host of the server has a control character, which its settings cannot hold";
        return Err(Error::refused(says, "copy with a role and a host without one"));
    }
    // The server takes `\` in a setting for the beginning of an escape.
    let set = |name: &str, value: &str| format!("{name} = '{}'\n", value.replace('\\', r"\\").replace('\'', "''"));
    let before = if own.is_empty() || own.ends_with('\n') { own.to_owned() } else { format!("{own}\n") };
    Ok(before + &set("primary_conninfo", &words) + &set("primary_slot_name", slot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Environment;

    #[test]
    fn what_is_made_stays_in_the_folder_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let [home, victim] = ["home", "victim"].map(|name| dir.path().join(name));
        for folder in [&home, &victim] {
            fs::create_dir(folder).unwrap();
        }
        let staged = Staged::new(&home, &home).unwrap();
        let absolute = victim.join("evil.sh");
        for name in ["../../victim/evil.sh", "pg_tblspc/../../../victim/evil.sh", absolute.to_str().unwrap()] {
            assert!(staged.link(name, Path::new("/srv")).is_err() && staged.write(name, b"").is_err(), "{name}");
            assert!(staged.folder(name).is_err(), "{name}");
        }
        assert!(fs::read_dir(&victim).unwrap().next().is_none());
        staged.link("pg_tblspc/16384", Path::new("/srv")).unwrap();
        assert!(staged.content().join("pg_tblspc/16384").is_symlink());
    }

    #[test]
    fn a_standby_knows_its_primary_but_no_password() {
        let environment = Environment::from_variables([]);
        let settings = |user: &str| {
            let url = format!("postgres://{user}:secret@db.example:5433/x");
            standby_settings("a = 1", &ConnInfo::parse(&url, &environment).unwrap(), "one")
        };
        for (user, written) in [("me", "me"), ("o'neill", r"o\\''neill"), ("a%5Cb", r"a\\\\b")] {
            let conninfo = format!("user=''{written}'' host=''db.example'' port=5433");
            let expected = format!("a = 1\nprimary_conninfo = '{conninfo}'\nprimary_slot_name = 'one'\n");
            assert_eq!(settings(user).unwrap(), expected);
        }
        assert!(settings("a%0Ab").unwrap_err().to_string().contains("control character"));
    }
}
