//! `collections --sizes`: what each part of each collection takes on disk.

use crate::commands::doctor::marked;
use crate::failure::Failure;
use crate::interruption::attended;
use crate::limits::FREE_SPACE_MEASURED;
use crate::output::{Output, note};
use crate::quantity;
use crate::table::{Align, Table};
use crate::target::Database;
use millstream_doctor::{FreeSource, TableState, tables};
use millstream_model::{CollectionName, DocumentForm};
use millstream_store::collections::{self, CollectionSizes};
use serde::Serialize;

/// A collection with its parts.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    name: CollectionName,
    doc: DocumentForm,
    /// Rows by the table's statistics.
    rows_estimate: Option<u64>,
    /// Bytes of the table with all that belongs to it; `null` if it is gone.
    bytes: Option<u64>,
    /// The same for each row.
    bytes_per_document: Option<f64>,
    /// Those of the table, and then `waiting`: documents in segments.
    parts: Vec<Part>,
}

/// A part of a collection.
#[derive(Debug, Serialize)]
struct Part {
    part: &'static str,
    /// The name of an index.
    name: Option<String>,
    bytes: u64,
    bytes_per_document: Option<f64>,
    free: Option<Free>,
    /// Storage options that differ from the server's, as `NAME=VALUE`.
    options: Vec<String>,
}

/// Free space in a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Free {
    bytes: u64,
    source: FreeSource,
}

/// Prints the sizes, or `none` if there is no collection.
pub async fn print(database: Option<&Database>, output: Output, none: &str) -> Result<(), Failure> {
    let reports = match database {
        Some(database) => attended(&database.conninfo, note, Box::pin(reports(database))).await?,
        None => Vec::new(),
    };
    if output.is_json() {
        return output.json(&reports);
    }
    if reports.is_empty() {
        note(none);
        return Ok(());
    }
    output.table(&table(&reports))
}

async fn reports(database: &Database) -> Result<Vec<Report>, Failure> {
    let found = collections::sizes(&database.connection.client, &database.schema).await?;
    let states = if found.is_empty() { Vec::new() } else { states(database).await };
    Ok(found.into_iter().map(|sizes| report(sizes, &states)).collect())
}

/// What the doctor knows of the free space of tables. It is not worth a failure.
async fn states(database: &Database) -> Vec<TableState> {
    // The last argument is the speed of a rewrite, which this list does not show.
    match tables(&database.conninfo, FREE_SPACE_MEASURED, 1).await {
        Ok(list) => list.tables,
        Err(error) => {
            note(&format!("free space is not known: {error}"));
            Vec::new()
        }
    }
}

fn report(sizes: CollectionSizes, states: &[TableState]) -> Report {
    let bytes = sizes.table_bytes();
    let rows = sizes.rows_estimate.filter(|rows| *rows > 0);
    let each = |bytes: u64| rows.map(|rows| bytes as f64 / rows as f64);
    let made =
        |part, name, bytes, options| Part { part, name, bytes, bytes_per_document: each(bytes), free: None, options };
    let free = |toast| sizes.quoted.as_deref().and_then(|name| free(states, name, toast));
    let (heap_free, toast_free) = (free(false), free(true));
    let mut parts = Vec::new();
    parts.extend(sizes.heap_bytes.map(|bytes| Part { free: heap_free, ..made("heap", None, bytes, sizes.options) }));
    parts.extend(sizes.toast_bytes.map(|bytes| Part { free: toast_free, ..made("toast", None, bytes, Vec::new()) }));
    parts.extend(sizes.indexes.into_iter().map(|index| made("index", Some(index.name), index.bytes, index.options)));
    parts.extend(sizes.map_bytes.map(|bytes| made("maps", None, bytes, Vec::new())));
    if sizes.segments > 0 {
        // These are not among the rows.
        let waiting = made("waiting", None, sizes.segment_bytes, Vec::new());
        parts.push(Part { bytes_per_document: None, ..waiting });
    }
    Report {
        name: sizes.name,
        doc: sizes.doc,
        rows_estimate: sizes.rows_estimate,
        bytes,
        bytes_per_document: bytes.and_then(each),
        parts,
    }
}

