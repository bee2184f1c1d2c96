//! Keeps a panic of a decoder that is not ours from ending the process.

use crate::Trouble;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs [`guarded`] code. A panic hook that ends the process must not do so then.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Runs code that calls a decoder. Decoders are written for whole files, and some panic on damaged ones: that is damage.
/// The converter must not be used again after it.
///
/// # Errors
/// Those of the code, and [`Trouble::Damaged`] if it panicked.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    GUARDED.set(true);
    let ended = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a reason");
        Err(Trouble::Damaged(format!("its decoder gave up: {text}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_damage_and_ends_the_guard() {
        let ended = guarded(|| {
            assert!(is_guarded());
            let none: [u8; 0] = [];
            Ok(none[std::hint::black_box(1)])
        });
        assert!(matches!(&ended, Err(Trouble::Damaged(why)) if why.contains("out of bounds")), "{ended:?}");
        assert!(!is_guarded());
        assert!(matches!(guarded(|| Ok(7)), Ok(7)));
    }
}
