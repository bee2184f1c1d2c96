//! The log layout: documents are appended to segments, which a compaction merges into the table.

use super::{Layout, Wish};
use crate::durability::Durability;
use crate::error::Error;
use millstream_model::Refusal;
use millstream_model::limits::DOCUMENT_BYTES_MAX;
use millstream_pg::Connection;
use millstream_pg::catalog::Table;

pub(crate) static LOG: Layout = Layout {
    name: "log",
    about: "documents are appended without looking up keys; a compaction merges them into the table later",
    // Segments are other tables, and may outlive the rows of this one.
    fills_table: false,
    keeps_batches: false,
    refuses,
    misfit,
    examine: |control, durability| Box::pin(writes_no_wal(control, durability)),
};

/// Refuses what needs the stored documents: only a compaction looks at them, and it replaces each by the newest one.
fn refuses(wish: &Wish<'_>) -> Option<Refusal> {
    if !wish.mode.replaces() {
        let problem = format!("--layout log does not go with --mode {}", wish.mode.name());
        return Some(
            Refusal::new(problem)
                .hint("load with --mode replace, with or without --delete-when, or leave out --layout"),
        );
    }
    if !wish.checks.is_empty() {
        return Some(
            Refusal::new("--check does not go with --layout log")
                .hint("leave out one of them: documents are not checked while they are appended"),
        );
    }
    if wish.columns {
        return Some(
            Refusal::new("typed columns do not go with --layout log")
                .hint("leave out one of them: nobody would know which documents do not fit the columns"),
        );
    }
    if wish.deletes_missing {
        return Some(
            Refusal::new("--delete-missing does not go with --layout log")
                .hint("leave out one of them: rows that wait in segments cannot be compared with the files"),
        );
    }
    // Up to this size, the decoder knows that jsonb accepts a document. Beyond it, only the server knows.
    if wish.document_bytes_max > DOCUMENT_BYTES_MAX {
        return Some(
            Refusal::new(format!("documents above {} MiB do not go with --layout log", DOCUMENT_BYTES_MAX >> 20))
                .hint("leave it out: the server looks at documents only when it merges them"),
        );
    }
    wish.compares.then(|| {
        Refusal::new("--skip-unchanged on does not go with --layout log")
            .hint("leave it out: nothing is looked up while documents are appended")
    })
}

fn misfit(table: &Table, plain: bool) -> Option<(String, String)> {
    let leave_out = "leave out --layout log".to_owned();
    let (problem, hint) = if table.is_partitioned() {
        ("it is partitioned: a document that waits in a segment may fit no partition once it is merged", leave_out)
    } else if table.row_security.enabled {
        ("it has row-level security, which does not apply to documents that wait in segments", leave_out)
    } else if !table.privileges.delete {
        (
            "this role may not delete, but merging appended documents may have to",
            format!("ask the owner to grant it, or {leave_out}"),
        )
    } else if !plain {
        (
            "documents are appended only where nothing but the key decides: it has a trigger, a constraint, a \
             generated column, an index beside the key's, or a key that is not in collation \"C\"",
            leave_out,
        )
    } else {
        return None;
    };
    Some((problem.into(), hint))
}

/// Under `wal_level` `minimal`, a logged table that is filled in the transaction that created it needs no WAL.
async fn writes_no_wal(control: &Connection, durability: &Durability) -> Result<bool, Error> {
    let minimal = "select pg_catalog.current_setting('wal_level') = 'minimal'";
    Ok(!durability.unlogged && control.client.query_one(minimal, &[]).await?.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_only_the_server_can_check_are_not_appended() {
        let mode = "replace".parse().unwrap();
        for (document_bytes_max, fits) in [(DOCUMENT_BYTES_MAX, true), (DOCUMENT_BYTES_MAX + 1, false)] {
            let wish = Wish {
                mode: &mode,
                checks: &[],
                columns: false,
                document_bytes_max,
                compares: false,
                deletes_missing: false,
            };
            assert_eq!(refuses(&wish).is_none(), fits, "{document_bytes_max}");
        }
    }
}
