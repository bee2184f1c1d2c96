//! A writer as CONTRIBUTING.md says to write one: it stages new keys and inserts them.

use crate::batch::{Batch, Group};
use crate::merge::Written;
use crate::write::copy_stream::stage_groups;
use crate::write::names::{Names, STAGED};
use crate::write::statement::Sql;
use crate::write::{Facts, Session, Writer, Writing};
use futures_util::FutureExt;

pub(super) static WRITER: Writer =
    Writer { name: "inserts", facts: Facts { only_new: true, ..Facts::NONE }, sql, write };

const INSERT: &str = "inserts";

fn sql(names: &Names<'_>) -> Option<Sql> {
    let (Names { table, key, .. }, stage) = (names, STAGED.table);
    let insert = format!("insert into {table} ({key}, doc) select {key}, doc from {stage} order by {key}");
    Some(Sql::of([(INSERT, insert)]))
}

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let insert = async { Ok(session.client.execute(session.prepared.statement(INSERT), &[]).await?) };
        let inserted = stage_groups(session, batch, groups, insert).await?;
        Ok(Some(Written { inserted, ..Written::default() }))
    }
    .boxed()
}
