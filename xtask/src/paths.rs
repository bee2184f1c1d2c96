//! Paths that Rust code names, such as `crate::a::B` or the two of `super::{a, b::C}`, and the names that `use` gives them.

use crate::pieces::{PieceKind, pieces, tests_begin};

/// A path that begins at the crate, at this module or at the one above.
pub(crate) struct Named {
    /// The line on which it begins, from 1.
    pub(crate) line: usize,
    /// Its words, such as `crate`, `a` and `B`.
    pub(crate) words: Vec<String>,
}

/// A name that a `use` brings into a module.
pub(crate) struct Import {
    /// The name that it has there.
    pub(crate) name: String,
    /// The words of the path that it stands for.
    pub(crate) words: Vec<String>,
    /// Whether other modules may take it from there.
    pub(crate) is_public: bool,
}

/// The paths of a file that begin with `crate`, `self` or `super`, tests left out.
pub(crate) fn paths(text: &str) -> Vec<Named> {
    let code = code(text);
    let mut all = Vec::new();
    for root in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(root) {
            if code[..at].ends_with(|c: char| is_inner(c) || c == ':' || c == '$') {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            all.extend(tree(&code[at..]).into_iter().map(|(words, _)| Named { line, words }));
        }
    }
    all
}

/// What the `use` items of a file bring in, tests left out.
pub(crate) fn imports(text: &str) -> Vec<Import> {
    let code = code(text);
    let mut all = Vec::new();
    for (at, word) in code.match_indices("use ") {
        if code[..at].ends_with(is_inner) {
            continue;
        }
        let item = code[..at].rfind(['\n', ';']).map_or(0, |end| end + 1);
        let is_public = code[item..at].trim_start().starts_with("pub");
        let found = tree(&code[at + word.len()..]);
        all.extend(found.into_iter().map(|(words, name)| Import { name, words, is_public }));
    }
    all
}

/// The text up to its tests with comments and strings blanked out, line for line.
fn code(text: &str) -> String {
    let end = tests_begin(text).unwrap_or(usize::MAX);
    let mut code = String::new();
    for piece in pieces(text).into_iter().filter(|piece| piece.line < end) {
        match piece.kind {
            PieceKind::Code => {
                let lines = piece.text.split_inclusive('\n').take(end - piece.line);
                code.extend(lines);
            }
            PieceKind::Comment | PieceKind::Text => {
                code.push(' ');
                code.extend(piece.text.matches('\n'));
            }
        }
    }
    code
}

/// The paths at the beginning of a text, each with the name that a `use` gives it: one, or those of a group.
fn tree(text: &str) -> Vec<(Vec<String>, String)> {
    let mut all = Vec::new();
    read(text, &[], &mut all);
    all
}

/// Reads the paths behind some words, and returns the text after them.
fn read<'a>(text: &'a str, before: &[String], all: &mut Vec<(Vec<String>, String)>) -> &'a str {
    let mut words = before.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            return read_group(group, &words, all);
        }
        let word = if rest.starts_with('*') { "*" } else { first_word(rest) };
        if word.is_empty() {
            return rest;
        }
        words.push(word.to_owned());
        rest = &rest[word.len()..];
        let after =
            rest.strip_prefix("::").filter(|after| after.starts_with(|c: char| is_inner(c) || "{*".contains(c)));
        let Some(after) = after else { break };
        rest = after;
    }
    if words.len() > 1 && words.last().is_some_and(|word| word == "self") {
        words.pop();
    }
    let mut name = words.last().cloned().unwrap_or_default();
    if let Some(other) = rest.strip_prefix(" as ") {
        first_word(other).clone_into(&mut name);
        rest = &other[name.len()..];
    }
    all.push((words, name));
    rest
}

/// Reads the inside of a group behind some words, and returns the text after it.
fn read_group<'a>(group: &'a str, words: &[String], all: &mut Vec<(Vec<String>, String)>) -> &'a str {
    let mut rest = group;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        if let Some(after) = rest.strip_prefix('}') {
            return after;
        }
        let after = read(rest, words, all);
        // What is no path ends the reading.
        if after.len() == rest.len() {
            return after;
        }
        rest = after;
    }
}

fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !is_inner(c)).unwrap_or(text.len())]
}

/// Whether a character stands inside a word.
fn is_inner(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[String]) -> String {
        words.join(" ")
    }

    #[test]
    fn every_path_of_a_group_is_found_with_its_line() {
        let text = "use crate::{a::{self, b, c::*}, d};\nfn f() { crate::e::g::<u8>(); \"crate::no\"; }\n// crate::no\n\
                    use super::super::h;\nuse self::i::J as K;\nuse other::crate_name;\n$crate::no::x;\n\
                    #[cfg(test)]\nmod tests { use crate::no; }\n";
        let found: Vec<(usize, String)> = paths(text).iter().map(|named| (named.line, shown(&named.words))).collect();
        let expected = [
            (1, "crate a"),
            (1, "crate a b"),
            (1, "crate a c *"),
            (1, "crate d"),
            (2, "crate e g"),
            (5, "self i J"),
            (4, "super super h"),
        ];
        assert_eq!(found, expected.map(|(line, words)| (line, words.to_owned())));
    }

    #[test]
    fn an_import_has_the_name_that_its_use_gives_it() {
        let text = "pub use error::{Error, PieceKind as K};\npub(crate) use crate::a::{self,\n    b};\nuse c::no;\n\
                    #[cfg(test)]\nmod tests {\n    use d::no;\n}\n";
        let found: Vec<(bool, String, String)> =
            imports(text).into_iter().map(|one| (one.is_public, one.name, shown(&one.words))).collect();
        let expected = [
            (true, "Error", "error Error"),
            (true, "K", "error PieceKind"),
            (true, "a", "crate a"),
            (true, "b", "crate a b"),
            (false, "no", "c no"),
        ];
        assert_eq!(found, expected.map(|(public, name, words)| (public, name.to_owned(), words.to_owned())));
    }

    #[test]
    fn a_text_that_ends_early_does_not_panic() {
        for text in [
            "use ",
            "use crate::",
            "use crate::{",
            "use crate::{a::{",
            "use crate::{a, <",
            "crate::é::{b as ",
            "use {}",
        ] {
            assert!(paths(text).len() + imports(text).len() <= 4, "{text}");
        }
    }
}