/// The free space of a table or of its TOAST table. Of a partitioned table, it is that of all partitions.
fn free(states: &[TableState], table: &str, toast: bool) -> Option<Free> {
    let toast_table = format!("{table}{TOAST}");
    let wanted = if toast { toast_table.as_str() } else { table };
    let mut known = states
        .iter()
        .flat_map(|one| std::iter::once(one).chain(&one.partitions).map(move |part| (one, part)))
        // One with partitions is the sum of them.
        .filter(|(_, part)| part.partitions.is_empty())
        .filter(|(one, part)| part.table == wanted || one.table == table && part.table.ends_with(TOAST) == toast)
        .filter_map(|(_, part)| part.free.as_ref());
    let first = known.next().map(|free| Free { bytes: free.bytes, source: free.source })?;
    Some(known.fold(first, |sum, free| Free {
        bytes: sum.bytes + free.bytes,
        source: if sum.source == free.source { sum.source } else { FreeSource::Several },
    }))
}

/// What the doctor puts behind the name of a table for its TOAST table.
const TOAST: &str = ".toast";

/// A line for each collection, and one for each of its parts.
fn table(reports: &[Report]) -> Table {
    let knows_free = reports.iter().flat_map(|one| &one.parts).any(|part| part.free.is_some());
    let columns: Vec<(&'static str, Align)> = [
        ("name", Align::Left),
        ("size", Align::Right),
        ("%", Align::Right),
        ("per document", Align::Right),
        ("free", Align::Right),
        ("part", Align::Wrap),
    ]
    .into_iter()
    .filter(|(name, _)| knows_free || *name != "free")
    .collect();
    let mut table = Table::new(&columns);
    let mut row = |cells: [String; 6]| {
        let cells = cells.into_iter().enumerate().filter(|(place, _)| knows_free || *place != 4);
        table.row(cells.map(|(_, cell)| cell));
    };
    for report in reports {
        let name = report.name.to_string();
        let size = report.bytes.map_or("no table".into(), quantity::bytes);
        let of = if report.doc == DocumentForm::Whole { "all" } else { "all, documents without key" };
        row([name.clone(), size, String::new(), each(report.bytes_per_document), String::new(), of.to_owned()]);
        for part in &report.parts {
            let share = report.bytes.filter(|all| *all > 0 && part.part != "waiting");
            row([
                name.clone(),
                quantity::bytes(part.bytes),
                share.map_or_else(String::new, |all| format!("{:.0}", 100.0 * part.bytes as f64 / all as f64)),
                each(part.bytes_per_document),
                part.free.map_or_else(String::new, |free| marked(free.bytes, free.source)),
                described(part),
            ]);
        }
    }
    table
}

fn described(part: &Part) -> String {
    let name = part.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let options = if part.options.is_empty() { String::new() } else { format!(" ({})", part.options.join(", ")) };
    format!("{}{name}{options}", part.part)
}

