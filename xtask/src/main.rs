//! House keeping commands of the workspace.
fn main() {}
