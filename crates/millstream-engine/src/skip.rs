//! Leaves out files and objects that a finished load into the table has read, and that have not changed since.

use crate::error::Error;
use crate::limits::SKIP_THREADS_MAX;
use crate::request::LoadRequest;
use millstream_document::source::{Found, Location, Objects, SourceError};
use millstream_input::Content;
use millstream_pg::{ConnInfo, SessionSettings, catalog, quote_name};
use millstream_store::{SCHEMA_VERSION, SourceContent, any_row, is_distributed, read_before, unfinished_sources};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A source of a request.
#[derive(Debug)]
struct File {
    /// As the request spells it.
    spelled: String,
    location: Location,
    /// Its absolute path or its address, by which loads know it.
    name: String,
    bytes: u64,
}

/// What loads know of the files of a request.
#[derive(Debug, Default)]
struct Known {
    /// By name, what those held that a finished load has read.
    read: HashMap<String, SourceContent>,
    /// Sources of the load that this request resumes.
    unfinished: Vec<String>,
}

/// The name by which loads know a source: the absolute path of a file, or the address of one of these objects. `None` for
/// standard input, pipes and devices.
///
/// # Errors
/// [`Error::Source`] if there is no such file, or it cannot be opened.
pub fn file_name(spelled: &str, objects: &Objects) -> Result<Option<String>, Error> {
    let location = Location::of(spelled, objects);
    let found = location.find()?;
    Ok(location.is_repeatable().then_some(found.name))
}

/// Leaves out of a request the files that a finished load into its table has read, and that have not changed since, by their
/// name, their size and a hash of their bytes. Objects are files, too; the store's tag stands for their bytes, so they are
/// not read. Returns how many. If an unfinished load is to be resumed, its files come first, in its order. If all files were
/// left out, the request has none and cannot be loaded.
///
/// Nothing is left out if the table is not there or has no row, as after TRUNCATE.
///
/// # Errors
/// [`Error::Refused`] if a source is no file; [`Error::Source`] if one cannot be read; the server's.
pub async fn skip_loaded(request: &mut LoadRequest, db: &ConnInfo) -> Result<u64, Error> {
    request.check()?;
    if request.delete_missing.is_some() {
        return Err(Error::refused(
            "files that are left out do not say which rows should be there",
            "leave out --skip-loaded or --delete-missing",
        ));
    }
    let files = request.sources.iter().map(|spelled| file(spelled, &request.objects));
    let files = files.collect::<Result<Vec<File>, Error>>()?;
    let known = Known::read(request, db, &files).await?;
    let (given, resume) = (files.len(), request.resume);
    let kept = tokio::task::spawn_blocking(move || known.kept(files, resume)).await;
    let kept = kept.map_err(|_| Error::BrokenOff("the thread that compares files has gone"))?;
    request.sources = kept?;
    Ok((given - request.sources.len()) as u64)
}

fn file(spelled: &str, objects: &Objects) -> Result<File, Error> {
    let location = Location::of(spelled, objects);
    let Found { name, size: Some(bytes) } = location.find()? else {
        return Err(Error::refused(
            format!("--skip-loaded takes files, and {spelled} is a stream"),
            "load it without --skip-loaded, or write it to a file",
        ));
    };
    Ok(File { spelled: spelled.to_owned(), location, name, bytes })
}

impl Known {
    async fn read(request: &LoadRequest, db: &ConnInfo, files: &[File]) -> Result<Self, Error> {
        let (schema, into) = (&request.schema, &request.collection);
        let mut connection = millstream_pg::connect(db, &SessionSettings::control()).await?;
        let client = &mut connection.client;
        let Some(table) = catalog::table(client, &into.schema, &into.table).await? else { return Ok(Self::default()) };
        if schema.version(client).await? != Some(SCHEMA_VERSION) {
            return Ok(Self::default());
        }
        if is_distributed(client, table.oid).await? {
            return Err(Error::refused(
                "--skip-loaded does not go with a table that Citus distributes",
                "leave it out, and name only new files: what a shard has loaded is recorded at its node",
            ));
        }
        // After a restore, loads are recorded under another OID.
        schema.ensure(client).await?;
        if !any_row(client, &quote_name(into)).await? {
            return Ok(Self::default());
        }
        let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
        let read = read_before(client, schema, table.oid, &names).await?;
        let unfinished = unfinished_sources(client, schema, table.oid, &names).await?;
        connection.close().await;
        Ok(Self { read, unfinished })
    }

    /// The files that are left, as the request spells them.
    fn kept(self, files: Vec<File>, resume: bool) -> Result<Vec<String>, Error> {
        let unchanged = self.unchanged(&files)?;
        let names: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let resumes =
            resume && !self.unfinished.is_empty() && self.unfinished.iter().all(|name| names.contains(&**name));
        let begun: &[String] = if resumes { &self.unfinished } else { &[] };
        // Of a name that comes twice, the first place counts.
        let places: HashMap<&str, usize> = begun.iter().enumerate().rev().map(|(n, name)| (name.as_str(), n)).collect();
        let place = |file: &File| places.get(file.name.as_str()).copied();
        let mut kept: Vec<(usize, &File)> = files
            .iter()
            .zip(unchanged)
            .map(|(file, unchanged)| (place(file), unchanged, file))
            .filter(|(place, unchanged, _)| place.is_some() || !unchanged)
            .map(|(place, _, file)| (place.unwrap_or(begun.len()), file))
            .collect();
        // The others keep their order.
        kept.sort_by_key(|(place, _)| *place);
        Ok(kept.into_iter().map(|(_, file)| file.spelled.clone()).collect())
    }

