//! Why one reading of a table uses none of its indexes.

use super::condition::{Condition, Scope};
use super::definition::Definition;
use super::finding::{Mismatch, Missed, NewIndex, Rewrite};
use super::mismatch::{KINDS, Pair, Suspicion, new_indexes};
use super::plan::Scan;
use super::probe::{Answer, Probe, Question};
use super::sql::Sql;
use super::weight::Weight;
use super::{ExaminedTable, Facts};
use crate::limits::EXPLAINED_CONDITIONS_MAX;
use millstream_pg::Error;
use std::collections::BTreeSet;

/// One reading of the table that no index serves.
pub(super) struct Examination<'a> {
    facts: &'a Facts,
    /// Where suspicions are tested, if the server and the role allow it.
    probe: Option<&'a Probe<'a>>,
    scope: Scope<'a>,
    scan: &'a Scan,
    /// The query reads the table only once, so the conditions of joins belong to this reading.
    alone: bool,
    /// The query and its cost, if only what makes it cheaper is wanted.
    weighed: Option<(&'a str, f64)>,
    /// Names of indexes that find the rows of a condition as it is. The planner has passed them by for their cost.
    fitting: BTreeSet<String>,
}

/// A condition, and what it costs to check it row by row.
struct Asked<'a> {
    condition: Condition,
    weight: Option<Weight<'a>>,
}

impl<'a> Examination<'a> {
    pub(super) fn new(
        examined: &'a ExaminedTable,
        facts: &'a Facts,
        probe: Option<&'a Probe<'a>>,
        scan: &'a Scan,
        all: &'a [Scan],
        weighed: Option<(&'a str, f64)>,
    ) -> Self {
        let scope = Scope::new(&facts.columns, examined.hidden_column.as_deref(), scan, all);
        let is_own = |other: &&Scan| other.schema == examined.schema && other.relation == examined.table;
        let alone = all.iter().filter(is_own).count() == 1;
        Self { facts, probe, scope, scan, alone, weighed, fitting: BTreeSet::new() }
    }

    /// The conditions that it checks row by row and that no index finds as they are, and the order into which it sorts; and the
    /// names of the indexes that do find some of its conditions.
    pub(super) async fn missed(mut self) -> Result<(Vec<Missed>, BTreeSet<String>), Error> {
        let asked = self.asked();
        let mut served = vec![false; asked.len()];
        for (n, one) in asked.iter().enumerate() {
            let serving = self.serving(&one.condition).await?;
            served[n] = !serving.is_empty();
            self.fitting.extend(serving);
        }
        let mut missed = Vec::new();
        for (n, one) in asked.iter().enumerate().filter(|(n, _)| !served[*n]) {
            let others = asked.iter().enumerate().filter(|(other, _)| *other != n);
            let others: Vec<&str> = others.map(|(_, other)| other.condition.sql.text()).collect();
            let sides = self.scope.sides(&one.condition);
            if sides.len() < 2 {
                missed.push(self.examine(one, &others, false).await?);
                continue;
            }
            let (mut left, mut serving_sides) = (Vec::new(), Vec::new());
            for side in sides {
                let serving = self.serving(&side).await?;
                if serving.is_empty() {
                    left.push(side);
                }
                serving_sides.extend(serving);
            }
            if left.is_empty() {
                self.fitting.extend(serving_sides);
            }
            for condition in left {
                let side = Asked { condition, weight: one.weight };
                missed.push(self.examine(&side, &[], true).await?);
            }
        }
        if !self.scan.sort_keys.is_empty()
            && let Some(order) = self.examine_order().await?
        {
            missed.push(order);
        }
        Ok((missed, self.fitting))
    }

    /// The conditions of the reading.
    fn asked(&mut self) -> Vec<Asked<'a>> {
        let (scan, alone) = (self.scan, self.alone);
        let mut asked = Vec::new();
        // If a whole index is read, its condition is checked on each of its rows, too.
        let looked_up = scan.uses.iter().filter_map(|one| one.condition.as_ref());
        let weight = self.weight(scan.cost, 1.0, 1.0);
        for text in scan.filter.iter().chain(looked_up) {
            asked.extend(self.scope.conditions(text).into_iter().map(|condition| Asked { condition, weight }));
        }
        for join in scan.joins.iter().filter(|_| alone) {
            let weight = self.weight(join.cost, join.rows.max(1.0), 1.0);
            for text in &join.conditions {
                asked.extend(self.scope.conditions(text).into_iter().map(|condition| Asked { condition, weight }));
            }
        }
        asked.truncate(EXPLAINED_CONDITIONS_MAX);
        asked
    }

