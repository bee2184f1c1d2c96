//! Tests of the real binary: what it prints, where, and how it ends.

mod help;
mod local;
mod process;
mod records;
mod refusals;
mod signals;
