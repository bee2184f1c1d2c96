//! A plan as `explain (format json, verbose)` prints it, and the scans in it.

use serde::Deserialize;

/// A node of a plan.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Node {
    #[serde(rename = "Node Type")]
    pub(super) kind: String,
    #[serde(rename = "Parent Relationship")]
    relationship: Option<String>,
    #[serde(rename = "Schema")]
    schema: Option<String>,
    #[serde(rename = "Relation Name")]
    relation: Option<String>,
    #[serde(rename = "Alias")]
    alias: Option<String>,
    #[serde(rename = "Index Name")]
    index: Option<String>,
    #[serde(rename = "Index Cond")]
    index_condition: Option<String>,
    #[serde(rename = "Order By")]
    distance: Option<String>,
    #[serde(rename = "Filter")]
    filter: Option<String>,
    #[serde(rename = "Hash Cond")]
    hash_condition: Option<String>,
    #[serde(rename = "Merge Cond")]
    merge_condition: Option<String>,
    #[serde(rename = "Join Filter")]
    join_filter: Option<String>,
    #[serde(rename = "Join Type")]
    join: Option<String>,
    #[serde(rename = "Sort Key", default)]
    sort_keys: Vec<String>,
    #[serde(rename = "Total Cost", default)]
    pub(super) cost: f64,
    #[serde(rename = "Plan Rows", default)]
    returned: f64,
    #[serde(rename = "Plans", default)]
    children: Vec<Node>,
}

#[derive(Deserialize)]
struct Explained {
    #[serde(rename = "Plan")]
    plan: Node,
}

/// A table read in a plan.
#[derive(Debug, Clone, Default)]
pub(super) struct Scan {
    pub(super) schema: String,
    pub(super) relation: String,
    /// The name that conditions use for it, unique in the plan.
    pub(super) alias: String,
    /// Names of the tables that are read together with it, its own included.
    pub(super) aliases: Vec<String>,
    /// The condition that is checked on each row.
    pub(super) filter: Option<String>,
    /// The indexes that it uses.
    pub(super) uses: Vec<Use>,
    /// Conditions of the joins that it is part of.
    pub(super) joins: Vec<String>,
    /// The order into which its rows are sorted, if they are.
    pub(super) sort_keys: Vec<String>,
    /// It follows an index row by row, until the query has as many rows as its limit.
    pub(super) is_ordered: bool,
    /// It reads the whole table.
    pub(super) is_whole: bool,
    /// What it costs, as the planner estimates.
    pub(super) cost: f64,
    /// Rows that it hands on, as the planner estimates.
    pub(super) returned: f64,
}

/// An index in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) index: String,
    /// What it looks up; `None` if the whole index is read.
    pub(super) condition: Option<String>,
    /// It returns the nearest rows first.
    pub(super) by_distance: bool,
}

/// What a node passes down to the scans below it.
#[derive(Debug, Clone, Default)]
struct Above {
    aliases: Vec<String>,
    joins: Vec<String>,
    sort_keys: Vec<String>,
    /// A limit ends it early.
    is_limited: bool,
}

/// Nodes that hand rows on as they come, so that a limit above them ends what is below.
const STREAMS: &[&str] = &[
    "Append",
    "Gather",
    "Gather Merge",
    "Incremental Sort",
    "LockRows",
    "Merge Append",
    "Nested Loop",
    "Result",
    "Subquery Scan",
];

impl Node {
    /// Reads the server's answer.
    pub(super) fn read(json: &str) -> Result<Self, serde_json::Error> {
        let mut explained: Vec<Explained> = serde_json::from_str(json)?;
        let first = explained.pop();
        first.map(|one| one.plan).ok_or_else(|| serde::de::Error::custom("no plan"))
    }

    /// Whether this node or one below it is of a kind.
    pub(super) fn any(&self, kind: &str) -> bool {
        self.kind == kind || self.children.iter().any(|child| child.any(kind))
    }

    /// How many nodes sort.
    pub(super) fn sorts(&self) -> usize {
        let own = usize::from(self.kind.ends_with("Sort"));
        own + self.children.iter().map(Node::sorts).sum::<usize>()
    }

    /// Every table read.
    pub(super) fn scans(&self) -> Vec<Scan> {
        let mut found = Vec::new();
        self.collect(&Above::default(), &mut found);
        found
    }

