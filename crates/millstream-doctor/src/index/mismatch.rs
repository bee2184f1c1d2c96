//! Why a condition does not use an index that looks like it: [`KINDS`], one function each.
//!
//! A kind only suspects. The server then says whether the rewritten condition uses the index.

use super::condition::Condition;
use super::definition::{Definition, Key};
use super::exact;
use super::json_path::JsonPath;
use super::sql::Sql;

/// A reason why an index is not used.
pub(super) struct MissKind {
    pub(super) name: &'static str,
    pub(super) suspect: fn(&Pair<'_>) -> Option<Suspicion>,
}

/// Every kind. If several suspect something, the first whose rewritten condition the server confirms counts.
pub(super) static KINDS: &[MissKind] = &[
    MissKind { name: "predicate", suspect: predicate },
    MissKind { name: "collation", suspect: collation },
    MissKind { name: "pattern", suspect: pattern },
    MissKind { name: "leading", suspect: leading },
    MissKind { name: "operator", suspect: operator },
    MissKind { name: "path", suspect: path },
    MissKind { name: "day", suspect: day },
    MissKind { name: "cast", suspect: cast },
    MissKind { name: "wrapped", suspect: wrapped },
    MissKind { name: "unwrapped", suspect: unwrapped },
    MissKind { name: "containment", suspect: containment },
];

/// A condition and an index that does not serve it.
#[derive(Debug)]
pub(super) struct Pair<'p> {
    pub(super) condition: &'p Condition,
    pub(super) index: &'p Definition,
    /// The right side reads the row, too.
    pub(super) compares_columns: bool,
    /// A parameter for a value that the query does not give.
    pub(super) missing_value: &'p str,
}

/// What a kind suspects.
#[derive(Debug, Clone, Default)]
pub(super) struct Suspicion {
    pub(super) reason: String,
    /// Conditions that should use the index, the best first.
    pub(super) rewrites: Vec<String>,
    /// How the rows that they find can differ.
    pub(super) caution: Option<&'static str>,
    /// The reason is true even if no rewritten condition uses the index: both read the same expression.
    pub(super) certain: bool,
}

/// Operators that match patterns.
const PATTERNS: &[&str] = &["~~", "~~*", "~", "~*"];

/// Operators that negate equality or a match.
const NEGATIONS: &[&str] = &["<>", "!~~", "!~~*", "!~", "!~*"];

/// Calls that give equal results for equal texts, with a literal in them.
const TEXT_WORDS: &[&str] =
    &["(", ")", "''", "lower", "upper", "btrim", "ltrim", "rtrim", "TRIM", "BOTH", "LEADING", "TRAILING", "FROM"];

/// The caution if the query and the index differ in comparing a value as JSON or as text.
const NUMBER_AND_TEXT: &str = "a number in a document and its text are not the same";

impl Pair<'_> {
    /// What the query compares, as the report shows it.
    fn asked(&self) -> String {
        self.condition.left.tidy().text().to_owned()
    }

    fn first_key(&self) -> Option<&Key> {
        self.index.keys.first()
    }

    fn is_same(&self) -> bool {
        self.first_key().is_some_and(|key| key.expression.same(&self.condition.left))
    }

    /// Whether the catalog says that the first key finds rows by this operator. If the index is not used, the reason is
    /// another one, such as its cost.
    fn is_in_family(&self) -> bool {
        let Condition { operator, right, .. } = self.condition;
        let right = right.as_ref().map_or("", Sql::text);
        let holds = |name: &str| self.index.operators.iter().any(|one| one == name);
        match (operator.as_str(), right) {
            ("IS", "NULL" | "NOT NULL") => self.index.finds_nulls,
            // A truth value alone is compared with true.
            ("", _) | ("IS", "TRUE" | "FALSE") => holds("="),
            (name, _) => holds(name) && !right.starts_with("ALL "),
        }
    }

    /// Whether the index finds the rows of the condition as it is, by the catalog alone.
    pub(super) fn is_served(&self) -> bool {
        self.index.predicate.is_none() && !self.compares_columns && self.is_same() && self.is_in_family()
    }

    /// `left OPERATOR right` with another left and right side.
    fn compared(&self, left: &str, right: &str) -> String {
        format!("{left} {} {right}", self.condition.operator)
    }
}

