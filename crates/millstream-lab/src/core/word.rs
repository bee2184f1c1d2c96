//! What is wrong in a file of TOML, and with a word that is not known.

use millstream_model::nearest;

/// Says that a word is unknown, with the nearest one, or with all that are known.
pub(crate) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(nearest) => format!("unknown {what} \"{word}\": did you mean \"{nearest}\"?"),
        None if known.is_empty() => format!("unknown {what} \"{word}\": there is none"),
        None => format!("unknown {what} \"{word}\": expected one of {}", known.join(", ")),
    }
}

/// What the parser found wrong in a file. An unknown word gets its nearest one: the parser lists the words that it knows
/// in backquotes, after the one that it does not know.
pub(crate) fn complaint(error: &toml::de::Error) -> String {
    let message = error.message();
    let words: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match (message, words.as_slice()) {
        (text, [word, known @ ..]) if text.starts_with("unknown field") => unknown("key", word, known),
        (text, [word, known @ ..]) if text.starts_with("unknown variant") => unknown("word", word, known),
        (text, [key]) if text.starts_with("missing field") => format!("the key \"{key}\" is missing"),
        _ => in_words(&message.lines().collect::<Vec<_>>().join(", ")),
    }
}

/// A message with words in place of the names of types.
fn in_words(message: &str) -> String {
    let number = ["u8", "u16", "u32", "u64"].iter().find_map(|name| message.strip_suffix(&format!("expected {name}")));
    match (number, message.strip_suffix("expected f64")) {
        (Some(rest), _) => format!("{rest}expected a whole number"),
        (None, Some(rest)) => format!("{rest}expected a number"),
        (None, None) => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named() {
        let known = ["rate", "name", "statements"];
        assert_eq!(unknown("key", "nmae", &known), "unknown key \"nmae\": did you mean \"name\"?");
        assert_eq!(unknown("key", "q", &known), "unknown key \"q\": expected one of rate, name, statements");
        assert_eq!(unknown("value", "q", &[]), "unknown value \"q\": there is none");
    }
}
