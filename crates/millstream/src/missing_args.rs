//! `--delete-missing`: which rows a load deletes because its files lack them.

use crate::quantity::Percent;
use millstream_engine::limits::MISSING_PERCENT_MAX;
use millstream_engine::{DeleteMissing, LoadRequest};

/// Whether rows are deleted that the files lack.
#[derive(Debug, clap::Args)]
pub struct MissingArgs {
    /// After the load, delete the rows whose key no document has
    ///
    /// For files that hold everything that should be in the table now, such as a dump. Rows are deleted only if all
    /// files were read to their end and no document was rejected. A row that another session has written since the
    /// load began stays.
    ///
    /// The keys of all documents are sorted, in TMPDIR (or /tmp) if they do not fit into 64 MiB. The role needs the right
    /// to delete from the table. A load that stops while it deletes continues there when you run the same command again.
    /// The receipt counts the rows as deleted.
    #[arg(long, conflicts_with = "skip_loaded")]
    delete_missing: bool,

    /// Delete none if the files lack more than this part of the rows
    ///
    /// It counts the rows that were in the table before. Files without any document never delete anything.
    #[arg(long, value_name = "PERCENT", default_value_t = Percent::whole(MISSING_PERCENT_MAX), requires = "delete_missing")]
    delete_missing_max: Percent,
}

impl MissingArgs {
    /// Whether they are to be deleted.
    pub fn is_asked(&self) -> bool {
        self.delete_missing
    }

    /// Puts what was typed into a request.
    pub fn apply(&self, request: &mut LoadRequest) {
        let wanted = || DeleteMissing::new(self.delete_missing_max.percent(), std::env::temp_dir());
        request.delete_missing = self.delete_missing.then(wanted);
    }
}
