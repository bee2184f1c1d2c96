//! Words that people type: the nearest known one, and the line on which one stands.

/// The known word that is nearest to another, if one is near enough to be meant.
///
/// Near is a Damerau-Levenshtein similarity of more than a half: a slip of the finger in a short word counts.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer one is not near, and takes long to compare.
    let short = known.into_iter().filter(|one| one.len() <= 2 * word.len());
    let scored = short.map(|one| (strsim::normalized_damerau_levenshtein(word, one), one));
    scored.filter(|(score, _)| *score > 0.5).max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, one)| one)
}

/// The line of a byte of a text, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_if_it_is_near() {
        let known = ["rate", "name", "statements", "mac", "mac_address_of_the_device"];
        assert_eq!(nearest("raet", known), Some("rate"));
        assert_eq!(nearest("statement", known), Some("statements"));
        assert_eq!(nearest("xyz", known), None);
        assert_eq!(nearest("mca", known), Some("mac"));
        assert_eq!(nearest("Rate", known), Some("rate"));
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!(["", "a\nb", "a\nb"].map(|text| line_of(text, text.len())), [1, 2, 2]);
        assert_eq!(line_of("a\n", 99), 1, "beyond the text there is no line");
    }
}
