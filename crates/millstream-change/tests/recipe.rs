//! A kind of change is one file and two lines: the module, and its place in the slice.

use crate::greeting::Greeting;
use millstream_change::{Changes, Journal, Kind, Large, Lasting, Number, Place, State, Sysctl, Undone, WayOut};
use millstream_model::Change;
use std::fs;
use std::time::Duration;

const KINDS: &[&dyn Kind] = &[&Sysctl, &Greeting];

fn change(value: Option<&str>) -> Change {
    Change { kind: "greeting".to_owned(), target: "motd".to_owned(), value: value.map(str::to_owned) }
}

#[tokio::test]
async fn a_kind_of_one_file_is_planned_applied_confirmed_and_undone() {
    let root = tempfile::tempdir().unwrap();
    let (motd, lasting) = (root.path().join("run/motd"), root.path().join("etc/motd"));
    fs::create_dir(root.path().join("run")).unwrap();
    let (journal, place) =
        (Journal::new(&root.path().join("changes")), Place { root: Some(root.path().to_owned()), ..Place::default() });
    let changes = Changes::new(&journal, KINDS, &place);
    for before in [None, Some("old")] {
        if let Some(text) = before {
            fs::write(&motd, text).unwrap();
        }
        let planned = changes.plan(&change(Some("new")), "a test", Some(Duration::from_secs(60))).await.unwrap();
        let again = changes.plan(&change(Some("newer")), "a test", None).await.unwrap_err();
        assert_eq!(again.hint, Some(WayOut::End(Number("doctor", planned.number)).to_string()));
        let applied = changes.apply(planned.number).await.unwrap();
        assert_eq!((applied.state, applied.before), (State::Verified, before.and_then(|text| Greeting.digest(text))));
        let files = Lasting::Files(vec![(lasting.clone(), "new".to_owned())]);
        assert_eq!(changes.confirm(planned.number).await.unwrap().1, files);
        assert_eq!(
            (fs::read_to_string(&motd).unwrap(), fs::read_to_string(&lasting).unwrap()),
            ("new".into(), "new".into())
        );
        // It is ours alone: the old value comes back all the same.
        fs::write(&motd, "theirs").unwrap();
        assert_eq!(changes.undo(planned.number).await.unwrap().1, Undone::Now);
        assert_eq!(fs::read_to_string(&motd).ok().as_deref(), before);
        assert!(!lasting.exists());
    }
    let removed = changes.plan(&change(None), "a test", None).await.unwrap().number;
    changes.apply(removed).await.unwrap();
    assert!(!motd.exists());
    changes.undo(removed).await.unwrap();
    assert_eq!(fs::read_to_string(&motd).unwrap(), "old");
    let same = changes.plan(&change(Some("old")), "a test", None).await.unwrap_err();
    assert!(same.to_string().ends_with(" already"), "{same}");
    assert!(changes.sides(&change(Some("new"))).await.is_err(), "it has no experiment");
}