    fn collect(&self, above: &Above, found: &mut Vec<Scan>) {
        if let (Some(schema), Some(relation), Some(alias)) = (&self.schema, &self.relation, &self.alias) {
            let aliases = if above.aliases.is_empty() { vec![alias.clone()] } else { above.aliases.clone() };
            let mut uses = Vec::new();
            self.uses(&mut uses);
            found.push(Scan {
                schema: schema.clone(),
                relation: relation.clone(),
                alias: alias.clone(),
                aliases,
                filter: self.filter.clone(),
                uses,
                joins: above.joins.clone(),
                sort_keys: above.sort_keys.clone(),
                is_ordered: above.is_limited && matches!(self.kind.as_str(), "Index Scan" | "Index Only Scan"),
                is_whole: self.kind == "Seq Scan",
                cost: self.cost,
                returned: self.returned,
            });
        }
        let mut below = above.clone();
        match self.kind.as_str() {
            "Append" | "Merge Append" => {
                below.aliases = self.children.iter().filter_map(Node::scanned_as).collect();
            }
            "Aggregate" | "WindowAgg" => below.sort_keys.clear(),
            "Sort" | "Incremental Sort" => below.sort_keys.clone_from(&self.sort_keys),
            _ => {}
        }
        if self.join.is_some() {
            below.sort_keys.clear();
            below.aliases.clear();
        }
        below
            .joins
            .extend([&self.hash_condition, &self.merge_condition, &self.join_filter].into_iter().flatten().cloned());
        let kind = self.kind.as_str();
        let is_limited = kind == "Limit" || (above.is_limited && STREAMS.contains(&kind));
        for child in &self.children {
            // The inner side of a join, and a subquery that gives one value, are not ended.
            let outer = ["Outer", "Member", "Subquery"];
            let is_outer = child.relationship.as_deref().is_none_or(|one| outer.contains(&one));
            child.collect(&Above { is_limited: is_limited && is_outer, ..below.clone() }, found);
        }
    }

    /// The alias of the table that a part of an `Append` reads.
    fn scanned_as(&self) -> Option<String> {
        self.alias.clone().or_else(|| self.children.first().and_then(Node::scanned_as))
    }

    /// The indexes of one scan: its own, or those of the bitmap scans below it.
    fn uses(&self, found: &mut Vec<Use>) {
        if let Some(index) = &self.index {
            found.push(Use {
                index: index.clone(),
                condition: self.index_condition.clone(),
                by_distance: self.distance.is_some(),
            });
        }
        for child in self.children.iter().filter(|child| child.kind.starts_with("Bitmap")) {
            child.uses(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"[{"Plan": {"Node Type": "Sort", "Sort Key": ["g.x DESC"], "Plans": [
        {"Node Type": "Append", "Plans": [
            {"Node Type": "Bitmap Heap Scan", "Schema": "s", "Relation Name": "g_1", "Alias": "g_1",
             "Filter": "(g_1.a = 1)", "Plans": [
                {"Node Type": "BitmapOr", "Plans": [
                    {"Node Type": "Bitmap Index Scan", "Index Name": "i", "Index Cond": "(g_1.b = 1)"},
                    {"Node Type": "Bitmap Index Scan", "Index Name": "j", "Index Cond": "(g_1.c = 1)"}]}]},
            {"Node Type": "Seq Scan", "Schema": "s", "Relation Name": "g_2", "Alias": "g_2"}]}]}}]"#;

    #[test]
    fn scans_are_found_with_their_indexes_and_sorts() {
        let plan = Node::read(PLAN).unwrap();
        assert!(plan.any("BitmapOr") && !plan.any("ModifyTable"));
        assert_eq!(plan.sorts(), 1);
        let scans = plan.scans();
        assert_eq!(scans.len(), 2);
        let names: Vec<&str> = scans[0].uses.iter().map(|one| one.index.as_str()).collect();
        assert_eq!((names, scans[0].aliases.len()), (vec!["i", "j"], 2));
        assert_eq!(scans[0].filter.as_deref(), Some("(g_1.a = 1)"));
        assert!(scans[1].uses.is_empty() && scans[1].sort_keys == ["g.x DESC"]);
        assert!(Node::read("[]").is_err() && Node::read("{").is_err());
    }

    #[test]
    fn only_a_scan_that_a_limit_ends_is_an_ordered_one() {
        let index = |alias: &str, relationship: &str| {
            format!(
                r#"{{"Node Type": "Index Scan", "Parent Relationship": "{relationship}", "Schema": "s",
                "Relation Name": "t", "Alias": "{alias}", "Index Name": "i"}}"#
            )
        };
        let below = |kinds: &[&str], plan: &str| {
            let around = |plan: String, kind: &&str| {
                format!(r#"{{"Node Type": "{kind}", "Parent Relationship": "Outer", "Plans": [{plan}]}}"#)
            };
            let plan = kinds.iter().rev().fold(plan.to_owned(), around);
            let scans = Node::read(&format!(r#"[{{"Plan": {plan}}}]"#)).unwrap().scans();
            scans.into_iter().filter(|scan| scan.is_ordered).map(|scan| scan.alias).collect::<Vec<_>>()
        };
        let one = index("a", "Outer");
        assert_eq!(below(&["Limit"], &one), ["a"]);
        assert_eq!(below(&["Limit", "LockRows", "Incremental Sort"], &one), ["a"]);
        assert_eq!(below(&["Limit", "Sort"], &one), [""; 0]);
        assert_eq!(below(&["Aggregate"], &one), [""; 0]);
        let both = format!("{}, {}, {}", index("plan", "InitPlan"), index("outer", "Outer"), index("inner", "Inner"));
        assert_eq!(below(&["Limit", "Nested Loop"], &both), ["outer"]);
        assert_eq!(below(&["Limit", "Hash Join"], &both), [""; 0]);
    }
}
