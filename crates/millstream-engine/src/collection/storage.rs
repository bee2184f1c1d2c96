//! How rows lie in the files of a table that we create, decided here for all of them.

/// Percent of a page that inserts fill. If the page is full, an update moves its row to another page and adds an index
/// entry. Free space on the page lets the row stay, but makes the table larger for those who only insert. Measured with
/// a million 150-byte documents under random keys, PostgreSQL 15, batches of 50,000. If the changed documents come in
/// the order of the first ones, a batch updates whole pages at once. Then 90 makes an insert-only table 9 % larger
/// (table and index) and saves a fifth of the WAL of the fifth wave; 70 makes it 40 % larger and saves two fifths; 50
/// doubles the table, and every updated row stays. In another order, 90 lets the table grow by a tenth in all; 75 does
/// not let it grow, and is 5 to 10 % faster.
pub const FILLFACTOR: u8 = 90;

/// The same for the table and the key's index of a collection that hardly changes any more.
pub const COLD_FILLFACTOR: u8 = 100;

/// The compression of the column for documents, if the server has it: lz4 is faster than what it has by default. The
/// server compresses values only in rows of more than some 2,000 bytes, whatever the options of the table are.
pub const COMPRESSION: &str = "compression lz4";

/// Behind the type of the column for documents, with a space before. `lz4` says whether the server has it.
pub(crate) fn compression(lz4: bool) -> String {
    if lz4 { format!(" {COMPRESSION}") } else { String::new() }
}
