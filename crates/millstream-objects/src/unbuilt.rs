//! What stands for the stores in a build that does not read them.

use crate::address::shown;
use crate::error::Error;
use millstream_input::Object;
use std::sync::Arc;

/// Finds no objects.
#[derive(Debug, Default)]
pub struct Finder {
    /// As in a build with the feature, it is made by `default`.
    _made: (),
}

impl Finder {
    /// Says which feature finds objects.
    ///
    /// # Errors
    /// Always.
    pub fn find(&mut self, typed: &str, _says: &dyn Fn(String)) -> Result<Vec<Arc<dyn Object>>, Error> {
        Err(Error::Unbuilt { name: shown(typed) })
    }
}
