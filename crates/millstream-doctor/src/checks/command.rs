//! Words of the commands that a repair prints, so that no name of a table or database becomes another command.

/// A word as the shell takes it.
pub(super) fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The database as a program such as `reindexdb` takes it. Such programs read a bare name with `=` in it as settings, and
/// one that begins with `-` as an option.
pub(super) fn database(name: &str) -> String {
    word(&format!("dbname='{}'", name.replace('\\', r"\\").replace('\'', r"\'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_word() {
        assert_eq!(word("a'; rm x; '"), r"'a'\''; rm x; '\'''");
        assert_eq!(database("shop"), r"'dbname='\''shop'\'''");
        assert_eq!(database("x host=evil"), r"'dbname='\''x host=evil'\'''");
    }
}
