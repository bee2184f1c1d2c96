//! Why one reading of a table uses none of its indexes.

use super::condition::{Condition, Scope};
use super::definition::Definition;
use super::finding::{Mismatch, Missed, NewIndex, Rewrite};
use super::mismatch::{KINDS, Pair, Suspicion, new_indexes};
use super::plan::Scan;
use super::probe::{Answer, Probe, Question};
use super::sql::Sql;
use super::{ExaminedTable, Facts};
use crate::limits::EXPLAINED_CONDITIONS_MAX;
use millstream_pg::Error;

/// One reading of the table that no index serves.
pub(super) struct Examination<'a> {
    facts: &'a Facts,
    /// Where suspicions are tested, if the server and the role allow it.
    probe: Option<&'a Probe<'a>>,
    scope: Scope<'a>,
    scan: &'a Scan,
    /// The query reads the table only once, so the conditions of joins belong to this reading.
    alone: bool,
}

impl<'a> Examination<'a> {
    pub(super) fn new(
        examined: &'a ExaminedTable,
        facts: &'a Facts,
        probe: Option<&'a Probe<'a>>,
        scan: &'a Scan,
        all: &'a [Scan],
        alone: bool,
    ) -> Self {
        let scope = Scope::new(&facts.columns, examined.hidden_column.as_deref(), scan, all);
        Self { facts, probe, scope, scan, alone }
    }

    /// The conditions that it checks row by row, and the order into which it sorts.
    pub(super) async fn missed(mut self) -> Result<Vec<Missed>, Error> {
        let joins = self.scan.joins.iter().filter(|_| self.alone).flat_map(|join| &join.conditions);
        let mut conditions = Vec::new();
        // If a whole index is read, its condition is checked on each of its rows, too.
        let looked_up = self.scan.uses.iter().filter_map(|one| one.condition.as_ref());
        for text in self.scan.filter.iter().chain(looked_up).chain(joins) {
            conditions.extend(self.scope.conditions(text));
        }
        conditions.truncate(EXPLAINED_CONDITIONS_MAX);
        let mut missed = Vec::new();
        for (n, condition) in conditions.iter().enumerate() {
            let others = conditions.iter().enumerate().filter(|(other, _)| *other != n);
            let others: Vec<&str> = others.map(|(_, other)| other.sql.text()).collect();
            let sides = self.scope.sides(condition);
            if sides.len() < 2 {
                missed.push(self.examine(condition, &others, false).await?);
                continue;
            }
            for side in &sides {
                if !self.is_served(side).await? {
                    missed.push(self.examine(side, &[], true).await?);
                }
            }
        }
        if !self.scan.sort_keys.is_empty()
            && let Some(order) = self.examine_order().await?
        {
            missed.push(order);
        }
        Ok(missed)
    }

