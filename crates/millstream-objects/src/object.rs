//! An object of a store as others see it: what blocks, over what is async.

use crate::places::Places;
use crate::ranges::{First, Ranges};
use crate::stored::Stored;
use millstream_input::{Object, ReadAt};
use std::fmt;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// An object that was found.
pub(crate) struct Found {
    stored: Stored,
    /// Its first bytes, if they were asked for before it is read.
    first: Mutex<Option<First>>,
}

impl Found {
    pub(crate) fn of(stored: Stored) -> Self {
        Self { stored, first: Mutex::new(None) }
    }
}

impl Object for Found {
    fn name(&self) -> &str {
        self.stored.name()
    }

    fn size(&self) -> u64 {
        self.stored.size()
    }

    fn tag(&self) -> &str {
        self.stored.tag()
    }

    fn prepare(&self) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = First::of(&self.stored).ok();
        }
    }

    fn reader(&self) -> Box<dyn Read + Send> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::new(Ranges::of(self.stored.clone(), first))
    }

    fn places(&self) -> Box<dyn ReadAt> {
        Box::new(Places::of(self.stored.clone()))
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Found").field(&self.stored).finish()
    }
}
