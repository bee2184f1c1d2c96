//! The words of a command line.

/// The words of a command line as a shell would split it, without what else a shell does.
///
/// # Errors
/// It has no words, a quote is open, or something in it means more to a shell: what.
pub(crate) fn words(text: &str) -> Result<Vec<String>, String> {
    if let Some(what) = for_a_shell(text) {
        return Err(format!("only a shell understands {what}, unless it is quoted"));
    }
    match shlex::split(text) {
        Some(words) if words.is_empty() => Err("there is no command".to_owned()),
        Some(words) => Ok(words),
        None => Err("a quote is open".to_owned()),
    }
}

/// What in a command line only a shell understands.
fn for_a_shell(text: &str) -> Option<String> {
    let (mut quote, mut is_escaped, mut begins_word, mut is_first) = (None, false, true, true);
    for c in text.chars() {
        if std::mem::take(&mut is_escaped) {
            begins_word = false;
            continue;
        }
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => is_escaped = true,
            (_, '$' | '`') => return Some(c.to_string()),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '\n') => return Some("a second line".to_owned()),
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '[') => return Some(c.to_string()),
            (None, '~' | '#') if begins_word => return Some(c.to_string()),
            (None, '!') if begins_word && is_first => return Some(c.to_string()),
            (None, '=') if is_first && !begins_word => return Some("NAME=VALUE before a command".to_owned()),
            (None, _) => {}
        }
        let is_space = quote.is_none() && c.is_whitespace();
        is_first &= begins_word || !is_space;
        begins_word = is_space;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell_and_what_needs_one_is_refused() {
        let split = |text: &str| words(text).unwrap().join("|");
        assert_eq!(
            split("gzip -k  'a b' \"c'd\" e\\ f a=b --x=y '*' \"a;b\" x~ x#"),
            "gzip|-k|a b|c'd|e f|a=b|--x=y|*|a;b|x~|x#"
        );
        for (text, what) in [
            ("a | b", "|"),
            ("a \"$HOME\"", "$"),
            ("ls *.c", "*"),
            ("cat ~/x", "~"),
            ("A=1 b", "NAME=VALUE before a command"),
            ("a\nb", "a second line"),
            ("a `b`", "`"),
        ] {
            assert_eq!(words(text).unwrap_err(), format!("only a shell understands {what}, unless it is quoted"));
        }
        assert_eq!([words(" "), words("'a")].map(Result::unwrap_err), ["there is no command", "a quote is open"]);
    }
}
