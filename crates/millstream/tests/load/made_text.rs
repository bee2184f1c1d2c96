//! What holds for every format whose files are read as a text: a killed load resumes with another number of lanes, and a file
//! whose text became another one is refused.

use crate::process::{Run, command, killed, millstream};
use millstream_testkit::TestDatabase;

/// A file of a format, and how it is loaded.
pub struct MadeText<'a> {
    /// The format's name on the command line.
    pub format: &'a str,
    /// Options that name the key; none if the format has one.
    pub key: &'a [&'a str],
    /// The file.
    pub file: &'a str,
    /// The same compressed, if that can be read.
    pub packed: Option<&'a str>,
    /// Writes the file with so many rows, the first of which has this name.
    pub write: &'a dyn Fn(i64, &str),
}

/// Rows that are loaded in several batches.
pub const ROWS: i64 = 20_000;

/// The name of the first row of the files.
pub const FIRST: &str = "row 0";

impl MadeText<'_> {
    /// Tries all of it. The files have [`ROWS`] rows, and their first is [`FIRST`].
    pub async fn prove(&self, db: &TestDatabase) {
        let (client, url, file) = (db.client().await, db.url(), self.file);
        for (file, point, lanes) in [
            (Some(file), "chunk-read=kill@3", "1"),
            (self.packed, "chunk-read=kill@3", "2"),
            (Some(file), "batch-committed=kill@2", "2"),
            (self.packed, "batch-committed=kill@2", "1"),
        ] {
            let Some(file) = file else { continue };
            client.batch_execute("drop table if exists killed").await.unwrap();
            self.killed(&url, file, point, &["--lanes", lanes]);
            assert_eq!(self.load(&url, file, &["--lanes", "3"]).ends(0).json()["read"], ROWS, "{point}");
            let verify = ["verify", file, "--into", "killed", "--exact", "--db", &url];
            millstream(&[&verify[..], self.key].concat()).ends(0);
        }
        client.batch_execute("drop table killed").await.unwrap();
        self.killed(&url, file, "batch-committed=kill@2", &[]);
        // A program of another version would write another text.
        let (this, other) = (format!("{}/1", self.format), format!("{}/0", self.format));
        let mark =
            |from: &str, to: &str| format!("update millstream.load set format = replace(format, '{from}', '{to}')");
        client.batch_execute(&mark(&this, &other)).await.unwrap();
        let refused = self.load(&url, file, &[]).ends(2);
        assert!(refused.stderr.contains("in another format, and is unfinished"), "{refused:?}");
        client.batch_execute(&mark(&other, &this)).await.unwrap();
        (self.write)(ROWS, "other");
        let refused = self.load(&url, file, &[]).ends(2);
        assert!(refused.stderr.contains("have changed since the load read them"), "{refused:?}");
        // More rows begin alike.
        (self.write)(ROWS + 5_000, FIRST);
        assert_eq!(self.load(&url, file, &[]).ends(0).json()["read"], ROWS + 5_000);
    }

    fn args<'b>(&'b self, url: &'b str, file: &'b str, more: &[&'b str]) -> Vec<&'b str> {
        [&["load", file, "--into", "killed", "--db", url][..], self.key, more].concat()
    }

    fn load(&self, url: &str, file: &str, more: &[&str]) -> Run {
        millstream(&[&self.args(url, file, more)[..], &["--progress", "none", "--output", "json"]].concat())
    }

    fn killed(&self, url: &str, file: &str, point: &str, more: &[&str]) {
        killed(&mut command(&[&self.args(url, file, more)[..], &["--batch-rows", "300"]].concat()), point);
    }
}