    /// What an index must make cheaper, if that matters: a part of the plan that costs so much.
    fn weight(&self, part: f64, lookups: f64, share: f64) -> Option<Weight<'a>> {
        let of = |(query, whole): (&'a str, f64)| Weight { query, whole, part: part.min(whole), lookups, share };
        self.weighed.map(of)
    }

    /// The names of indexes that find the rows of a condition as it is, without the others.
    async fn serving(&self, condition: &Condition) -> Result<Vec<String>, Error> {
        let names: BTreeSet<String> = condition.sql.names().collect();
        let mut serving = Vec::new();
        for index in &self.facts.indexes {
            let shares_a_name = Sql::new(&index.clause).names().any(|name| names.contains(&name));
            if shares_a_name && self.fits(condition, index).await? {
                serving.push(index.name.clone());
            }
        }
        Ok(serving)
    }

    /// Whether an index finds the rows of a condition as it is. If that cannot be tested, the catalog answers.
    async fn fits(&self, condition: &Condition, index: &Definition) -> Result<bool, Error> {
        let answer = self.ask(&index.clause, Question::Find(&[condition.sql.text()])).await?;
        Ok(match answer {
            Some(answer) => answer == Answer::Used,
            None => self.pair(condition, index, "").is_served(),
        })
    }

