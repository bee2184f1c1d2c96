//! A stream of uncompressed bytes from a file, standard input or any reader.

use super::SourceError;
use super::compression::{COMPRESSIONS, Decompressor, FOREIGN, Trouble};
use crate::limits::{RAW_BUFFER_BYTES, ZSTD_WINDOW_LOG_MAX};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a source has been read, for a progress bar. Shared with the reading thread.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    total: Option<u64>,
}

impl Progress {
    /// Bytes read so far, as they are on disk (compressed ones where the file is compressed).
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Size of the file in bytes; `None` for a stream.
    pub fn bytes_total(&self) -> Option<u64> {
        self.total
    }
}

/// An opened source before its format is known.
pub struct Input {
    name: String,
    raw: Raw,
    decompressor: Option<Box<dyn Decompressor>>,
    /// The last step filled the output, so that the decompressor may hold more without input.
    output_was_full: bool,
    live: bool,
    ended: Option<Got>,
}

/// What a read brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Got {
    Bytes(usize),
    End,
    Damaged(String),
}

impl Input {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot be opened, is a directory, or is a container we do not open.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let (name, file) = if path == Path::new("-") {
            // The descriptor itself: standard input may be a file, whose size is then known.
            let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
            ("standard input".to_owned(), file)
        } else {
            (path.display().to_string(), File::open(path))
        };
        let failed = |source| SourceError::Open { name: name.clone(), source };
        let file = file.map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        if facts.is_dir() {
            return Err(SourceError::Directory { name });
        }
        let total = facts.is_file().then_some(facts.len());
        Self::from_reader(Box::new(file), &name, total)
    }

    /// Takes any reader. Without a known `total` the reader counts as live: what it gives is
    /// handed on at once instead of being collected to whole chunks.
    ///
    /// # Errors
    /// [`SourceError`] when its first bytes cannot be read or are those of a container we do not
    /// open.
    pub fn from_reader(reader: Box<dyn Read + Send>, name: &str, total: Option<u64>) -> Result<Self, SourceError> {
        let mut raw = Raw {
            reader,
            buffer: vec![0; RAW_BUFFER_BYTES],
            start: 0,
            end: 0,
            progress: Arc::new(Progress { read: AtomicU64::new(0), total }),
        };
        let failed =
            |raw: &Raw, source| SourceError::Read { name: name.into(), offset: raw.progress.bytes_read(), source };
        let known = || COMPRESSIONS.iter().map(|c| c.magic).chain(FOREIGN.iter().map(|f| f.magic));
        while known().any(|m| raw.buffered().len() < m.len() && m.starts_with(raw.buffered())) {
            if !raw.fill().map_err(|e| failed(&raw, e))? {
                break;
            }
        }
        if let Some(foreign) = FOREIGN.iter().find(|f| raw.buffered().starts_with(f.magic)) {
            return Err(SourceError::Container { name: name.into(), kind: foreign.kind, hint: foreign.hint });
        }
        let decompressor = COMPRESSIONS
            .iter()
            .find(|c| raw.buffered().starts_with(c.magic))
            .map(|c| (c.make)())
            .transpose()
            .map_err(|e| failed(&raw, e))?;
        Ok(Self { name: name.into(), raw, decompressor, output_was_full: false, live: total.is_none(), ended: None })
    }

    /// The source as the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much has been read; the handle stays valid while another thread reads.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.raw.progress)
    }

    /// Whether bytes should be handed on as they come.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Reads uncompressed bytes. `Got::Bytes` is never zero for a buffer that is not empty; `End`
    /// and `Damaged` are final.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<Got, SourceError> {
        if let Some(ended) = &self.ended {
            return Ok(ended.clone());
        }
        let got = match self.decompressor {
            None => self.raw.read(into).map(|n| if n == 0 { Got::End } else { Got::Bytes(n) }),
            Some(_) => return self.decompress(into),
        };
        got.map_err(|source| self.failed(source))
    }

    fn decompress(&mut self, into: &mut [u8]) -> Result<Got, SourceError> {
        let decompressor = self.decompressor.as_mut().expect("only called with one");
        loop {
            let flushing = std::mem::take(&mut self.output_was_full);
            if !flushing && self.raw.buffered().is_empty() {
                match self.raw.fill() {
                    Ok(true) => {}
                    Ok(false) if decompressor.at_boundary() => return Ok(self.end(Got::End)),
                    Ok(false) => {
                        let why = "the compressed data ends too early".into();
                        return Ok(self.end(Got::Damaged(why)));
                    }
                    Err(source) => return Err(self.failed(source)),
                }
            }
            let input = if flushing { &[][..] } else { self.raw.buffered() };
            let step = decompressor.step(input, into);
            self.raw.start += step.read;
            self.output_was_full = step.written == into.len();
            match step.trouble {
                None => {}
                Some(Trouble::Damaged(why)) => self.ended = Some(Got::Damaged(why)),
                Some(Trouble::WindowTooLarge) => {
                    return Err(SourceError::ZstdWindow {
                        name: self.name.clone(),
                        limit_mib: 1 << (ZSTD_WINDOW_LOG_MAX - 20),
                    });
                }
            }
            if step.written > 0 {
                return Ok(Got::Bytes(step.written));
            }
            if let Some(ended) = &self.ended {
                return Ok(ended.clone());
            }
        }
    }

    fn end(&mut self, how: Got) -> Got {
        self.ended = Some(how.clone());
        how
    }

    fn failed(&self, source: io::Error) -> SourceError {
        let name = self.name.clone();
        if source.kind() == io::ErrorKind::IsADirectory {
            return SourceError::Directory { name };
        }
        SourceError::Read { name, offset: self.raw.progress.bytes_read(), source }
    }
}

/// The bytes as they are on disk, with what was read ahead.
struct Raw {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    progress: Arc<Progress>,
}

impl Raw {
    fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more behind what is buffered; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let n = read(&mut self.reader, &mut self.buffer[self.end..], &self.progress)?;
        self.end += n;
        Ok(n > 0)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            return read(&mut self.reader, into, &self.progress);
        }
        let n = into.len().min(self.end - self.start);
        into[..n].copy_from_slice(&self.buffer[self.start..self.start + n]);
        self.start += n;
        Ok(n)
    }
}

fn read(reader: &mut dyn Read, into: &mut [u8], progress: &Progress) -> io::Result<usize> {
    loop {
        match reader.read(into) {
            Ok(n) => {
                progress.read.fetch_add(n as u64, Ordering::Relaxed);
                return Ok(n);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
