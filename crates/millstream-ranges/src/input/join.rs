//! A second CSV file, held in memory, whose columns become members of the first one's entries.

use super::InputOptions;
use super::columns::Columns;
use super::records::Records;
use crate::column_type::{ColumnType, ColumnTypes};
use crate::error::Error;
use crate::limits::JOIN_ENTRY_BYTES;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A file with more members for the entries of a CSV file, such as the locations of MaxMind's blocks. It is CSV with a
/// header and the same delimiter.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// The file. It is held in memory.
    pub file: PathBuf,
    /// The column of both files by which an entry finds its members.
    pub column: String,
    /// What was read last, for the next file with the same columns.
    last: Arc<Mutex<Option<Shared>>>,
}

/// A joined file as some files need it.
#[derive(Debug)]
struct Shared {
    delimiter: u8,
    keep: Vec<String>,
    types: Vec<(String, ColumnType)>,
    taken: Vec<String>,
    join: Arc<Join>,
}

impl JoinOptions {
    /// Joins by a column.
    pub fn by(file: PathBuf, column: String) -> Self {
        Self { file, column, last: Arc::default() }
    }

    /// Joins by MaxMind's column `geoname_id`.
    pub fn new(file: PathBuf) -> Self {
        Self::by(file, "geoname_id".into())
    }

    /// The file, read once for files that need the same of it.
    ///
    /// # Errors
    /// As for [`Join::read`].
    pub(super) fn read(
        &self,
        delimiter: u8,
        options: &InputOptions,
        taken: &[&str],
        most: usize,
    ) -> Result<Arc<Join>, Error> {
        let InputOptions { keep, types, .. } = options;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |shared: &Shared| {
            (shared.delimiter, &shared.keep, &shared.types) == (delimiter, keep, types) && shared.taken == taken
        };
        if let Some(shared) = last.as_ref().filter(|shared| fits(shared)) {
            return Ok(Arc::clone(&shared.join));
        }
        // Two of them would take the memory twice.
        *last = None;
        let join = Arc::new(Join::read(self, delimiter, options, taken, most)?);
        let taken = taken.iter().map(|name| (*name).to_owned()).collect();
        *last = Some(Shared { delimiter, keep: keep.clone(), types: types.clone(), taken, join: Arc::clone(&join) });
        Ok(join)
    }
}

/// The members of a joined file, by the text in its key column.
#[derive(Debug)]
pub(super) struct Join {
    /// The file's columns.
    pub(super) columns: Columns,
    /// Types of its members.
    pub(super) types: ColumnTypes,
    members: HashMap<Box<str>, Box<str>>,
}

impl Join {
    /// Reads the file. Columns become members if the user wants to keep them and no name in `taken` is theirs; the key
    /// does not.
    ///
    /// # Errors
    /// The file cannot be read, is not CSV, has a key twice or a value that is not of its type, or takes more than `most`
    /// bytes.
    fn read(
        join: &JoinOptions,
        delimiter: u8,
        options: &InputOptions,
        taken: &[&str],
        most: usize,
    ) -> Result<Self, Error> {
        let InputOptions { keep, types, .. } = options;
        let mut records = Records::new(super::window(&join.file)?, delimiter)?;
        let mut names = Vec::new();
        if records.read()? {
            let fields = records.fields().and_then(|fields| fields.all());
            let fields = fields.map_err(|problem| records.failed(&problem))?;
            names = fields.into_iter().map(|name| name.trim().to_owned()).collect();
        }
        let columns = Columns { source: records.window().name().to_owned(), kind: "column", names };
        let key = columns.named(&join.column, "--join FILE:COLUMN")?;
        let is_kept = |column: usize| keep.is_empty() || keep.iter().any(|name| columns.column(name) == Some(column));
        let is_free = |column: usize| column != key && !taken.contains(&columns.names[column].as_str());
        let mut wanted = columns.members(|column| is_free(column) && is_kept(column))?;
        let types = columns.set_types(&mut wanted, types)?;
        records.expect(columns.names.len());
        let mut all: HashMap<Box<str>, Box<str>> = HashMap::new();
        let (mut bytes, mut text) = (0, String::new());
        while records.read()? {
            let fields = records.fields().map_err(|problem| records.failed(&problem))?;
            if fields.len() != columns.names.len() {
                let problem = format!("the number of fields is {}, and not {}", fields.len(), columns.names.len());
                return Err(records.failed(&problem));
            }
            let is_plain = fields.is_plain;
            let fields = fields.all().map_err(|problem| records.failed(&problem))?;
            text.clear();
            for member in &wanted {
                let put = member.put(fields[member.column], is_plain, &mut text);
                put.map_err(|problem| records.failed(&problem))?;
            }
            bytes += fields[key].len() + text.len() + JOIN_ENTRY_BYTES;
            if bytes > most {
                let problem = format!("{} takes more than {most} bytes of memory", columns.source);
                let hint = "keep fewer of its columns: --keep COLUMN,..";
                return Err(Error::refused(problem, hint));
            }
            match all.entry(fields[key].into()) {
                Entry::Vacant(entry) => entry.insert(text.as_str().into()),
                Entry::Occupied(entry) => {
                    return Err(records.failed(&format!("there is a line before with the key {:?}", entry.key())));
                }
            };
        }
        Ok(Self { columns, types, members: all })
    }

