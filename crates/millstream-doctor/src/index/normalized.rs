//! Statements as `pg_stat_statements` keeps them: with a parameter in the place of each constant.

use super::finding::{Mismatch, Missed};
use super::probe::numbered;
use super::sql::Sql;

/// The pattern that is assumed where only a parameter is known.
pub(crate) const PATTERN: &str = "'a1%'";

/// The statement with a pattern that begins with letters wherever it compares with `like` and a parameter.
pub(crate) fn with_patterns(query: &str) -> String {
    let sql = Sql::new(query);
    let patterns = following(&sql, &["like", "~~"]);
    let given = sql.map_parameters(|n| if patterns.contains(&n) { PATTERN.to_owned() } else { format!("${n}") });
    numbered(given.text())
}

/// The statement with a number of rows where its `limit` is a parameter, and from the first row on where `offset` is one.
/// For a limit that it does not know, the planner assumes a tenth of all rows.
pub(crate) fn with_limit(query: &str, rows: u64) -> String {
    let sql = Sql::new(query);
    let (limits, offsets) = (following(&sql, &["limit", "first", "next"]), following(&sql, &["offset"]));
    let given = sql.map_parameters(|n| {
        if limits.contains(&n) {
            rows.to_string()
        } else if offsets.contains(&n) {
            "0".to_owned()
        } else {
            format!("${n}")
        }
    });
    numbered(given.text())
}

/// Numbers of the parameters that follow one of these words.
fn following(sql: &Sql, words: &[&str]) -> Vec<usize> {
    let pieces: Vec<&str> = sql.pieces().collect();
    let is_word = |piece: &str| words.iter().any(|word| piece.eq_ignore_ascii_case(word));
    let pairs = pieces.windows(2).filter(|pair| is_word(pair[0]));
    pairs.filter_map(|pair| pair[1].strip_prefix('$')?.parse().ok()).collect()
}

/// Whether a mismatch could come from a constant that the server has not kept, and not from the statement: the name of a
/// JSON member, or the value that a partial index is for. Or whether its other condition is for somebody who wants fewer rows.
/// What an index wraps stands in its expression, and has no constant.
pub(crate) fn is_uncertain(missed: &Missed, near: &Mismatch) -> bool {
    let condition = Sql::new(&missed.condition);
    let parameters = condition.pieces().filter(|piece| piece.starts_with('$')).count();
    (parameters > 1 && near.kind != "wrapped") || matches!(near.kind, "predicate" | "leading" | "order")
}

#[cfg(test)]
mod tests {
    use super::super::finding::NewIndex;
    use super::*;

    #[test]
    fn patterns_begin_with_letters_and_other_parameters_are_numbered_again() {
        assert_eq!(
            with_patterns("select from t where a = $1 and b like $2 and c = $3"),
            "select from t where a = $1 and b like 'a1%' and c = $2"
        );
        assert_eq!(with_patterns("select from t where a = $1"), "select from t where a = $1");
    }

    #[test]
    fn a_limit_is_as_many_rows_as_a_call_returns() {
        let limited = |query| with_limit(query, 7);
        assert_eq!(
            limited("select a from t where a = $1 and b > $2 order by b LIMIT $3 OFFSET $4"),
            "select a from t where a = $1 and b > $2 order by b LIMIT 7 OFFSET 0"
        );
        assert_eq!(
            limited("select a from t offset $1 rows fetch next $2 rows only"),
            "select a from t offset 0 rows fetch next 7 rows only"
        );
        assert_eq!(limited("select a from t where a = $1"), "select a from t where a = $1");
    }

    #[test]
    fn a_constant_that_was_not_kept_makes_a_mismatch_uncertain() {
        let uncertain = |condition: &str, kind| {
            let condition = condition.to_owned();
            let missed = Missed { condition, side_of_or: false, near: Vec::new(), new_index: NewIndex::Unknown };
            is_uncertain(&missed, &Mismatch { kind, index: String::new(), reason: String::new(), rewrite: None })
        };
        assert!(uncertain("(doc ->> $1) = $2", "path") && uncertain("state = $1", "predicate"));
        assert!(uncertain("mac = $1", "leading") && uncertain("order by n", "order"));
        assert!(!uncertain("mac = ($1 || $2)", "wrapped") && uncertain("date_trunc($1, at) = $2", "unwrapped"));
        assert!(!uncertain("mac = $1", "wrapped") && !uncertain("mac ~~ 'a1%'", "pattern"));
    }
}
