//! Fuzz targets: what must hold of every input, whoever wrote it.

mod arrow;
mod avro;
mod bson;
mod converted;
mod csv;
mod document;
mod extended_json;
mod frame;
mod grammar;
mod json;
mod parquet;
mod rejects;
mod scanner;

/// What is asserted of every input of one kind.
pub struct Target {
    /// Its name, which is also the name of its file and of its folder in `corpus/`.
    pub name: &'static str,
    /// Panics if the input breaks what must hold.
    pub check: fn(&[u8]),
}

/// Every target, by name.
pub const TARGETS: &[Target] = &[
    Target { name: "arrow", check: arrow::check },
    Target { name: "avro", check: avro::check },
    Target { name: "bson", check: bson::check },
    Target { name: "csv", check: csv::check },
    Target { name: "document", check: document::check },
    Target { name: "extended_json", check: extended_json::check },
    Target { name: "json", check: json::check },
    Target { name: "parquet", check: parquet::check },
    Target { name: "rejects", check: rejects::check },
    Target { name: "scanner", check: scanner::check },
];

#[cfg(test)]
mod tests {
    use super::TARGETS;
    use std::path::{Path, PathBuf};

    const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

    fn entries(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort_unstable();
        paths
    }

    #[test]
    fn each_target_has_a_corpus_and_each_corpus_a_target() {
        let corpora = entries(Path::new(CORPUS));
        let corpora: Vec<_> = corpora.iter().map(|folder| folder.file_name().unwrap().to_str().unwrap()).collect();
        let targets: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        assert_eq!(targets, corpora, "left the targets, right the folders of the corpus, both by name");
    }

    #[test]
    fn no_input_of_the_corpus_breaks_its_target() {
        let mut broken = Vec::new();
        for target in TARGETS {
            let inputs = entries(&Path::new(CORPUS).join(target.name));
            assert!(!inputs.is_empty(), "the corpus of {} is empty", target.name);
            for path in inputs {
                let input = std::fs::read(&path).unwrap();
                // The others are tried too. What broke has printed its message.
                if std::panic::catch_unwind(|| (target.check)(&input)).is_err() {
                    broken.push(format!("{}/{}", target.name, path.file_name().unwrap().display()));
                }
            }
        }
        assert!(broken.is_empty(), "inputs that break their target, below {CORPUS}: {broken:?}");
    }
}
