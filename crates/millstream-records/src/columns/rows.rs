//! Rows of batches, written line by line.

use super::column::Members;
use super::line::{Fault, Line};
use crate::limits::{BATCH_ROWS, LINE_BYTES_MAX, TEXT_BYTES};
use crate::{Nan, Trouble};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Fields};
use std::collections::HashSet;

/// The rows of one batch after the other.
pub(super) struct Rows {
    batch: Option<RecordBatch>,
    /// The first row of the batch that was not written.
    next: usize,
    pub(super) nan: Nan,
    /// Rows that were written.
    pub(super) written: u64,
    /// Numbers that became null.
    pub(super) not_finite: u64,
}

impl Rows {
    pub(super) fn new(nan: Nan) -> Self {
        Self { batch: None, next: 0, nan, written: 0, not_finite: 0 }
    }

    /// Whether all rows were written.
    pub(super) fn are_written(&self) -> bool {
        self.batch.is_none()
    }

    /// Takes the next batch, when all rows were written.
    pub(super) fn begin(&mut self, batch: RecordBatch) {
        (self.batch, self.next) = ((batch.num_rows() > 0).then_some(batch), 0);
    }

    /// Appends rows until there is enough text.
    ///
    /// # Errors
    /// A row is too long. Those before it were appended.
    pub(super) fn write(&mut self, text: &mut Vec<u8>) -> Result<(), Trouble> {
        let Some(batch) = &self.batch else { return Ok(()) };
        while self.next < batch.num_rows() && text.len() < TEXT_BYTES {
            // A slice, because what is prepared for a batch must not be prepared for all of it each time.
            let slice = batch.slice(self.next, BATCH_ROWS.min(batch.num_rows() - self.next));
            let schema = slice.schema();
            let members = Members::of(schema.fields(), slice.columns());
            for row in 0..slice.num_rows() {
                let (start, nan) = (text.len(), self.nan);
                let mut line = Line { text: &mut *text, len_max: start + LINE_BYTES_MAX, nan, not_finite: 0 };
                let written = members.write(row, &mut line);
                self.not_finite += line.not_finite;
                if let Err(fault) = written {
                    text.truncate(start);
                    let row = self.written + 1;
                    return Err(Trouble::Damaged(match fault {
                        Fault::TooLong => format!("row {row} stands for a line of more than {LINE_BYTES_MAX} bytes"),
                        Fault::NoText => format!("row {row} holds text that is not UTF-8"),
                    }));
                }
                text.push(b'\n');
                self.next += 1;
                self.written += 1;
                if text.len() >= TEXT_BYTES {
                    break;
                }
            }
        }
        if self.next == batch.num_rows() {
            self.batch = None;
        }
        Ok(())
    }
}

/// Refuses columns, or members of one, that have the same name: of two members, a document keeps one.
///
/// # Errors
/// [`Trouble::Refused`] names them.
pub(super) fn require_names(fields: &Fields) -> Result<(), Trouble> {
    let mut names = HashSet::new();
    for field in fields {
        if !names.insert(field.name()) {
            let problem = format!("has two columns of the same name, {:?}", field.name());
            return Err(Trouble::Refused { problem, hint: "rename one of them where the file is written".into() });
        }
        require_names_within(field.data_type())?;
    }
    Ok(())
}

fn require_names_within(data_type: &DataType) -> Result<(), Trouble> {
    match data_type {
        DataType::Struct(fields) => require_names(fields),
        DataType::List(item)
        | DataType::ListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::LargeList(item)
        | DataType::LargeListView(item)
        | DataType::RunEndEncoded(_, item)
        | DataType::Map(item, _) => require_names_within(item.data_type()),
        DataType::Dictionary(_, item) => require_names_within(item),
        DataType::Union(fields, _) => fields.iter().try_for_each(|(_, field)| require_names_within(field.data_type())),
        _ => Ok(()),
    }
}
