//! A condition that a plan checks on each row of a table, expressed on that table alone.

use super::plan::Scan;
use super::sql::Sql;

/// Parameters from this number on stand for values from elsewhere: a column of another table, or a subquery.
pub(super) const FOREIGN: usize = 1_000;

/// A condition on the rows of one table.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    /// The whole condition, with bare column names, and parameters for everything that is not the table's.
    pub(super) sql: Sql,
    /// The side that reads the table; the whole condition if it has no operator.
    pub(super) left: Sql,
    pub(super) operator: String,
    /// The side that it is compared with.
    pub(super) right: Option<Sql>,
}

/// What is needed to read the conditions of one scan.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    /// The table's columns.
    columns: &'a [String],
    /// A column that the query cannot name. A condition on it is not the query's own.
    hidden: Option<&'a str>,
    /// Names of this table in the plan.
    own: &'a [String],
    /// Names of the other tables.
    others: Vec<&'a str>,
    /// What the parameters from [`FOREIGN`] on stand for.
    foreign: Vec<String>,
}

/// Operators and their commutators. Only those that a person would write.
const COMMUTED: &[(&str, &str)] = &[("=", "="), ("<>", "<>"), ("<", ">"), (">", "<"), ("<=", ">="), (">=", "<=")];

impl<'a> Scope<'a> {
    pub(super) fn new(columns: &'a [String], hidden: Option<&'a str>, scan: &'a Scan, all: &'a [Scan]) -> Self {
        let others =
            all.iter().map(|other| other.alias.as_str()).filter(|alias| !scan.aliases.iter().any(|own| own == alias));
        Self { columns, hidden, own: &scan.aliases, others: others.collect(), foreign: Vec::new() }
    }

    /// The conditions that must all hold.
    pub(super) fn conditions(&mut self, filter: &str) -> Vec<Condition> {
        Sql::new(filter).split("AND").iter().filter_map(|part| self.condition(part)).collect()
    }

    /// The text with bare names of the table's columns. `None` if it runs a subquery for each row, or does
    /// not read the table.
    pub(super) fn own_sql(&mut self, sql: &Sql) -> Option<Sql> {
        if sql.pieces().any(|piece| matches!(piece, "SubPlan" | "AlternativeSubPlan")) {
            return None;
        }
        let (own, others, columns) = (self.own, &self.others, self.columns);
        let foreign = &mut self.foreign;
        let mut stand_in = |text: String| {
            let place = foreign.iter().position(|known| *known == text).unwrap_or_else(|| {
                foreign.push(text);
                foreign.len() - 1
            });
            format!("${}", FOREIGN + place)
        };
        let later = sql.map_subqueries(|text| stand_in(text.to_owned()));
        let bare = later.map_qualified(|table, column| {
            if own.iter().any(|name| name == table) {
                Some(column.to_owned())
            } else if others.contains(&table) {
                Some(stand_in(format!("{table}.{column}")))
            } else {
                // The plan does not name the parent of partitions, because it has no scan of its own.
                columns.iter().any(|name| column.trim_matches('"') == name).then(|| column.to_owned())
            }
        });
        let bare = bare.map_parameters(|n| if n == 0 { stand_in("(a subquery)".into()) } else { format!("${n}") });
        let is_own = bare.names().any(|name| self.columns.contains(&name));
        let is_hidden = bare.names().any(|name| Some(name.as_str()) == self.hidden);
        (is_own && !is_hidden).then_some(bare)
    }

    fn condition(&mut self, sql: &Sql) -> Option<Condition> {
        let own = self.own_sql(sql)?;
        Some(self.compared(own))
    }

    /// Splits a condition into its sides. Commutes it if only the right side reads the table.
    fn compared(&self, sql: Sql) -> Condition {
        match sql.comparison() {
            Some((left, operator, right)) if self.is_about(&left) => {
                Condition { sql, left, operator, right: Some(right) }
            }
            Some((left, operator, right)) => match COMMUTED.iter().find(|(one, _)| *one == operator) {
                Some((_, other)) => Condition { sql, left: right, operator: (*other).to_owned(), right: Some(left) },
                None => Condition { left: sql.clone(), operator: String::new(), right: None, sql },
            },
            None => Condition { left: sql.bare(), operator: String::new(), right: None, sql },
        }
    }

    /// The sides of an `or`. A condition without `or` has one side.
    pub(super) fn sides(&self, condition: &Condition) -> Vec<Condition> {
        let sides = condition.sql.split("OR");
        sides.into_iter().map(|side| self.compared(side)).collect()
    }

    /// A parameter for a value that the query does not contain, printed as `shown`.
    pub(super) fn stand_in(&mut self, shown: &str) -> String {
        self.foreign.push(shown.to_owned());
        format!("${}", FOREIGN + self.foreign.len() - 1)
    }

    /// Whether the expression reads a column of the table.
    pub(super) fn is_about(&self, sql: &Sql) -> bool {
        sql.names().any(|name| self.columns.contains(&name))
    }

    /// The text in readable form, without parameters of our own.
    pub(super) fn shown(&self, sql: &Sql) -> String {
        let named = |n: usize| n.checked_sub(FOREIGN).and_then(|place| self.foreign.get(place)).cloned();
        let tidy = sql.bare().tidy();
        tidy.map_parameters(|n| named(n).unwrap_or_else(|| format!("${n}"))).text().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(alias: &str, aliases: &[&str]) -> Scan {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        Scan { alias: alias.to_owned(), aliases, ..Scan::default() }
    }

    #[test]
    fn only_conditions_on_the_scanned_table_are_kept() {
        let columns: Vec<String> = ["mac", "id", "generation"].map(str::to_owned).to_vec();
        let all = [scan("m_1", &["m_1", "m_2"]), scan("m_2", &["m_1", "m_2"]), scan("t", &["t"])];
        let mut scope = Scope::new(&columns, Some("generation"), &all[0], &all);
        let filter = "((m_1.generation = $0) AND (t.mac = m.mac) AND ('5'::numeric < (m_1.id)::numeric) \
                      AND (m_2.id = (InitPlan 2).col1) AND (t.n = 1) AND (NOT (hashed SubPlan 1)))";
        let found = scope.conditions(filter);
        let shown: Vec<String> = found.iter().map(|one| scope.shown(&one.sql)).collect();
        assert_eq!(shown, ["t.mac = mac", "'5'::numeric < (id)::numeric", "id = (InitPlan 2).col1"]);
        let parts: Vec<(&str, &str)> = found.iter().map(|one| (one.left.text(), one.operator.as_str())).collect();
        assert_eq!(parts, [("mac", "="), ("(id)::numeric", ">"), ("id", "=")]);
        let either = scope.conditions("((m_1.id = 1) OR (m_1.mac = 'x'::text))");
        assert_eq!(scope.sides(&either[0]).len(), 2);
    }
}
