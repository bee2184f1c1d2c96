//! Where the bytes of a source lie, and how a later run of a load knows them again.

use super::{Input, Nan, SourceError, path, spelling, tagged};
use millstream_input::{Content, Object, Objects};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the bytes of a source lie.
#[derive(Debug, Clone)]
pub enum Location {
    /// A file. Every run of a load reads it from its beginning and compares it by bytes.
    File(PathBuf),
    /// Standard input, a pipe or a device, which gives its bytes once.
    Pipe(PathBuf),
    /// An object in a store. A later run of a load knows it by its tag and need not read it again.
    Object(Arc<dyn Object>),
}

/// What is known about a source before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The name by which a load knows it. A file has its absolute path, so that the same command means the same load in
    /// every directory.
    pub name: String,
    /// Bytes as they are stored, perhaps compressed. `None` for a pipe.
    pub size: Option<u64>,
}

impl Location {
    /// The location that a name means: one of these objects, a path as [`spelling`] writes it, or `-` for standard input.
    /// What cannot be reached is found out by [`Location::find`].
    pub fn of(name: &str, objects: &Objects) -> Self {
        if let Some(object) = objects.get(name) {
            return Self::Object(Arc::clone(object));
        }
        let path = path(name);
        if path != Path::new("-") && path.is_file() { Self::File(path) } else { Self::Pipe(path) }
    }

    /// Whether it can be read again from its beginning.
    pub fn is_repeatable(&self) -> bool {
        !matches!(self, Self::Pipe(_))
    }

    /// The tag by which a later run of a load knows what it holds. `None`: by its bytes, if at all.
    pub fn tag(&self) -> Option<&str> {
        match self {
            Self::Object(object) => Some(object.tag()),
            Self::File(_) | Self::Pipe(_) => None,
        }
    }

    /// What tells it from others, also under another name, if it can be read only once.
    pub fn stream_identity(&self) -> Option<(u64, u64)> {
        match self {
            Self::File(_) | Self::Object(_) => None,
            Self::Pipe(path) => millstream_input::stream_identity(path),
        }
    }

    /// Requires that it is there and can be read. An object is there: it was found before.
    ///
    /// # Errors
    /// It is not, or is a directory.
    pub fn find(&self) -> Result<Found, SourceError> {
        match self {
            Self::File(path) => found_file(path),
            Self::Pipe(path) => {
                if path != Path::new("-") && millstream_input::metadata(path)?.is_dir() {
                    return Err(millstream_input::Error::Directory { name: path.display().to_string() }.into());
                }
                Ok(Found { name: spelling(path), size: None })
            }
            Self::Object(object) => Ok(Found { name: object.name().to_owned(), size: Some(object.size()) }),
        }
    }

    /// What it holds, to know later whether it has changed. A file is read for that. For an object, its size and its tag say
    /// it, with the versions of the texts that are made of files that are no text. `None` for a pipe.
    ///
    /// # Errors
    /// The system's.
    pub fn content(&self) -> io::Result<Option<Content>> {
        match self {
            Self::File(path) => Content::of(path).map(Some),
            Self::Pipe(_) => Ok(None),
            Self::Object(object) => {
                Ok(Some(Content { bytes: object.size(), hash: tagged(None, object.tag()).digest128() }))
            }
        }
    }

    /// Says that it will be read soon. What is far away then begins to come.
    pub fn prepare(&self) {
        match self {
            Self::File(_) | Self::Pipe(_) => {}
            Self::Object(object) => object.prepare(),
        }
    }

    /// Begins to read it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self, nan: Nan) -> Result<Input, millstream_input::Error> {
        match self {
            Self::File(path) | Self::Pipe(path) => Input::open_with(path, nan),
            Self::Object(object) => Input::of_object(&**object, nan),
        }
    }
}

fn found_file(path: &Path) -> Result<Found, SourceError> {
    let size = millstream_input::metadata(path)?.len();
    let failed = |source| millstream_input::Error::Open { name: path.display().to_string(), source };
    std::fs::File::open(path).map_err(failed)?;
    let absolute = std::fs::canonicalize(path).map_err(failed)?;
    Ok(Found { name: spelling(&absolute), size: Some(size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(name: &str) -> Location {
        Location::of(name, &Objects::default())
    }

    #[test]
    fn a_file_has_its_absolute_path_and_size_and_can_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.json"), folder.path().join("b.json"));
        std::fs::write(&file, "{}\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for name in [spelling(&file), spelling(&link)] {
            let location = location(&name);
            assert!(location.is_repeatable() && location.stream_identity().is_none() && location.tag().is_none());
            let absolute = std::fs::canonicalize(&file).unwrap();
            assert_eq!(location.find().unwrap(), Found { name: spelling(&absolute), size: Some(3) });
            assert_eq!(location.content().unwrap(), Some(Content::of(&file).unwrap()));
        }
    }

    #[test]
    fn a_device_is_read_once_and_has_no_size() {
        let device = location("/dev/null");
        assert!(!device.is_repeatable() && device.stream_identity().is_some());
        assert_eq!(device.find().unwrap(), Found { name: "/dev/null".into(), size: None });
        assert_eq!(device.content().unwrap(), None);
        assert_eq!(location("-").find().unwrap(), Found { name: "-".into(), size: None });
    }

    #[test]
    fn what_is_no_source_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = location(&spelling(folder.path())).find().unwrap_err();
        assert!(error.to_string().ends_with("is a directory"), "{error}");
        let error = location(&spelling(&folder.path().join("none"))).find().unwrap_err();
        assert!(error.to_string().starts_with("cannot open "), "{error}");
    }
}