    /// Whether an index of the table serves a condition without the others.
    async fn is_served(&self, condition: &Condition) -> Result<bool, Error> {
        for index in &self.facts.indexes {
            if self.holds(&index.clause, Question::Find(&[condition.sql.text()])).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn examine(&mut self, condition: &Condition, others: &[&str], side_of_or: bool) -> Result<Missed, Error> {
        let mut near = Vec::new();
        for index in &self.facts.indexes {
            if let Some(mismatch) = self.compare(condition, index, others).await? {
                near.push(mismatch);
            }
        }
        if near.iter().any(|mismatch| mismatch.rewrite.is_some()) {
            near.retain(|mismatch| mismatch.rewrite.is_some());
        }
        let conditions = [&[condition.sql.text()], others].concat();
        let new_index = self.new_index(&new_indexes(condition), &conditions).await?;
        Ok(Missed { condition: self.scope.shown(&condition.sql), side_of_or, near, new_index })
    }

    /// The first clause that serves the conditions.
    async fn new_index(&self, clauses: &[String], conditions: &[&str]) -> Result<NewIndex, Error> {
        let mut first_refused = NewIndex::Unknown;
        for (n, clause) in clauses.iter().enumerate() {
            match self.ask(clause, Question::Find(conditions)).await? {
                None | Some(Answer::Used) => return Ok(NewIndex::Clause(clause.clone())),
                // The simplest clause is refused because of the condition, later ones because of the clause itself.
                Some(Answer::Refused(message)) if n == 0 => first_refused = NewIndex::Refused(message),
                Some(_) => {}
            }
        }
        Ok(first_refused)
    }

    /// Why an index is not used, if it has to do with the condition.
    async fn compare(
        &mut self,
        condition: &Condition,
        index: &Definition,
        others: &[&str],
    ) -> Result<Option<Mismatch>, Error> {
        let missing_value = self.scope.stand_in("..");
        let compares_columns = condition.right.as_ref().is_some_and(|right| self.scope.is_about(right));
        let pair = Pair { condition, index, compares_columns, missing_value: &missing_value };
        let mut certain = None;
        for kind in KINDS {
            let Some(suspicion) = (kind.suspect)(&pair) else { continue };
            let mismatch = |rewrite| Mismatch {
                kind: kind.name,
                index: index.name.clone(),
                reason: suspicion.reason.clone(),
                rewrite,
            };
            if let Some(sql) = self.proven(&suspicion, index, others).await? {
                let sql = self.scope.shown(&Sql::new(&sql));
                return Ok(Some(mismatch(Some(Rewrite { sql, caution: suspicion.caution }))));
            }
            if suspicion.certain && certain.is_none() {
                certain = Some(mismatch(None));
            }
        }
        Ok(certain)
    }

    /// The first rewritten condition that uses the index.
    async fn proven(
        &self,
        suspicion: &Suspicion,
        index: &Definition,
        others: &[&str],
    ) -> Result<Option<String>, Error> {
        // Test exactly what the report shows.
        for rewrite in suspicion.rewrites.iter().map(|rewrite| Sql::new(rewrite).tidy().text().to_owned()) {
            let narrowed =
                index.predicate.as_ref().map(|predicate| format!("{rewrite} and ({})", predicate.tidy().text()));
            for sql in std::iter::once(rewrite).chain(narrowed) {
                if self.holds(&index.clause, Question::Find(&[&[sql.as_str()], others].concat())).await? {
                    return Ok(Some(sql));
                }
            }
        }
        Ok(None)
    }

    /// Whether an index serves a question. Assumed to be true if it cannot be tested.
    async fn holds(&self, clause: &str, question: Question<'_>) -> Result<bool, Error> {
        Ok(matches!(self.ask(clause, question).await?, None | Some(Answer::Used)))
    }

    async fn ask(&self, clause: &str, question: Question<'_>) -> Result<Option<Answer>, Error> {
        match self.probe {
            Some(probe) => probe.ask(clause, question).await.map(Some),
            None => Ok(None),
        }
    }

    /// The order into which the rows are sorted, if only this table's columns define it.
    async fn examine_order(&mut self) -> Result<Option<Missed>, Error> {
        let mut keys = Vec::new();
        for text in &self.scan.sort_keys {
            let (expression, direction) = direction(text);
            let Some(own) = self.scope.own_sql(&Sql::new(expression)) else { return Ok(None) };
            keys.push((own.bare().tidy(), direction));
        }
        let spelled = |(key, direction): &(Sql, &str)| format!("({}){}", key.text(), direction.to_lowercase());
        let wanted = keys.iter().map(spelled).collect::<Vec<_>>().join(", ");
        let mut near = Vec::new();
        for index in self.facts.indexes.iter().filter(|index| index.is_ordered() && index.keys.len() >= keys.len()) {
            let is_same = index.keys.iter().zip(&keys).all(|(held, (key, _))| held.expression.tidy().same(key));
            let order = index.order(keys.len());
            if is_same && self.holds(&index.clause, Question::Order(&order)).await? {
                near.push(Mismatch {
                    kind: "order",
                    index: index.name.clone(),
                    reason: "the index holds the same values in another order, nulls included".into(),
                    rewrite: Some(Rewrite { sql: format!("order by {order}"), caution: Some("gives another order") }),
                });
            }
        }
        let clause = format!("({wanted})");
        let new_index = match self.holds(&clause, Question::Order(&wanted)).await? {
            true => NewIndex::Clause(clause),
            false => NewIndex::Unknown,
        };
        let shown =
            keys.iter().map(|(key, direction)| format!("{}{}", self.scope.shown(key), direction.to_lowercase()));
        let condition = format!("order by {}", shown.collect::<Vec<_>>().join(", "));
        Ok(Some(Missed { condition, side_of_or: false, near, new_index }))
    }
}

/// Splits a sort key of a plan into its expression and its direction, such as ` DESC NULLS LAST`.
pub(super) fn direction(text: &str) -> (&str, &str) {
    let mut rest = text.trim_end();
    for suffix in [" NULLS FIRST", " NULLS LAST", " DESC"] {
        rest = rest.strip_suffix(suffix).unwrap_or(rest);
    }
    (rest, &text[rest.len()..])
}

#[cfg(test)]
mod tests {
    use super::direction;

    #[test]
    fn a_sort_key_has_a_direction() {
        assert_eq!(direction("g.a"), ("g.a", ""));
        assert_eq!(direction("lower(g.a) DESC NULLS LAST"), ("lower(g.a)", " DESC NULLS LAST"));
        assert_eq!(direction("g.a NULLS FIRST"), ("g.a", " NULLS FIRST"));
    }
}