/// Bytes for each document; few of them with a decimal.
fn each(bytes: Option<f64>) -> String {
    match bytes {
        None => String::new(),
        Some(bytes) if bytes < 9.95 => format!("{bytes:.1}"),
        Some(bytes) => format!("{bytes:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_doctor::FreeSpace;
    use millstream_store::collections::IndexSize;

    fn sizes(name: &str, rows: Option<u64>) -> CollectionSizes {
        CollectionSizes {
            name: name.parse().unwrap(),
            doc: DocumentForm::Whole,
            quoted: Some(name.to_owned()),
            rows_estimate: rows,
            options: vec!["fillfactor=90".to_owned()],
            heap_bytes: Some(288 << 20),
            map_bytes: Some(128 << 10),
            toast_bytes: Some(8 << 10),
            indexes: vec![IndexSize { name: "t_pkey".to_owned(), bytes: 72 << 20, options: Vec::new() }],
            segments: 0,
            segment_bytes: 0,
        }
    }

    fn state(table: &str, free: u64, source: FreeSource) -> TableState {
        let free = FreeSpace {
            bytes: free,
            percent: 1.0,
            source,
            rewrite_gives_bytes: 0,
            rewrite_needs_bytes: 0,
            rewrite_locks_seconds: 0.0,
        };
        TableState { table: table.to_owned(), free: Some(free), ..TableState::default() }
    }

    #[test]
    fn parts_add_up_and_the_list_fits_80_columns() {
        let states = [state("s.t", 3 << 20, FreeSource::Estimate), state("s.t.toast", 1_000, FreeSource::Pgstattuple)];
        let waiting = CollectionSizes { segments: 2, segment_bytes: 5_000, ..sizes("s.t", Some(1_000_000)) };
        let gone = CollectionSizes {
            quoted: None,
            heap_bytes: None,
            map_bytes: None,
            toast_bytes: None,
            indexes: Vec::new(),
            doc: DocumentForm::WithoutKey,
            ..sizes("s.gone", None)
        };
        let reports = [report(waiting, &states), report(gone, &states)];
        let parts = reports[0].parts.iter().filter(|part| part.part != "waiting");
        assert_eq!(Some(parts.map(|part| part.bytes).sum::<u64>()), reports[0].bytes);
        let text = table(&reports).text(Some(80));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(lines.len(), 8, "{text}");
        assert!(lines[1].contains("360.1 MiB") && lines[1].contains(" 378 ") && lines[1].ends_with("  all"), "{text}");
        assert!(lines[2].contains(" 80 ") && lines[2].contains(" 302 "), "{text}");
        assert!(lines[2].contains("~3.0 MiB") && lines[2].ends_with("heap (fillfactor=90)"), "{text}");
        assert!(lines[3].contains(" 0.0 ") && lines[3].contains("1000 B"), "{text}");
        assert!(lines[4].ends_with("index t_pkey") && lines[5].ends_with("maps"), "{text}");
        assert!(lines[6].ends_with("waiting") && !lines[6].contains("100"), "{text}");
        assert!(lines[7].contains("no table") && lines[7].ends_with("documents without key"), "{text}");
    }

    #[test]
    fn without_rows_there_is_nothing_to_divide_by() {
        for rows in [None, Some(0)] {
            let report = report(sizes("s.t", rows), &[]);
            assert_eq!((report.bytes_per_document, report.parts[0].bytes_per_document), (None, None));
            assert!(!table(&[report]).text(Some(80)).contains("FREE"));
        }
    }

    #[test]
    fn free_space_of_partitions_is_that_of_their_heaps_or_of_their_toast() {
        let mut root = state("s.t", 99, FreeSource::Several);
        root.partitions = vec![
            state("s.t_1", 10, FreeSource::Estimate),
            state("s.t_1.toast", 1, FreeSource::Estimate),
            state("s.t_2", 20, FreeSource::Pgstattuple),
            TableState { table: "s.t_3".to_owned(), ..TableState::default() },
        ];
        let states = [state("s.other", 5, FreeSource::Estimate), root];
        let is = |table: &str, toast| free(&states, table, toast).map(|free| (free.bytes, free.source));
        assert_eq!(is("s.t", false), Some((30, FreeSource::Several)));
        assert_eq!(is("s.t", true), Some((1, FreeSource::Estimate)));
        assert_eq!(is("s.t_1", false), Some((10, FreeSource::Estimate)));
        assert_eq!(is("s.t_1", true), Some((1, FreeSource::Estimate)));
        assert_eq!(is("s.other", false), Some((5, FreeSource::Estimate)));
        assert_eq!((is("s.other", true), is("s.t_3", false), is("s.none", false)), (None, None, None));
    }
}
