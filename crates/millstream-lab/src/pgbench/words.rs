//! Explains what is wrong in an experiment's file: the line, and the known word that is nearest.

/// What is wrong, with the line, and the nearest known word for an unknown one.
pub(super) fn explain(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{place}{}", sentence(error.message()))
}

/// `; did you mean WORD?` if one of the known words is near.
pub(super) fn nearest(word: &str, known: &[&str]) -> String {
    let near = known.iter().map(|one| (strsim::damerau_levenshtein(word, one), one));
    let near = near.min_by_key(|(distance, _)| *distance).filter(|(distance, one)| *distance <= one.len().max(3) / 2);
    near.map(|(_, one)| format!("; did you mean {one}?")).unwrap_or_default()
}

/// The message of the parser. For an unknown word it lists the known ones between backticks; name only the nearest.
fn sentence(message: &str) -> String {
    let message = message.trim();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = ["unknown field", "unknown variant"].iter().any(|start| message.starts_with(start));
    match quoted.next().filter(|_| unknown) {
        Some(word) => {
            let known: Vec<&str> = quoted.collect();
            let near = nearest(word, &known);
            let all = if near.is_empty() { format!("; known: {}", known.join(", ")) } else { near };
            format!("unknown word {word}{all}")
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_if_one_is_near() {
        assert_eq!(
            sentence("unknown field `sclae`, expected one of `scale`, `files`"),
            "unknown word sclae; did you mean scale?"
        );
        assert_eq!(sentence("unknown field `x`, expected `scale` or `files`"), "unknown word x; known: scale, files");
        assert_eq!(sentence("missing field `arm`"), "missing field `arm`");
        assert_eq!(nearest("clinets", &["clients", "threads"]), "; did you mean clients?");
    }
}
