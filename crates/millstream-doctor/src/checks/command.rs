//! Words of the commands that a repair prints, so that no name of a table or database becomes another command.

use millstream_model::words::shell_word;
use millstream_pg::quote_identifier;

/// A name as SQL needs it: quoted if it must be.
pub(super) fn spelled(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && !name.starts_with(|c: char| c.is_ascii_digit()) { name.to_owned() } else { quote_identifier(name) }
}

/// The database as a program such as `reindexdb` takes it. Such programs read a bare name with `=` in it as settings, and
/// one that begins with `-` as an option.
pub(super) fn database(name: &str) -> String {
    shell_word(&format!("dbname='{}'", name.replace('\\', r"\\").replace('\'', r"\'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_word() {
        assert_eq!(["a_1", "A", "1a"].map(spelled), ["a_1", "\"A\"", "\"1a\""]);
        assert_eq!(database("shop"), r#""dbname='shop'""#);
        assert_eq!(database("x host=evil"), r#""dbname='x host=evil'""#);
        assert_eq!(database("x' $(id)"), r"'dbname='\''x\'\'' $(id)'\'''");
    }
}
