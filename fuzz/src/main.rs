//! The program with libFuzzer: it searches for inputs that break one target.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_fuzz::{TARGETS, Target};
use std::sync::LazyLock;

/// The target that `MILLSTREAM_FUZZ_TARGET` names; libFuzzer takes the arguments.
static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("MILLSTREAM_FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name);
    target.unwrap_or_else(|| panic!("MILLSTREAM_FUZZ_TARGET names no target: \"{name}\""))
});

fuzz_target!(|input: &[u8]| (TARGET.check)(input));
