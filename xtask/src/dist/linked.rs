//! What is linked into the program and is no crate of the registry: Rust's own library, and what zig brings.

use super::components::Linked;
use super::programs::{cannot, printed};
use super::tools::Tools;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The notices of Rust's library, below the folder of a toolchain.
const RUST_NOTICES: &str = "share/doc/rust/COPYRIGHT-library.html";

/// How a page spells some characters. The last one is part of the others.
const CHARACTERS: &[(&str, &str)] =
    &[("&#60;", "<"), ("&lt;", "<"), ("&#62;", ">"), ("&gt;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&amp;", "&")];

/// What zig links statically, with its licence and the file that has its text, in zig's folder.
const ZIG_PARTS: &[(&str, &str, &str)] = &[
    ("zig-compiler-rt", "MIT", "LICENSE"),
    ("llvm-libunwind", "Apache-2.0 WITH LLVM-exception", "lib/libunwind/LICENSE.TXT"),
    // The code that runs before `main`. The library itself is the system's.
    ("glibc-startup", "LGPL-2.1-or-later WITH GCC-exception-2.0-note", "lib/libc/glibc/LICENSES"),
];

/// All of them, as the toolchain and zig have them.
pub(super) fn read(tools: &Tools) -> Result<Vec<Linked>, String> {
    let mut found = vec![rust_library()?];
    for &(name, license, file) in ZIG_PARTS {
        let file = tools.zig().join(file);
        let notice = fs::read_to_string(&file).map_err(cannot("read", &file))?;
        found.push(Linked { name, version: Tools::version("ziglang").to_owned(), license, notice });
    }
    Ok(found)
}

fn rust_library() -> Result<Linked, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = printed(Command::new(&rustc).arg("--version"))?;
    let version = version.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let folder = printed(Command::new(&rustc).args(["--print", "sysroot"]))?;
    let file = Path::new(folder.trim()).join(RUST_NOTICES);
    let page = fs::read_to_string(&file).map_err(|error| {
        let problem = cannot("read", &file)(error);
        format!("{problem}\n  hint: packages hold the notices of Rust's library, which a toolchain of rustup has")
    })?;
    Ok(Linked { name: "rust-std", version, license: "MIT OR Apache-2.0", notice: text_of(&page) })
}

/// The text of a page of HTML, with at most one empty line in a row.
fn text_of(page: &str) -> String {
    let body = page.split_once("<body>").map_or(page, |(_, body)| body);
    let mut text = String::new();
    for (at, part) in body.split('<').enumerate() {
        // What stands before the first tag is text as a whole.
        text.push_str(if at == 0 { part } else { part.split_once('>').map_or("", |(_, text)| text) });
    }
    for (code, character) in CHARACTERS {
        text = text.replace(code, character);
    }
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_text() {
        let page =
            "<html><title>x</title><body>\n<h1 id=\"a\">A &amp; B</h1>\n \n\n<p>1 &#60; 2 &amp;lt;</p>\n</body></html>";
        assert_eq!(text_of(page), "\nA & B\n\n1 < 2 &lt;");
    }
}
