//! BSON: whatever it holds, whole lines come out, the same for any reads, also from compressed data.

use crate::converted;

pub(crate) fn check(input: &[u8]) {
    converted::check(input);
}
