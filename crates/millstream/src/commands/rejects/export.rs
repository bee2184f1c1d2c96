//! Rejects written to a file, in the form that `load --format rejects` reads.

use crate::failure::Failure;
use crate::target::Database;
use millstream_engine::limits::REJECT_LINE_BYTES_MAX;
use millstream_store::RejectLine;
use millstream_store::rejects::{self, RejectFilter};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

/// Creates a file, which must not exist yet.
pub fn create_new(path: &Path) -> Result<File, Failure> {
    File::create_new(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::user(format!("{} exists already", path.display()))
            .hint("name a new file; rejects that may be half mended are not overwritten"),
        _ => Failure::cannot("create", path)(error),
    })
}

/// Opens the file for rejects. Rejects that an earlier run wrote there are to be replaced. A file that holds anything
/// else is refused: its first line is not a reject.
pub fn create(path: &Path, is_reject: fn(&str) -> bool) -> Result<File, Failure> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(Failure::cannot("open", path))?;
    let metadata = file.metadata().map_err(Failure::cannot("open", path))?;
    if metadata.is_file() && metadata.len() > 0 && !holds_rejects(&file, is_reject) {
        return Err(
            Failure::user(format!("{} does not hold rejects", path.display())).hint("name a new file for the rejects")
        );
    }
    Ok(file)
}

/// Writes rejects as lines of JSON, replacing what the file held, and returns how many. They are
/// on disk when this returns.
pub async fn write(mut file: File, database: &Database, filter: &RejectFilter) -> Result<u64, Failure> {
    let is_file = file.metadata().map_err(unwritten)?.is_file();
    if is_file {
        // `create` has read the file, which moved the place where writing begins.
        file.rewind().and_then(|()| file.set_len(0)).map_err(unwritten)?;
    }
    let written = lines(&file, database, filter, unwritten).await?;
    if is_file {
        file.sync_all().map_err(unwritten)?;
    }
    Ok(written)
}

/// Prints rejects on stdout as lines of JSON, and returns how many.
pub async fn print(database: &Database, filter: &RejectFilter) -> Result<u64, Failure> {
    lines(std::io::stdout(), database, filter, Failure::from).await
}

async fn lines(
    out: impl Write,
    database: &Database,
    filter: &RejectFilter,
    failed: impl Fn(std::io::Error) -> Failure,
) -> Result<u64, Failure> {
    let mut out = BufWriter::new(out);
    let mut written = 0;
    rejects::each(&database.connection.client, &database.schema, filter, None, |reject| {
        serde_json::to_writer(&mut out, &reject.line).map_err(|error| failed(error.into()))?;
        out.write_all(b"\n").map_err(&failed)?;
        written += 1;
        Ok::<(), Failure>(())
    })
    .await?;
    out.flush().map_err(failed)?;
    Ok(written)
}

fn unwritten(error: std::io::Error) -> Failure {
    Failure::user("cannot write the file of rejects").because(&error)
}

fn holds_rejects(file: &File, is_reject: fn(&str) -> bool) -> bool {
    let mut line = String::new();
    let read = BufReader::new(file).take(REJECT_LINE_BYTES_MAX as u64).read_line(&mut line);
    read.is_ok() && is_reject(&line)
}

/// Whether a line is a load's reject as we write it. A reject that someone has mended with JSON is not.
pub fn is_reject(line: &str) -> bool {
    serde_json::from_str::<RejectLine>(line).is_ok()
}
