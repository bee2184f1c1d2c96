//! An object of a store as others see it: what blocks, over what is async.

use crate::places::Places;
use crate::ranges::Ranges;
use crate::stored::Stored;
use millstream_input::{Object, ReadAt};
use std::io::Read;

/// An object that was found.
#[derive(Debug)]
pub(crate) struct Found(pub(crate) Stored);

impl Object for Found {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn tag(&self) -> &str {
        self.0.tag()
    }

    fn reader(&self) -> Box<dyn Read + Send> {
        Box::new(Ranges::of(self.0.clone()))
    }

    fn places(&self) -> Box<dyn ReadAt> {
        Box::new(Places::of(self.0.clone()))
    }
}
