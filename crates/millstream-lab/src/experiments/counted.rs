//! What a server counts while a run is measured.

use super::cluster::Trouble;
use crate::core::{Measures, ServerCpu};
use crate::error::Error;
use millstream_pg::Connection;
use std::collections::BTreeMap;

/// Counters of a server before a run.
#[derive(Debug)]
pub(super) struct Counted {
    counters: BTreeMap<String, f64>,
    /// The server's processes, if they can be seen, and their processor time.
    cpu: Option<(ServerCpu, f64)>,
}

impl Counted {
    /// Reads them before a run.
    pub(super) async fn begin(session: &Connection, is_local: bool) -> Result<Self, Trouble> {
        let server = if is_local { ServerCpu::find(&session.client).await } else { None };
        let cpu = server.and_then(|server| server.seconds().map(|seconds| (server, seconds)));
        Ok(Self { counters: counters(session).await?, cpu })
    }

    /// Adds to the numbers of a run what was counted since then.
    pub(super) async fn end(self, session: &Connection, measures: &mut Measures) -> Result<(), Trouble> {
        let cpu = self.cpu.and_then(|(server, before)| Some(server.seconds()? - before));
        // It is less after a restart of the server.
        measures.set("server_cpu_seconds", cpu.filter(|seconds| *seconds >= 0.0));
        for (name, after) in counters(session).await? {
            let before = self.counters.get(&name).copied().unwrap_or(0.0);
            measures.set(&name, Some(after - before));
        }
        Ok(())
    }
}

/// What the server counts, to take differences of.
async fn counters(session: &Connection) -> Result<BTreeMap<String, f64>, Trouble> {
    let table = match session.server.version_num {
        170_000.. => "num_timed + num_requested from pg_catalog.pg_stat_checkpointer",
        _ => "checkpoints_timed + checkpoints_req from pg_catalog.pg_stat_bgwriter",
    };
    let sql = format!(
        "select pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), '0/0')::float8, (select {table})::float8, \
         (select coalesce(pg_catalog.sum(autovacuum_count), 0) from pg_catalog.pg_stat_user_tables)::float8"
    );
    let row = session.client.query_one(&sql, &[]).await.map_err(Error::from)?;
    let names = ["wal_bytes", "checkpoints", "autovacuums"];
    Ok(names.iter().enumerate().map(|(n, name)| ((*name).to_owned(), row.get(n))).collect())
}
