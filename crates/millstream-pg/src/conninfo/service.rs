//! The service file: named groups of connection settings, `~/.pg_service.conf`.

use std::io;
use std::path::{Path, PathBuf};

use super::{Environment, Said, keyword};
use crate::error::Error;
use crate::limits::PASSFILE_BYTES_MAX;
use crate::named_file;

/// Adds the settings of the service in `service=` or `PGSERVICE` that no earlier source has given.
pub(super) fn add(said: &mut Said, env: &Environment) -> Result<(), Error> {
    let service = said.get("service").map(String::as_str).or_else(|| env.variable("PGSERVICE"));
    let Some(service) = service.filter(|s| !s.is_empty()).map(str::to_owned) else { return Ok(()) };
    let named = env.variable("PGSERVICEFILE").filter(|file| !file.is_empty());
    let own = match named {
        Some(file) => Some(PathBuf::from(file)),
        None => env.home().map(|home| home.join(".pg_service.conf")),
    };
    let system = env.variable("PGSYSCONFDIR").map(|dir| Path::new(dir).join("pg_service.conf"));
    for path in [own, system].into_iter().flatten() {
        let Some(text) = read(&path, named.is_some())? else { continue };
        if let Some(found) = section(&text, &service, &path)? {
            for (name, value) in found {
                said.entry(name).or_insert(value);
            }
            return Ok(());
        }
    }
    Err(Error::settings(format!("definition of service \"{service}\" not found")))
}

fn read(path: &Path, must_exist: bool) -> Result<Option<String>, Error> {
    if !must_exist && !path.exists() {
        return Ok(None);
    }
    named_file::read(path, PASSFILE_BYTES_MAX)
        .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
        .map(Some)
        .map_err(|error| Error::settings(format!("service file \"{}\" cannot be read: {error}", path.display())))
}

/// The settings of one `[section]`, or `None` if the file has no such section.
fn section(text: &str, service: &str, path: &Path) -> Result<Option<Said>, Error> {
    let mut found: Option<Said> = None;
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            if found.is_some() {
                break;
            }
            found = (name == service).then(Said::new);
            continue;
        }
        let Some(settings) = &mut found else { continue };
        let wrong = || {
            Error::settings(format!(
                "service file \"{}\", line {}: not a connection setting",
                path.display(),
                index + 1
            ))
        };
        let (name, value) = line.split_once('=').ok_or_else(wrong)?;
        let known = keyword::known(name.trim()).filter(|name| *name != "service").ok_or_else(wrong)?;
        settings.entry(known).or_insert_with(|| value.trim().to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# servers\n[one]\nhost=a\nport = 1\n\n[two]\nhost=b\nbad line\n[three]\nservice=one\n";

    #[test]
    fn only_the_named_section_is_read() {
        let path = Path::new("f");
        let one = section(FILE, "one", path).expect("well formed").expect("is there");
        assert_eq!(one, Said::from([("host", "a".to_owned()), ("port", "1".to_owned())]));
        assert!(section(FILE, "none", path).expect("well formed").is_none());
        assert!(section(FILE, "two", path).expect_err("a bad line").to_string().contains("line 8"));
        assert!(section(FILE, "three", path).is_err(), "services do not nest");
    }
}
