//! Large files, which several workers copy in pieces, and copies that go on from where a killed one was.

use crate::place::{PIECE_BYTES, Place};
use millstream_copy::limits;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

#[test]
fn a_large_file_that_is_killed_between_pieces_keeps_those_that_are_copied() {
    let place = Place::new();
    place.write_sparse("from/large", 3 * PIECE_BYTES + 30_000, PIECE_BYTES + 20_000);
    place.process("from/", "to", &["workers=1"]).killed("piece-copied=kill@3");
    let unfinished: Vec<_> = fs::read_dir(place.path("to")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(unfinished.len(), 1, "{unfinished:?}");
    // The third piece is copied again, if at all: these bytes of the first one are not.
    OpenOptions::new().write(true).open(&unfinished[0]).unwrap().write_all_at(b"!", 5).unwrap();
    assert!(place.copy("from/", "to", &[]).resumed);
    let found = place.problems("to", &[]);
    assert!(found.contains("large: its bytes differ"), "{found}");
}

#[test]
fn pieces_of_several_reads_arrive_as_they_are() {
    let place = Place::new();
    let mut random = fastrand::Rng::with_seed(1);
    let bytes: Vec<u8> = (0..5_300_000).map(|_| random.u8(..)).collect();
    place.write("from/large", &bytes);
    // With pieces of two buffers; and as one file, of the usual bytes.
    for (to, piece_bytes, large) in [("pieces", 2 << 20, 1), ("whole", limits::PIECE_BYTES, 0)] {
        let piece_bytes = format!("piece-bytes={piece_bytes}");
        let words = ["verify", "hash", &piece_bytes];
        assert_eq!(place.plan("from/", to, &words).large, large);
        place.copy("from/", to, &words);
        assert!(fs::read(place.path(to).join("large")).unwrap() == bytes, "{to}");
    }
}

#[test]
fn a_large_file_that_shrinks_before_its_turn_is_copied_as_it_is() {
    for len in [0, 40_000, PIECE_BYTES + 100_000] {
        let place = Place::new();
        place.write_sparse("from/large", 3 * PIECE_BYTES + 30_000, 0);
        let large = OpenOptions::new().write(true).open(place.path("from/large")).unwrap();
        let shrink = || large.set_len(len).unwrap();
        let receipt = place.process("from/", "to", &[]).held("folders-made", shrink).unwrap();
        assert!(receipt["failed"] == 0 && receipt["changed"] == 0, "{len}: {receipt}");
        assert_eq!(fs::metadata(place.path("to/large")).unwrap().len(), len);
        place.is_whole("to", &[]);
        place.is_tidy("to");
    }
}

#[test]
fn pieces_of_another_file_or_in_one_that_is_gone_are_not_taken_for_those_of_the_next_one() {
    let place = Place::new();
    let len = 3 * PIECE_BYTES + 30_000;
    for (name, text) in [("from/large", b"some"), ("other/large", b"else")] {
        place.write_sparse(name, len, 0);
        let file = OpenOptions::new().write(true).open(place.path(name)).unwrap();
        (0..4).for_each(|piece| file.write_all_at(text, piece * PIECE_BYTES).unwrap());
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let is_same = |from: &str| fs::read(place.path(from)).unwrap() == fs::read(place.path("to/large")).unwrap();
    place.process("from/", "to", &["workers=1"]).killed("piece-copied=kill@3");
    // Another disk is mounted there.
    fs::remove_dir_all(place.path("to")).unwrap();
    place.process("from/", "to", &["workers=1"]).killed("piece-copied=kill@1");
    place.copy("from/", "to", &["verify"]);
    assert!(is_same("from/large"));
    fs::remove_dir_all(place.path("to")).unwrap();
    place.process("from/", "to", &["workers=1"]).killed("piece-copied=kill@2");
    place.copy("other/", "to", &["verify"]);
    assert!(is_same("other/large"));
    place.is_tidy("to");
}

#[test]
fn a_file_that_cannot_be_written_leaves_no_unfinished_one() {
    let place = Place::new();
    place.write_sparse("from/large", 2 * PIECE_BYTES, 0);
    place.write_sparse("from/small", 2 * PIECE_BYTES - 1, 0);
    // Blocks of 1 KiB.
    let limited = ["bash", "-c", "trap '' XFSZ; ulimit -f 400; exec \"$@\"", "bash"];
    let receipt = place.process("from/", "to", &[]).by(&limited).run().unwrap();
    assert_eq!(receipt["failed"], 2, "{receipt}");
    place.is_tidy("to");
    assert!(!place.copy("from/", "to", &[]).resumed);
}

#[test]
fn files_whose_notes_were_lost_with_the_power_are_copied_again() {
    let place = Place::new();
    (0..20).for_each(|n| drop(place.write(format!("from/{n}"), b"text")));
    place.process("from/", "to", &["workers=1"]).killed("folders-dressed=kill");
    for entry in fs::read_dir(&place.notes()[0]).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("journal-") {
            fs::remove_file(path).unwrap();
        }
    }
    place.damage("to/7");
    place.damage("to/8");
    place.restart();
    // The run that finds it is killed before it has seen everything.
    place.process("from/", "to", &["workers=1"]).killed("file-named=kill@3");
    let receipt = place.copy("from/", "to", &[]);
    assert_eq!((receipt.copied, receipt.same), (17, 4), "{receipt:?}");
    for n in [7, 8] {
        assert_eq!(fs::read(place.path(&format!("to/{n}"))).unwrap(), b"text");
    }
    // A finished copy doubts nothing.
    assert_eq!(place.copy("from/", "to", &[]).same, 21);
}
