//! Where the documents of a load lie that is killed: in a file, in a pipe, in objects of a store.

use crate::process::command;
use fastrand::Rng;
use millstream_testkit::{Bucket, is_night};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many objects share the documents.
const OBJECTS: usize = 8;

/// A kind of place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// A file, which is read again and compared.
    File,
    /// A pipe with a name.
    Pipe,
    /// Objects, which are known by their tags.
    Objects,
}

/// The kinds that this build reads.
const LOCATIONS: &[Location] = if cfg!(feature = "objects") {
    &[Location::File, Location::Pipe, Location::Objects]
} else {
    &[Location::File, Location::Pipe]
};

impl Location {
    /// One of them.
    pub fn any(rng: &mut Rng) -> Self {
        *rng.choice(LOCATIONS).expect("some")
    }

    /// Those of a similar case that takes long: by day one, at night all of them.
    pub fn todays(rng: &mut Rng) -> Vec<Self> {
        if is_night() { LOCATIONS.to_vec() } else { vec![Self::any(rng)] }
    }
}

/// Documents in such a place.
pub struct Documents {
    location: Location,
    file: PathBuf,
    /// The store, if they lie in one.
    bucket: Option<Bucket>,
}

impl Documents {
    /// The lines of a file, in a place of this kind.
    pub fn of(location: Location, file: PathBuf) -> Self {
        let bucket = (location == Location::Objects).then(|| objects(&file));
        Self { location, file, bucket }
    }

    /// The program that loads them. It needs the other arguments of a load.
    pub fn load(&self) -> Command {
        let path = self.file.to_str().expect("the path of a test is UTF-8");
        let mut load = match self.location {
            Location::File => command(&["load", path]),
            Location::Pipe => command(&["load", "-", "--source-name", "the stream"]),
            Location::Objects => command(&["load", &Bucket::s3("d/*.ndjson")]),
        };
        if self.location == Location::Pipe {
            load.stdin(File::open(&self.file).expect("the file is there"));
        }
        load.envs(self.bucket.iter().flat_map(Bucket::environment));
        load
    }
}

/// A store that holds the lines of a file, in their order.
fn objects(file: &Path) -> Bucket {
    let (bucket, text) = (Bucket::start(), std::fs::read_to_string(file).expect("the file is there"));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (number, part) in lines.chunks(lines.len().div_ceil(OBJECTS).max(1)).enumerate() {
        bucket.put(&format!("d/{number}.ndjson"), part.concat());
    }
    bucket
}