fn predicate(pair: &Pair<'_>) -> Option<Suspicion> {
    let predicate = pair.index.predicate.as_ref().filter(|_| pair.is_same())?;
    Some(Suspicion {
        reason: format!(
            "the index holds only the rows where {}, and the query does not say that it wants no others",
            predicate.text()
        ),
        rewrites: vec![format!("{} and {}", pair.condition.sql.bare().text(), operand_of_and(predicate))],
        caution: Some("finds only the rows that the index holds"),
        ..Suspicion::default()
    })
}

fn operand_of_and(sql: &Sql) -> String {
    if sql.split("OR").len() > 1 { format!("({})", sql.text()) } else { sql.text().to_owned() }
}

fn collation(pair: &Pair<'_>) -> Option<Suspicion> {
    let key = pair.first_key()?;
    let collation = key.collation.as_ref()?;
    let right = pair.condition.right.as_ref()?;
    let parts = [&pair.condition.left, right].map(Sql::without_collation);
    if !parts[0].same(&key.expression) {
        return None;
    }
    // In another order other values are less or greater. Equal values are equal in every collation except those that ignore
    // something, for instance case. No collation that orders by bytes does that.
    if !matches!(pair.condition.operator.as_str(), "=" | "~~") {
        return None;
    }
    let left = key.expression.as_operand();
    Some(Suspicion {
        reason: format!("the index is in the order of collation {collation}, the query compares in another"),
        rewrites: vec![
            pair.compared(&left, parts[1].text()),
            pair.compared(&format!("{left} collate {collation}"), parts[1].text()),
        ],
        ..Suspicion::default()
    })
}

fn pattern(pair: &Pair<'_>) -> Option<Suspicion> {
    let Condition { operator, right, .. } = pair.condition;
    if !(PATTERNS.contains(&operator.as_str()) && pair.is_same() && pair.index.is_ordered()) {
        return None;
    }
    let literal = right.as_ref().and_then(Sql::literal);
    let is_like = operator.starts_with("~~");
    let reason = match literal {
        _ if operator.ends_with('*') => "the pattern ignores case, an ordered index does not".to_owned(),
        None => "the pattern is known only when the query runs; the plan has to do for any".to_owned(),
        Some(text) if is_like && text.starts_with(['%', '_']) => {
            "the pattern begins with a wildcard; only an index of trigrams (extension pg_trgm) finds such".to_owned()
        }
        Some(text) if !is_like && !text.starts_with('^') => {
            "the pattern is not bound to the beginning; only an index of trigrams (extension pg_trgm) finds such"
                .to_owned()
        }
        Some(_) => {
            let key = pair.first_key()?;
            let collation = key.collation.as_deref().unwrap_or("the database");
            format!("a beginning cannot be looked up in an index in the order of {collation} ({})", key.class)
        }
    };
    Some(Suspicion { reason, certain: true, ..Suspicion::default() })
}

fn leading(pair: &Pair<'_>) -> Option<Suspicion> {
    let later = pair.index.keys.iter().skip(1).any(|key| key.expression.same(&pair.condition.left));
    let first = pair.first_key().filter(|_| later && pair.index.is_ordered())?;
    let left = first.expression.as_operand();
    Some(Suspicion {
        reason: format!("the index is ordered by {} first, which the query does not compare", first.shown()),
        rewrites: vec![format!("{left} = {} and {}", pair.missing_value, pair.condition.sql.bare().text())],
        caution: Some("finds only the rows with that value"),
        ..Suspicion::default()
    })
}

fn operator(pair: &Pair<'_>) -> Option<Suspicion> {
    let operator = pair.condition.operator.as_str();
    let key = pair.first_key().filter(|_| pair.is_same())?;
    if !pair.compares_columns && pair.is_in_family() {
        return None;
    }
    let reason = if NEGATIONS.contains(&operator) {
        format!("an index finds what is equal, not what differs ({operator})")
    } else if pair.compares_columns {
        "both sides of the condition change from row to row".to_owned()
    } else {
        let like =
            if operator.is_empty() { "a condition like this".to_owned() } else { format!("the operator {operator}") };
        format!("an index by {} ({}) does not serve {like} with such a value", pair.index.method, key.class)
    };
    Some(Suspicion { reason, certain: true, ..Suspicion::default() })
}