    /// Appends the members of a key, if there are any.
    pub(super) fn put(&self, key: &str, members: &mut String) {
        let Some(joined) = self.members.get(key).filter(|joined| !joined.is_empty()) else { return };
        if !members.is_empty() {
            members.push(',');
        }
        members.push_str(joined);
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::read;
    use super::*;
    use millstream_pg::Explained as _;
    use millstream_testkit::gzip;
    use std::fs;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const BLOCKS: &str = "network,geoname_id,registered_country_geoname_id,is_anycast\n\
                          1.0.0.0/24,2077456,2077456,0\n\
                          1.0.1.0/24,1814991,2077456,\n\
                          1.0.2.0/24,,2077456,0\n\
                          1.0.3.0/24,99,2077456,0\n\
                          2001:db8::/32,7,,\n";

    const LOCATIONS: &str = "geoname_id,locale_code,country_name,is_anycast\r\n\
                             2077456,en,Australia,9\r\n\
                             1814991,en,\"China, \"\"PRC\"\"\",9\r\n\
                             7,,,9\r\n";

    fn file(content: &[u8]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locations.csv");
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn joined(blocks: &str, locations: &[u8], keep: &[&str]) -> Result<Vec<String>, Error> {
        let (_folder, path) = file(locations);
        let keep = keep.iter().copied().map(str::to_owned).collect();
        let options = InputOptions { keep, join: Some(JoinOptions::new(path)), ..InputOptions::default() };
        read("csv", blocks.as_bytes(), &options)
    }

    #[test]
    fn blocks_get_the_members_of_their_locations() {
        let expected = [
            "2 1.0.0.0-1.0.0.255 \"geoname_id\":\"2077456\",\"registered_country_geoname_id\":\"2077456\",\
             \"is_anycast\":\"0\",\"locale_code\":\"en\",\"country_name\":\"Australia\"",
            "3 1.0.1.0-1.0.1.255 \"geoname_id\":\"1814991\",\"registered_country_geoname_id\":\"2077456\",\
             \"locale_code\":\"en\",\"country_name\":\"China, \\\"PRC\\\"\"",
            "4 1.0.2.0-1.0.2.255 \"registered_country_geoname_id\":\"2077456\",\"is_anycast\":\"0\"",
            "5 1.0.3.0-1.0.3.255 \"geoname_id\":\"99\",\"registered_country_geoname_id\":\"2077456\",\
             \"is_anycast\":\"0\"",
            "6 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff \"geoname_id\":\"7\"",
        ];
        assert_eq!(joined(BLOCKS, LOCATIONS.as_bytes(), &[]).unwrap(), expected);
        assert_eq!(joined(BLOCKS, &gzip(LOCATIONS.as_bytes()), &[]).unwrap(), expected);
    }

    #[test]
    fn the_user_chooses_among_the_columns_of_both_files() {
        let lines = joined(BLOCKS, LOCATIONS.as_bytes(), &["country_name", "is_anycast"]).unwrap();
        assert_eq!(lines[0], "2 1.0.0.0-1.0.0.255 \"is_anycast\":\"0\",\"country_name\":\"Australia\"");
        assert_eq!(lines[4], "6 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff ");
        let unknown = joined(BLOCKS, LOCATIONS.as_bytes(), &["country_name", "city"]).unwrap_err();
        assert!(unknown.to_string().contains("no column \"city\""), "{unknown}");
    }

    #[test]
    fn columns_of_both_files_get_types() {
        let typed = |types: &[&str]| {
            let (_folder, path) = file(b"geoname_id,lat\n2077456,-33.50\n7,north\n");
            let types = types.iter().map(|text| ColumnType::parse_named(text).unwrap()).collect();
            let keep = ["is_anycast", "lat"].map(str::to_owned).to_vec();
            let options = InputOptions { types, keep, join: Some(JoinOptions::new(path)), ..InputOptions::default() };
            read("csv", BLOCKS.as_bytes(), &options).map_err(|error| error.to_string())
        };
        let plain = typed(&["is_anycast=boolean", "lat=string"]).unwrap();
        assert_eq!(plain[0], "2 1.0.0.0-1.0.0.255 \"is_anycast\":false,\"lat\":\"-33.50\"");
        let bad = typed(&["lat=double"]).unwrap_err();
        assert!(
            bad.contains("locations.csv: line 3: \"north\" in the column \"lat\" is not of the type double"),
            "{bad}"
        );
        let unknown = typed(&["lst=double"]).unwrap_err();
        assert!(unknown.contains("there is no column \"lst\": did you mean \"lat\"?"), "{unknown}");
        let unkept = typed(&["network=string"]).unwrap_err();
        assert!(unkept.contains("the column \"network\" is not part of the value"), "{unkept}");
    }

    #[test]
    fn what_is_wrong_with_the_joined_file_is_said() {
        for (locations, problem) in [
            ("", "there is no column \"geoname_id\", or several"),
            ("id,name\n", "there is no column \"geoname_id\", or several"),
            ("geoname_id,end\n", "the member \"end\" is the store's own"),
            ("geoname_id,a,a\n", "there are two columns \"a\""),
            ("geoname_id,a\n7,b\n\n7,c\n", "line 4: there is a line before with the key \"7\""),
            ("geoname_id,a\n7\n", "line 2: the number of fields is 1, and not 2"),
        ] {
            let error = joined(BLOCKS, locations.as_bytes(), &[]).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
            assert!(error.contains("locations.csv"), "{error}");
        }
        let key = joined("network,id\n", LOCATIONS.as_bytes(), &[]).unwrap_err().to_string();
        assert!(key.contains("there is no column \"geoname_id\", or several; its columns are \"network\", \"id\""));
        let options = JoinOptions::new(PathBuf::from("missing.csv"));
        assert!(matches!(Join::read(&options, b',', &InputOptions::default(), &[], 1), Err(Error::Unread(_))));
    }

    #[test]
    fn files_with_the_same_columns_share_what_was_read() {
        let (_folder, path) = file(LOCATIONS.as_bytes());
        let options = JoinOptions::new(path);
        let read = |taken: &[&str]| options.clone().read(b',', &InputOptions::default(), taken, 10_000).unwrap();
        let first = read(&["a"]);
        assert!(Arc::ptr_eq(&first, &read(&["a"])));
        let other = read(&["country_name"]);
        let has_name = |join: &Join| join.members.values().any(|members| members.contains("country_name"));
        assert!(!Arc::ptr_eq(&first, &other) && has_name(&first) && !has_name(&other));
    }

    #[test]
    fn memory_is_bounded() {
        let (_folder, path) = file(LOCATIONS.as_bytes());
        let read = |most| Join::read(&JoinOptions::new(path.clone()), b',', &InputOptions::default(), &[], most);
        assert_eq!(read(10_000).unwrap().members.len(), 3);
        let error = read(200).unwrap_err();
        assert!(error.to_string().ends_with("takes more than 200 bytes of memory"), "{error}");
        assert_eq!(error.hint().unwrap(), "keep fewer of its columns: --keep COLUMN,..");
    }
}
