//! Checkpoints as the server has counted them, whatever the version calls the counters.

use crate::server::Server;
use millstream_pg::{Error, fill};
use tokio_postgres::Row;

/// The counters since their reset, and the view that shows them.
pub(super) struct Checkpoints {
    pub(super) view: &'static str,
    /// `timed`, `requested`, `restartpoints`, `sync_ms`, `seconds`, `wal_seconds`, `wal_bytes`.
    pub(super) row: Row,
}

impl Checkpoints {
    pub(super) async fn of(server: &Server) -> Result<Self, Error> {
        // Before PostgreSQL 17, those of a standby count as checkpoints.
        let (view, timed, requested, restartpoints, sync_ms) = match server.version_num() {
            170_000.. => ("pg_stat_checkpointer", "num_timed", "num_requested", "c.restartpoints_done", "sync_time"),
            _ => ("pg_stat_bgwriter", "checkpoints_timed", "checkpoints_req", "0", "checkpoint_sync_time"),
        };
        let sql = fill!(include_str!("checkpoints.sql"), view, timed, requested, restartpoints, sync_ms);
        Ok(Self { view, row: server.session.client.query_one(&sql, &[]).await? })
    }
}
