//! Rejects written to a file, in the form that `load --format rejects` reads.

use crate::failure::Failure;
use crate::screen;
use crate::target::Database;
use millstream_document::RejectLine;
use millstream_document::limits::REJECT_LINE_BYTES_MAX;
use millstream_host::TargetFile;
use millstream_store::rejects::{self, RejectFilter, RejectRecord};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

/// Begins the file for rejects. Rejects that an earlier run wrote there are to be replaced. A file that holds anything
/// else is refused: its first line is not a reject.
pub fn create(path: &Path, is_reject: fn(&str) -> bool) -> Result<TargetFile, Failure> {
    // A link is replaced, and what it leads to stays.
    let has_text = path.symlink_metadata().is_ok_and(|there| there.is_file() && there.len() > 0);
    if has_text && !holds_rejects(path, is_reject) {
        return Err(
            Failure::user(format!("{} does not hold rejects", path.display())).hint("name a new file for the rejects")
        );
    }
    let failed = Failure::cannot("write", path);
    TargetFile::create(path).map_err(|error| failed(error).hint("name a file in a folder where you may write"))
}

/// Writes rejects as lines of JSON, replacing what the file held, and returns how many. They are
/// on disk when this returns.
pub async fn write(mut file: TargetFile, database: &Database, filter: &RejectFilter) -> Result<u64, Failure> {
    let written = lines(&mut file, database, filter, unwritten).await?;
    file.finish().map_err(unwritten)?;
    Ok(written)
}

/// The same into a file that must not exist yet.
pub async fn write_new(path: &Path, database: &Database, filter: &RejectFilter) -> Result<u64, Failure> {
    let exists = || {
        Failure::user(format!("{} exists already", path.display()))
            .hint("name a new file; rejects that may be half mended are not overwritten")
    };
    let mut file = TargetFile::create(path).map_err(Failure::cannot("create", path))?;
    if file.replaces() {
        return Err(exists());
    }
    let written = lines(&mut file, database, filter, unwritten).await?;
    file.finish_new().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(),
        _ => unwritten(error),
    })?;
    Ok(written)
}

/// Prints rejects on stdout as lines of JSON for programs, and returns how many.
pub async fn print(database: &Database, filter: &RejectFilter) -> Result<u64, Failure> {
    lines(screen::data(), database, filter, Failure::from).await
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
        serde_json::to_writer(&mut out, &line(reject)).map_err(|error| failed(error.into()))?;
        out.write_all(b"\n").map_err(&failed)?;
        written += 1;
        Ok::<(), Failure>(())
    })
    .await?;
    out.flush().map_err(failed)?;
    Ok(written)
}

/// A recorded reject as a line of the file.
fn line(reject: RejectRecord) -> RejectLine {
    RejectLine {
        load_id: reject.load_id,
        source: reject.source,
        byte_offset: reject.byte_offset,
        line: reject.line,
        reason: reject.reason,
        detail: reject.detail,
        document: reject.document,
        document_base64: reject.document_base64,
        bytes: reject.bytes,
        truncated: reject.truncated,
    }
}

fn unwritten(error: std::io::Error) -> Failure {
    Failure::user("cannot write the file of rejects").because(&error)
}

fn holds_rejects(path: &Path, is_reject: fn(&str) -> bool) -> bool {
    let mut line = String::new();
    let first = |file: File| BufReader::new(file).take(REJECT_LINE_BYTES_MAX as u64).read_line(&mut line);
    File::open(path).and_then(first).is_ok() && is_reject(&line)
}

/// Whether a line is a load's reject as we write it. A reject that someone has mended with JSON is not.
pub fn is_reject(line: &str) -> bool {
    serde_json::from_str::<RejectLine>(line).is_ok()
}
