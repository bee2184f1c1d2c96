//! What all parts of a copy share.

use crate::error::Error;
use crate::manifest::Reader;
use crate::place::Place;
use crate::policy::Policy;
use crate::request::Request;
use crate::state::State;
use crate::tally::{Failures, Tally};
use crate::walk::Scope;
use std::path::PathBuf;

/// A copy that was found to be possible.
pub(crate) struct Task<'a> {
    pub(crate) request: &'a Request,
    pub(crate) policy: Policy,
    /// Bytes of a piece of a large file, if the hashes of pieces give that of the file.
    pub(crate) piece_bytes: Option<u64>,
    pub(crate) place: Place,
    /// The root of the copy, or the file that it is.
    pub(crate) target: PathBuf,
    pub(crate) state: State,
    pub(crate) tally: &'a Tally,
    pub(crate) failures: Failures,
}

impl Task<'_> {
    /// What of the source is copied.
    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope { piece_bytes: self.piece_bytes, ..self.place.scope(self.request) }
    }

    /// The list of the source.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open_list(&self) -> Result<Reader, Error> {
        let path = self.state.list();
        Reader::open(&path).map_err(Error::manifest(&path))
    }
}
