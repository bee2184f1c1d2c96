//! Avro's files: whatever they hold, whole lines come out, the same for any reads.

use crate::converted;

pub(crate) fn check(input: &[u8]) {
    converted::check(input);
}
