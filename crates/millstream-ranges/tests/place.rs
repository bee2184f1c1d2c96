//! A folder with files and stores.

use std::fs;
use std::path::PathBuf;

/// Lines as files of ranges have them.
pub(crate) const DIRTY: &str = "\
first,last,country
1.0.0.0,1.0.129.0,AU
127.0.0.1,127.1.2.3,
154.17.129.024,154.17.129.255,US
1.2.3.9,0.0.0.0,AU
1.2.3.4,::1,AU
2001:db8::,2001:db8::ffff,DE
9.9.9.9
0x01020304,1.2.3.5,AU
";

/// It is removed when it is dropped.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }
}
