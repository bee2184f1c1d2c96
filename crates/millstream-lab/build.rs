//! Builds again when an experiment was added: the compiler does not notice new files.

fn main() {
    println!("cargo:rerun-if-changed=../../lab/experiments");
}