fn path(pair: &Pair<'_>) -> Option<Suspicion> {
    let key = pair.first_key()?;
    let (asked, held) = (JsonPath::read(&pair.condition.left)?, JsonPath::read(&key.expression)?);
    if asked.root != held.root || asked.steps != held.steps || pair.condition.left.same_uncast(&key.expression) {
        return None;
    }
    let (rewrite, caution) = spelled_alike(pair, key)?;
    Some(Suspicion {
        reason: format!("the query reads {}, the index holds the same value spelled {}", pair.asked(), key.shown()),
        rewrites: vec![rewrite],
        caution,
        ..Suspicion::default()
    })
}

/// The condition in the spelling of the index. `None` if that could mean another value.
fn spelled_alike(pair: &Pair<'_>, key: &Key) -> Option<exact::Rewritten> {
    let (mut asked, mut held) = (pair.condition.left.clone(), key.expression.clone());
    while let Some((core, name)) = asked.without_last_cast() {
        let (of_held, _) = held.without_last_cast().filter(|(_, of_held)| *of_held == name)?;
        (asked, held) = (core, of_held);
    }
    if held.without_last_cast().is_some() {
        return None;
    }
    let (asked, held) = (JsonPath::read(&asked)?, JsonPath::read(&held)?);
    // Some notations read the member "0", others the first element.
    if asked.steps.iter().any(|step| step.parse::<i64>().is_ok()) {
        return None;
    }
    let right = pair.condition.right.as_ref()?;
    let written = |value: &str| pair.compared(&key.expression.as_operand(), value);
    if asked.is_text == held.is_text {
        return Some((written(right.text()), None));
    }
    let literal = right.literal().filter(|_| pair.condition.operator == "=")?;
    if asked.is_text {
        let document = serde_json::Value::String(literal.clone()).to_string();
        return is_only_text(&literal).then(|| (written(&exact::quoted(&document)), None));
    }
    let text = serde_json::from_str::<String>(&literal).ok()?;
    Some((written(&exact::quoted(&text)), Some(NUMBER_AND_TEXT)))
}

/// Whether the text of no other JSON value than a string is this.
fn is_only_text(text: &str) -> bool {
    !(text.starts_with(|first: char| first.is_ascii_digit() || "-[{".contains(first))
        || matches!(text, "true" | "false"))
}

/// The day of a time: the most frequent cast that a range can replace.
fn day(pair: &Pair<'_>) -> Option<Suspicion> {
    let Condition { left, operator, right: Some(right), .. } = pair.condition else { return None };
    let key = pair.first_key().filter(|key| operator == "=" && key.type_name.starts_with("timestamp"))?;
    let (core, name) = left.without_last_cast()?;
    if name != "date" || !core.same(&key.expression) {
        return None;
    }
    let held = key.expression.as_operand();
    // The server must know the type of a parameter before it adds a day to it.
    let right = match right.text() {
        text if exact::is_parameter(right) => format!("({text})::date"),
        text if text == "CURRENT_DATE" || (right.literal().is_some() && text.ends_with("::date")) => text.to_owned(),
        _ => return None,
    };
    Some(Suspicion {
        reason: format!("the query compares the day of {}, the index holds the time", key.expression.text()),
        rewrites: vec![format!("{held} >= {right} and {held} < ({right} + 1)")],
        caution: Some("does not find the time infinity"),
        ..Suspicion::default()
    })
}

fn cast(pair: &Pair<'_>) -> Option<Suspicion> {
    let key = pair.first_key()?;
    let left = &pair.condition.left;
    if left.same(&key.expression) || !left.same_uncast(&key.expression) {
        return None;
    }
    let rewritten = exact::compared(pair.condition, key);
    Some(Suspicion {
        reason: format!(
            "the query compares {}, the index holds {} ({})",
            left.text(),
            key.expression.text(),
            key.type_name
        ),
        certain: rewritten.is_none(),
        caution: rewritten.as_ref().and_then(|(_, caution)| *caution),
        rewrites: rewritten.into_iter().map(|(sql, _)| sql).collect(),
    })
}

