//! The condition on an index's expression that finds every row of a condition with other casts, if there is one.
//!
//! Only casts that lose nothing count: of whole numbers to wider ones, and of the text of a JSON value.

use super::condition::{Condition, FOREIGN};
use super::definition::Key;
use super::json_path::JsonPath;
use super::sql::Sql;

/// Another condition, and how the rows that it finds can differ.
pub(super) type Rewritten = (String, Option<&'static str>);

/// Types of numbers. Each holds every value of those before it. One with a length or a scale may round, and is none of them.
const WIDENING: [&str; 4] = ["smallint", "integer", "bigint", "numeric"];

const COMPARISONS: [&str; 5] = ["=", "<", "<=", ">", ">="];

/// The caution if more rows have the same value in the index than in the query.
const ALIKE: &str = "finds every row where the index's expression is the same";

const ROUNDED: &str = "rounds a value with a fraction, and refuses one that the type does not hold";

/// For a condition and a key that are the same but for their casts.
pub(super) fn compared(condition: &Condition, key: &Key) -> Option<Rewritten> {
    let Condition { left, operator, right: Some(right), .. } = condition else { return None };
    let held = key.type_name.as_str();
    if !COMPARISONS.contains(&operator.as_str()) || !WIDENING.contains(&held) {
        return None;
    }
    let is_equality = operator == "=";
    let written = |value: String| format!("{} {operator} {value}", key.expression.as_operand());
    let is_held = |text: &str| held == "numeric" || text.parse::<i64>().is_ok();
    let literal = || match right.literal() {
        Some(text) => is_held(&text).then(|| quoted(&text)),
        None => right.text().parse::<i64>().is_ok().then(|| right.text().to_owned()),
    };
    let given = || is_parameter(right).then(|| format!("({})::{held}", right.text()));
    let of_key = key.expression.without_last_cast().filter(|(core, name)| name == held && is_json_text(core));
    let Some((core, asked)) = left.without_last_cast() else {
        // Equal texts are equal numbers.
        of_key.filter(|(core, _)| is_equality && core.same(left) && is_json_text(left))?;
        return Some((written(literal().or_else(given)?), Some(ALIKE)));
    };
    let is_same_json = of_key.is_some_and(|(of_key, _)| of_key.same(&core));
    if is_same_json && widens(&asked, held) {
        return Some((written(literal().or_else(given)?), None));
    }
    if !(is_same_json || core.same(&key.expression)) || !widens(held, &asked) {
        return None;
    }
    match literal() {
        Some(value) => Some((written(value), None)),
        None => given().filter(|_| is_equality).map(|value| (written(value), Some(ROUNDED))),
    }
}

/// Whether the second type holds every value of the first one, which is another.
fn widens(from: &str, to: &str) -> bool {
    let place = |name: &str| WIDENING.iter().position(|one| *one == name);
    place(from).zip(place(to)).is_some_and(|(from, to)| from < to)
}

/// Whether this is a parameter of the query itself.
pub(super) fn is_parameter(sql: &Sql) -> bool {
    let number = sql.text().strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
    number.is_some_and(|number| number < FOREIGN)
}

/// Whether it reads a member of a document as text, and casts that no more.
fn is_json_text(sql: &Sql) -> bool {
    sql.without_last_cast().is_none() && JsonPath::read(sql).is_some_and(|path| path.is_text)
}

/// A literal, as the report shows it.
pub(super) fn quoted(text: &str) -> String {
    millstream_pg::quote_literal(text).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(left: &str, operator: &str, right: &str, expression: &str, type_name: &str) -> Option<String> {
        let condition = Condition {
            sql: Sql::new(&format!("{left} {operator} {right}")),
            left: Sql::new(left),
            operator: operator.to_owned(),
            right: Some(Sql::new(right)),
        };
        let key = Key {
            expression: Sql::new(expression),
            type_name: type_name.to_owned(),
            collation: None,
            class: String::new(),
            descending: false,
            nulls_first: false,
        };
        compared(&condition, &key).map(|(sql, _)| sql)
    }

    #[test]
    fn whole_numbers_are_compared_in_the_type_of_the_index() {
        let of_n = |operator: &str, right: &str| rewritten("(n)::numeric", operator, right, "n", "integer");
        assert_eq!(of_n(">", "'5'::numeric").as_deref(), Some("n > '5'"));
        assert_eq!(of_n("=", "$1").as_deref(), Some("n = ($1)::integer"));
        for (operator, right) in [(">", "$1"), ("=", "'5.5'::numeric"), ("=", "$1000"), ("<>", "'5'::numeric")] {
            assert_eq!(of_n(operator, right), None, "{operator} {right}");
        }
        let price = "(doc ->> 'price'::text)";
        let of_price = |asked: &str, right: &str| {
            let held = format!("{price}::numeric");
            rewritten(&format!("{price}{asked}"), "=", right, &held, "numeric")
        };
        assert_eq!(of_price("::integer", "3"), Some(format!("{price}::numeric = 3")));
        assert_eq!(of_price("::integer", "n"), None, "only a literal or a parameter");
        let other = format!("{price}::numeric = '3'");
        assert_eq!(of_price("::integer", "'3'::integer"), Some(other.clone()));
        assert_eq!(of_price("", "'3'::text"), Some(other));
    }

    #[test]
    fn a_cast_that_loses_something_is_not_left_out() {
        for (left, held, type_name) in [
            ("(tz)::date", "tz", "timestamp with time zone"),
            ("(tz)::timestamp(0) with time zone", "tz", "timestamp with time zone"),
            ("(ts)::date", "ts", "timestamp without time zone"),
            ("(nu)::integer", "nu", "numeric(10,2)"),
            ("(nu)::integer", "nu", "numeric"),
            ("(nu)::numeric(10,1)", "nu", "numeric"),
            ("(f)::numeric(10,1)", "f", "double precision"),
            ("(n)::text", "n", "integer"),
            ("(n)::smallint", "n", "integer"),
            ("(i)::time without time zone", "i", "interval"),
            ("(ip)::cidr", "ip", "inet"),
            ("nu", "(nu)::text", "text"),
            ("(f)::integer", "(f)::numeric", "numeric"),
        ] {
            for right in ["$1", "'7'::integer"] {
                assert_eq!(rewritten(left, "=", right, held, type_name), None, "{left} {right}");
            }
        }
    }
}
