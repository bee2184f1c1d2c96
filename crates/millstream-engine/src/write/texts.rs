//! All statements of a load, made once for its lanes.

use super::names::Names;
use super::statement::{Prepared, Sql};
use super::{WRITERS, copy_stream, judge, replay};
use crate::error::Error;
use crate::plan::LoadPlan;
use tokio_postgres::Client;

/// All statements of a load, as text.
#[derive(Debug)]
pub(crate) struct Texts {
    /// Those that a lane prepares on each of its connections: what fills its staging table, those of the writers, and
    /// those that try what is folded.
    lane: Vec<Sql>,
    /// Those for writing row by row, which few lanes need.
    pub(super) replay: replay::Sql,
}

impl Texts {
    pub(crate) fn new(plan: &LoadPlan) -> Self {
        let names = Names::new(plan);
        let writers = WRITERS.iter().filter_map(|writer| (writer.sql)(&names));
        let lane = [copy_stream::sql(&names)].into_iter().chain(writers).chain(judge::sql(&names)).collect();
        Self { lane, replay: replay::Sql::new(&names) }
    }

    /// Creates the connection's staging table and prepares the statements.
    pub(super) async fn prepare(&self, client: &Client) -> Result<Prepared, Error> {
        Prepared::new(client, &self.lane).await
    }
}
