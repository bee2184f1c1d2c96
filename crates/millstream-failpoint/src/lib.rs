//! Named points at which a test kills, holds or fails the program; without the feature `armed` they do nothing.
//!
//! With the feature, which only tests switch on, the environment variable `MILLSTREAM_FAILPOINTS` holds
//! `POINT=ACTION[@N]`, several with `;`. The action happens the N-th time that the program passes the point; the
//! default is 1:
//!
//! | action | what happens |
//! |---|---|
//! | `kill` | the process kills itself with SIGKILL |
//! | `wait:FILE` | the point creates FILE and waits until somebody removes it |
//! | `error` | the point returns [`Failed`], which counts as a transient error such as a lost connection |

#[cfg(feature = "armed")]
mod armed;
mod points;

#[cfg(feature = "armed")]
pub use armed::{Failed, hit, hit_on_thread};
pub use points::{
    CHANGE, COLD, COMMIT, COMPACTION, COPY, COPY_CLUSTER, COPY_THERE, LOAD, MISSING, RANGES, REFRESH, SEGMENT,
};

/// The error of a point. Without the feature `armed` there is none.
#[cfg(not(feature = "armed"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {}

#[cfg(not(feature = "armed"))]
impl std::fmt::Display for Failed {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Failed {}

/// Passes a point in a task.
///
/// # Errors
/// Never without the feature `armed`.
#[cfg(not(feature = "armed"))]
#[inline]
pub async fn hit(_: &'static str) -> Result<(), Failed> {
    Ok(())
}

/// Passes a point on a thread of its own, where a test can kill or hold the program, but not fail it.
#[cfg(not(feature = "armed"))]
#[inline]
pub fn hit_on_thread(_: &'static str) {}
