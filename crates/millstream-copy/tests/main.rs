//! Copies of trees by the library, compared with rsync's.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod rules;