fn wrapped(pair: &Pair<'_>) -> Option<Suspicion> {
    let key = pair.first_key()?;
    let left = &pair.condition.left;
    if left.same(&key.expression) || !key.expression.contains(left) {
        return None;
    }
    let right = pair.condition.right.as_ref().filter(|_| matches!(pair.condition.operator.as_str(), "=" | "~~"))?;
    let is_array = right.pieces().next().is_some_and(|word| matches!(word, "ANY" | "ALL"));
    // For other functions equal values can differ: 1.0 and 1.00 have two texts.
    let is_known = key.expression.replaced(left, "''")?.pieces().all(|piece| TEXT_WORDS.contains(&piece));
    if is_array || !is_known {
        return None;
    }
    if pair.condition.operator == "~~" {
        // The expression of a pattern need not match the expression of each text that the pattern matches.
        let pattern = right.literal().filter(|pattern| !pattern.starts_with(['%', '_']))?;
        let reason = format!(
            "the query wants {} to begin as {} does, the index holds {}",
            pair.asked(),
            exact::quoted(&pattern),
            key.shown()
        );
        return Some(Suspicion { reason, certain: true, ..Suspicion::default() });
    }
    let value = key.expression.replaced(left, right.text())?;
    Some(Suspicion {
        reason: format!("the query compares {}, the index holds {}", pair.asked(), key.shown()),
        rewrites: vec![pair.compared(&key.expression.as_operand(), &value.as_operand())],
        caution: Some("finds every row where the index's expression is the same"),
        ..Suspicion::default()
    })
}

fn unwrapped(pair: &Pair<'_>) -> Option<Suspicion> {
    let key = pair.first_key()?;
    let left = &pair.condition.left;
    let reads_json = left.pieces().any(|piece| piece.starts_with("->") || piece.starts_with("#>"));
    if left.same(&key.expression)
        || !left.contains(&key.expression)
        || (reads_json && JsonPath::read(&key.expression).is_none())
    {
        return None;
    }
    Some(Suspicion {
        reason: format!("the query compares {}, the index holds {} itself", pair.asked(), key.shown()),
        // Without the function the condition would find other rows.
        certain: true,
        ..Suspicion::default()
    })
}

fn containment(pair: &Pair<'_>) -> Option<Suspicion> {
    let key = pair.first_key().filter(|_| pair.index.method == "gin" && pair.condition.operator == "=")?;
    let asked = JsonPath::read(&pair.condition.left)?;
    let literal = pair.condition.right.as_ref()?.literal()?;
    if key.expression.text() != asked.root {
        return None;
    }
    // A list may have the step 0, too.
    if asked.steps.iter().any(|step| step.parse::<i64>().is_ok()) || pair.condition.left.without_last_cast().is_some() {
        return None;
    }
    let value = match asked.is_text {
        true if is_only_text(&literal) => serde_json::Value::String(literal),
        // A list or an object is contained in a longer one.
        false => serde_json::from_str(&literal)
            .ok()
            .filter(|value: &serde_json::Value| !(value.is_array() || value.is_object()))?,
        true => return None,
    };
    let document = asked
        .steps
        .iter()
        .rev()
        .fold(value.to_string(), |inner, step| format!("{{{}: {inner}}}", serde_json::Value::String(step.clone())));
    Some(Suspicion {
        reason: format!("the query compares one value of {}, the index is asked what a document contains", asked.root),
        rewrites: vec![format!("{} @> {}", asked.root, millstream_pg::quote_literal(&document).trim_start())],
        ..Suspicion::default()
    })
}

/// Clauses of new indexes that may serve a condition, the simplest first.
pub(super) fn new_indexes(condition: &Condition) -> Vec<String> {
    let expression = condition.left.as_key();
    let mut clauses = vec![format!("({expression})")];
    if let Some(collation) = condition.right.as_ref().and_then(Sql::collation) {
        clauses.push(format!("({expression} collate {collation})"));
    }
    let operator = condition.operator.as_str();
    if PATTERNS.contains(&operator) {
        clauses.push(format!("({expression} text_pattern_ops)"));
        clauses.push(format!("using gin ({expression} gin_trgm_ops)"));
    } else if !operator.is_empty() && !NEGATIONS.contains(&operator) {
        clauses.push(format!("using gin ({expression})"));
        clauses.push(format!("using gist ({expression})"));
    } else {
        clauses.push(format!("({expression}) where {}", condition.sql.bare().tidy().text()));
    }
    clauses
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn kind_names_are_unique() {
        let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
    }
}
