//! A build by a process that is killed, at every point: the store serves, and can be built again.

use crate::process::again;
use crate::stored::{is_whole, known, leftovers, one};
use millstream_failpoint::RANGES;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

/// The store to build.
const VARIABLE: &str = "MILLSTREAM_TEST_STORE";

/// Run by the test below in a process of its own, which is killed.
#[test]
fn builds_if_the_variable_is_set() {
    let Some(store) = std::env::var_os(VARIABLE) else { return };
    one(Path::new(&store), 2);
}

#[test]
fn a_build_killed_at_any_point_leaves_a_store_that_serves_and_can_be_built() {
    for point in RANGES {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("geo");
        one(&store, 1);
        let kill = format!("{point}=kill");
        let variables = [(VARIABLE, store.as_os_str()), ("MILLSTREAM_FAILPOINTS", OsStr::new(&kill))];
        let killed = again("kill::builds_if_the_variable_is_set", &variables);
        assert_eq!(killed.status.signal(), Some(9), "{point} is passed: {killed:?}");
        let is_unfinished = ["ranges-filled", "ranges-hashed"].contains(point);
        assert_eq!(leftovers(&store).contains(&"build.new".to_owned()), is_unfinished, "{point}");
        let serving = if *point == "ranges-current" { "\"build\":2" } else { "\"build\":1" };
        assert_eq!(known(&store, "0.0.0.15").as_deref(), Some(serving), "{point}");
        assert!(is_whole(&store), "{point}");
        one(&store, 3);
        assert_eq!(known(&store, "0.0.0.15").as_deref(), Some("\"build\":3"), "{point}");
        assert!(is_whole(&store) && leftovers(&store).is_empty(), "{point}: {:?}", leftovers(&store));
    }
}