    /// For each file whether it holds what a finished load has read. Only files of the same size are read.
    fn unchanged(&self, files: &[File]) -> Result<Vec<bool>, Error> {
        let same_size = |file: &File| self.read.get(&file.name).filter(|known| known.bytes == file.bytes);
        let candidates: Vec<(usize, &File, &SourceContent)> =
            files.iter().enumerate().filter_map(|(n, file)| Some((n, file, same_size(file)?))).collect();
        let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![false; files.len()]));
        let failed = Mutex::new(None);
        let compare = || {
            while let Some((n, file, known)) = candidates.get(next.fetch_add(1, Ordering::Relaxed)) {
                match file.location.content() {
                    Ok(content) => {
                        let same = |content: Content| (content.bytes, content.hash) == (known.bytes, known.hash);
                        let same = content.is_some_and(same);
                        found.lock().unwrap_or_else(PoisonError::into_inner)[*n] = same;
                    }
                    Err(error) => {
                        let name = file.spelled.clone();
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some((name, error));
                    }
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(SKIP_THREADS_MAX);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(candidates.len()) {
                scope.spawn(compare);
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((name, source)) => {
                let error = millstream_input::Error::Open { name, source };
                Err(SourceError::from(error).into())
            }
            None => Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_input::{Object, ReadAt};
    use std::io::Read;
    use std::sync::Arc;

    fn files(folder: &std::path::Path, texts: &[(&str, &str)]) -> Vec<File> {
        let one = |(name, text): &(&str, &str)| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            file(path.to_str().unwrap(), &Objects::default()).unwrap()
        };
        texts.iter().map(one).collect()
    }

    #[test]
    fn files_that_changed_are_kept_and_those_of_an_unfinished_load_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = files(folder.path(), &[("a", "{}"), ("b", "[1]"), ("c", "{ }")]);
        let read = |files: &[File]| -> HashMap<String, SourceContent> {
            let content = |file: &File| {
                let Content { bytes, hash } = file.location.content().unwrap().unwrap();
                (file.name.clone(), SourceContent { bytes, hash })
            };
            files.iter().map(content).collect()
        };
        let all = read(&first);
        // Another size; another text of the same size; the same text; a new file.
        let now = || files(folder.path(), &[("a", "{} "), ("b", "[2]"), ("c", "{ }"), ("d", "")]);
        let named = |kept: Vec<String>| -> String { kept.iter().filter_map(|path| path.chars().last()).collect() };
        for (unfinished, resume, expected) in [
            (&[][..], true, "abd"),
            (&["d"], true, "dab"),
            // It began with a file that another load has finished since.
            (&["c", "b"], true, "cbad"),
            (&["d"], false, "abd"),
            // One of its files is not named any more: the load is refused, and says so.
            (&["d", "gone"], true, "abd"),
        ] {
            let name = |name: &&str| std::fs::canonicalize(folder.path()).unwrap().join(name).display().to_string();
            let known = Known { read: all.clone(), unfinished: unfinished.iter().map(name).collect() };
            assert_eq!(named(known.kept(now(), resume).unwrap()), expected, "{unfinished:?} {resume}");
        }
        assert_eq!(named(Known::default().kept(now(), true).unwrap()), "abcd", "no load has read anything");
        let again = Known { read: read(&now()), unfinished: Vec::new() };
        assert!(again.kept(now(), true).unwrap().is_empty());
    }

    /// An object that nobody may read.
    #[derive(Debug)]
    struct Sealed {
        size: u64,
        tag: &'static str,
    }

    impl Object for Sealed {
        fn name(&self) -> &str {
            "s3://a/b.json"
        }

        fn size(&self) -> u64 {
            self.size
        }

        fn tag(&self) -> &str {
            self.tag
        }

        fn reader(&self) -> Box<dyn Read + Send> {
            panic!("its tag says enough")
        }

        fn places(&self) -> Box<dyn ReadAt> {
            panic!("its tag says enough")
        }
    }

    #[test]
    fn an_object_is_compared_by_its_size_and_its_tag_and_not_read() {
        let found = |size, tag| {
            let (object, mut objects) = (Sealed { size, tag }, Objects::default());
            let name = object.name().to_owned();
            objects.add(Arc::new(object));
            assert_eq!(file_name(&name, &objects).unwrap().as_deref(), Some("s3://a/b.json"));
            file(&name, &objects).unwrap()
        };
        let first = found(7, "one");
        let Content { bytes, hash } = first.location.content().unwrap().unwrap();
        let read = HashMap::from([(first.name, SourceContent { bytes, hash })]);
        for (size, tag, kept) in [(7, "one", 0), (7, "two", 1), (8, "one", 1)] {
            let known = Known { read: read.clone(), unfinished: Vec::new() };
            assert_eq!(known.kept(vec![found(size, tag)], true).unwrap().len(), kept, "{size} {tag}");
        }
    }

    #[test]
    fn a_stream_cannot_be_compared() {
        assert!(file("-", &Objects::default()).unwrap_err().to_string().contains("is a stream"));
        assert!(matches!(file("/no such file", &Objects::default()), Err(Error::Source(_))));
    }
}
