//! Shared tables: made once, for subjects that only read.

use crate::core::DataSet;
use crate::error::Error;
use crate::ingest::bench::Bench;
use crate::ingest::bench::TABLE;
use crate::ingest::phase::Phase;
use crate::limits::VALUES;
use millstream_pg::Connection;

/// The first column of the key, which has few values.
pub(crate) const COLUMN: &str = "vendor";

/// The table of a phase.
pub(crate) fn name(phase: &Phase) -> String {
    format!("shared_{}", phase.name)
}

/// Number of values of the column in a table of so many rows.
pub(crate) fn values(rows: u64) -> u64 {
    rows.min(VALUES)
}

/// Makes the table of a phase as a collection, fills it on the server and vacuums it.
pub(crate) async fn make(bench: &Bench, control: &Connection, set: &DataSet, phase: &Phase) -> Result<(), Error> {
    let table = name(phase);
    let none = bench.script("none.ndjson", "")?;
    let key = format!("{COLUMN}:text,id:bigint");
    let load = ["load", &none.to_string_lossy(), "--into", &bench.dotted(&table), "--key", &key, "--progress", "none"];
    bench.millstream(&load, None).await?;
    let rows = phase.stream.documents(set);
    let numbers =
        [rows, values(rows), set.document_bytes as u64].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let [rows, values, bytes] = &numbers;
    let quoted = bench.quoted(&table);
    let fill = include_str!("shared_table.sql").replace(TABLE, &quoted);
    control.client.execute(&fill, &[rows, values, bytes]).await?;
    control.client.batch_execute(&format!("vacuum (analyze) {quoted}")).await?;
    Ok(())
}

/// Drops the tables of these phases.
pub(crate) async fn remove(bench: &Bench, control: &Connection, phases: &[Phase]) -> Result<(), Error> {
    for phase in phases {
        control.client.batch_execute(&format!("drop table {}", bench.quoted(&name(phase)))).await?;
    }
    Ok(())
}
