//! A kind of change in one file, as the recipe says: what a machine says to those who log in. Its texts are large, so that
//! entries hold digests, and it lasts by a file.

use millstream_change::{Answer, Kind, Large, Lasting, Lasts, Place};
use millstream_model::Refusal;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A text below `/run`, by its name. It lasts by a file of `/etc`.
#[derive(Debug)]
pub(crate) struct Greeting;

impl Kind for Greeting {
    fn name(&self) -> &'static str {
        "greeting"
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move { Ok(self.whole(place, target).await?.and_then(|whole| self.digest(&whole))) })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let file = file(place, "/run", target);
            let done = value.map_or_else(|| fs::remove_file(&file), |text| fs::write(&file, text));
            done.map_err(|error| Refusal::new(error.to_string()))
        })
    }

    fn overwrites(&self, _: bool) -> bool {
        true
    }

    fn large(&self) -> Option<&dyn Large> {
        Some(self)
    }

    fn lasts(&self) -> Option<&dyn Lasts> {
        Some(self)
    }
}

impl Large for Greeting {
    fn whole<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            match fs::read_to_string(file(place, "/run", target)) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Refusal::new(error.to_string())),
            }
        })
    }

    fn digest(&self, whole: &str) -> Option<String> {
        Some(format!("{} bytes, the last is {:?}", whole.len(), whole.chars().last()))
    }
}

impl Lasts for Greeting {
    fn lasting(&self, place: &Place, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        Ok(Lasting::Files(vec![(file(place, "/etc", target), value.unwrap_or_default().to_owned())]))
    }

    fn files(&self, place: &Place, target: &str) -> Vec<PathBuf> {
        vec![file(place, "/etc", target)]
    }
}

fn file(place: &Place, dir: &str, target: &str) -> PathBuf {
    place.path(&Path::new(dir).join(target))
}
