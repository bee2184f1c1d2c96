//! A kind of change in one file, as the recipe says: what a machine says to those who log in.

use millstream_change::{Answer, Kind, Place, Reach, Refusal};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file of `/etc`, by its name.
#[derive(Debug)]
pub(crate) struct Greeting;

impl Kind for Greeting {
    fn name(&self) -> &'static str {
        "greeting"
    }

    fn reach(&self) -> Reach {
        Reach::Machine
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            match fs::read_to_string(file(place, target)) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Refusal::new(error.to_string())),
            }
        })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let file = file(place, target);
            let done = value.map_or_else(|| fs::remove_file(&file), |text| fs::write(&file, text));
            done.map_err(|error| Refusal::new(error.to_string()))
        })
    }
}

fn file(place: &Place, target: &str) -> PathBuf {
    place.path(&Path::new("/etc").join(target))
}