    fn pair<'p>(&self, condition: &'p Condition, index: &'p Definition, missing_value: &'p str) -> Pair<'p> {
        let compares_columns = condition.right.as_ref().is_some_and(|right| self.scope.is_about(right));
        Pair { condition, index, compares_columns, missing_value }
    }

    async fn examine(&mut self, asked: &Asked<'a>, others: &[&str], side_of_or: bool) -> Result<Missed, Error> {
        let (facts, condition) = (self.facts, &asked.condition);
        let mut near = Vec::new();
        for index in facts.indexes.iter().filter(|index| !self.fitting.contains(&index.name)).collect::<Vec<_>>() {
            if let Some(mismatch) = self.compare(asked, index, others).await? {
                near.push(mismatch);
            }
        }
        if near.iter().any(|mismatch| mismatch.rewrite.is_some()) {
            near.retain(|mismatch| mismatch.rewrite.is_some());
        }
        let new_index = self.new_index(&new_indexes(condition), asked).await?;
        // If most rows fulfil the condition, no index is missed.
        let is_repaired = matches!(new_index, NewIndex::Clause(_)) || near.iter().any(|one| one.rewrite.is_some());
        if !is_repaired
            && !near.is_empty()
            && let Some((weight, probe)) = asked.weight.as_ref().zip(self.probe)
            && !probe.would_pay(condition.sql.text(), weight).await?
        {
            near.clear();
        }
        Ok(Missed { condition: self.scope.shown(&condition.sql), side_of_or, near, new_index })
    }

    /// The first clause that finds the rows of the condition, if that pays.
    async fn new_index(&self, clauses: &[String], asked: &Asked<'_>) -> Result<NewIndex, Error> {
        let condition = asked.condition.sql.text();
        let mut first_refused = NewIndex::Unknown;
        for (n, clause) in clauses.iter().enumerate() {
            match self.ask(clause, Question::Find(&[condition])).await? {
                None | Some(Answer::Used) => {
                    let pays = self.pays_as_new(clause, condition, asked.weight.as_ref()).await?;
                    return Ok(if pays { NewIndex::Clause(clause.clone()) } else { NewIndex::Unknown });
                }
                // The simplest clause is refused because of the condition, later ones because of the clause itself.
                Some(Answer::Refused(message)) if n == 0 => first_refused = NewIndex::Refused(message),
                Some(_) => {}
            }
        }
        Ok(first_refused)
    }

    /// Whether a new index makes the query cheaper, if that matters. What cannot be tried does not.
    async fn pays_as_new(&self, clause: &str, condition: &str, weight: Option<&Weight<'_>>) -> Result<bool, Error> {
        match (weight, self.probe) {
            (None, _) => Ok(true),
            (Some(_), None) => Ok(false),
            (Some(weight), Some(probe)) => probe.pays_as_new(clause, condition, weight).await,
        }
    }

    /// Why an index is not used, if it has to do with the condition.
    async fn compare(
        &mut self,
        asked: &Asked<'_>,
        index: &Definition,
        others: &[&str],
    ) -> Result<Option<Mismatch>, Error> {
        let missing_value = self.scope.stand_in("..");
        let pair = self.pair(&asked.condition, index, &missing_value);
        let mut certain = None;
        for kind in KINDS {
            let Some(suspicion) = (kind.suspect)(&pair) else { continue };
            let mismatch = |rewrite| Mismatch {
                kind: kind.name,
                index: index.name.clone(),
                reason: suspicion.reason.clone(),
                rewrite,
            };
            if let Some(sql) = self.proven(&suspicion, index, others, asked.weight.as_ref()).await? {
                let sql = self.scope.shown(&Sql::new(&sql));
                return Ok(Some(mismatch(Some(Rewrite { sql, caution: suspicion.caution }))));
            }
            if suspicion.certain && certain.is_none() {
                certain = Some(mismatch(None));
            }
        }
        Ok(certain)
    }

    /// The first rewritten condition that uses the index, and that pays.
    async fn proven(
        &self,
        suspicion: &Suspicion,
        index: &Definition,
        others: &[&str],
        weight: Option<&Weight<'_>>,
    ) -> Result<Option<String>, Error> {
        // Test exactly what the report shows.
        for rewrite in suspicion.rewrites.iter().map(|rewrite| Sql::new(rewrite).tidy().text().to_owned()) {
            let conditions = [&[rewrite.as_str()], others].concat();
            if self.holds(&index.clause, Question::Find(&conditions)).await?
                && self.pays(index, &conditions, weight).await?
            {
                return Ok(Some(rewrite));
            }
        }
        Ok(None)
    }

    /// Whether an index of the table makes the query cheaper, if that matters. Assumed to be true if it cannot be tested.
    async fn pays(&self, index: &Definition, conditions: &[&str], weight: Option<&Weight<'_>>) -> Result<bool, Error> {
        match weight.zip(self.probe) {
            Some((weight, probe)) => probe.pays(index, conditions, weight).await,
            None => Ok(true),
        }
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
        let weight = match self.scan.first {
            Some(first) => self.weight(first.cost, 1.0, (first.rows / self.scan.returned.max(1.0)).min(1.0)),
            None => self.weight(f64::INFINITY, 1.0, 1.0),
        };
        // In its order, an index is read from the beginning.
        if let Some((weight, probe)) = weight.as_ref().zip(self.probe)
            && !probe.would_pay("true", weight).await?
        {
            return Ok(None);
        }
        let mut near = Vec::new();
        for index in self.facts.indexes.iter().filter(|index| index.is_ordered() && index.keys.len() >= keys.len()) {
            let is_same = index.keys.iter().zip(&keys).all(|(held, (key, _))| held.expression.tidy().same(key));
            let order = index.order(keys.len());
            if is_same && self.holds(&index.clause, Question::Order(&wanted)).await? {
                // The planner has passed it by.
                return Ok(None);
            }
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
        let gives_order = self.holds(&clause, Question::Order(&wanted)).await?;
        // The index finds nothing: it holds all rows in their order.
        let new_index = match gives_order && self.pays_as_new(&clause, "true", weight.as_ref()).await? {
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
