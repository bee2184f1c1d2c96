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
    pub(super) returned: f64,
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
    /// The joins that it is part of, the outermost first.
    pub(super) joins: Vec<Join>,
    /// The order into which its rows are sorted, if they are.
    pub(super) sort_keys: Vec<String>,
    /// What the sort costs with all below it, and how many rows of it a limit takes. `None` if no limit does.
    pub(super) first: Option<First>,
    /// It follows an index row by row, until the query has as many rows as its limit: so many. `None` if it does not.
    pub(super) limit: Option<f64>,
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

/// A join above a scan, seen from the side of the scan.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Join {
    /// Its conditions.
    pub(super) conditions: Vec<String>,
    /// Rows of the other side, as the planner estimates.
    pub(super) rows: f64,
    /// What it costs without the other side. If it reads the scan's side for each row of the other side, this is in it.
    pub(super) cost: f64,
    /// What it costs to read the scan's side once.
    pub(super) side_cost: f64,
}

/// A sort of which a limit takes the first rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct First {
    /// So many.
    pub(super) rows: f64,
    /// What the sort costs, with all below it.
    pub(super) cost: f64,
}

/// What a node passes down to the scans below it.
#[derive(Debug, Clone, Default)]
struct Above {
    aliases: Vec<String>,
    joins: Vec<Join>,
    sort_keys: Vec<String>,
    first: Option<First>,
    /// Rows that the limit takes that ends it early.
    limit: Option<f64>,
}

impl Above {
    fn unsorted(&mut self) {
        self.sort_keys.clear();
        self.first = None;
    }
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
                first: above.first,
                limit: above.limit.filter(|_| matches!(self.kind.as_str(), "Index Scan" | "Index Only Scan")),
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
            // What is joined above them is no single row of the table.
            "Aggregate" | "Group" | "SetOp" | "Unique" | "WindowAgg" => {
                below.unsorted();
                below.joins.clear();
            }
            "Limit" => below.joins.clear(),
            "Sort" | "Incremental Sort" => {
                below.sort_keys.clone_from(&self.sort_keys);
                below.first = above.limit.map(|rows| First { rows, cost: self.cost });
            }
            _ => {}
        }
        if self.join.is_some() {
            below.unsorted();
            below.aliases.clear();
        }
        let kind = self.kind.as_str();
        let limit = if kind == "Limit" { Some(self.returned) } else { above.limit.filter(|_| STREAMS.contains(&kind)) };
        for child in &self.children {
            // The inner side of a join, and a subquery that gives one value, are not ended.
            let outer = ["Outer", "Member", "Subquery"];
            let is_outer = child.relationship.as_deref().is_none_or(|one| outer.contains(&one));
            let joins = below.joins.iter().cloned().chain(self.join_of(child)).collect();
            child.collect(&Above { limit: limit.filter(|_| is_outer), joins, ..below.clone() }, found);
        }
    }

    /// This join, seen from one side of it.
    fn join_of(&self, side: &Node) -> Option<Join> {
        let conditions: Vec<String> =
            [&self.hash_condition, &self.merge_condition, &self.join_filter].into_iter().flatten().cloned().collect();
        let is_side = |node: &&Node| node.is("Outer") || node.is("Inner");
        let mut sides = self.children.iter().filter(is_side);
        let other = sides.find(|node| !std::ptr::eq(*node, side)).filter(|_| is_side(&side))?;
        // The inner side of a nested loop may need values of the outer side, unless it is kept.
        let is_alone = self.kind != "Nested Loop" || side.is("Inner") || other.kind == "Materialize";
        // An outer join wants all rows of one side, so that no look-ups find them.
        let is_found = match self.join.as_deref() {
            Some("Inner" | "Semi" | "Right Semi") => true,
            Some("Left" | "Anti") => side.is("Inner"),
            Some("Right" | "Right Anti") => side.is("Outer"),
            _ => false,
        };
        (is_alone && is_found && !conditions.is_empty()).then(|| Join {
            conditions,
            rows: other.returned,
            cost: self.cost - other.cost,
            side_cost: side.source().cost,
        })
    }

    /// Whether it is this side of the node above it.
    fn is(&self, relationship: &str) -> bool {
        self.relationship.as_deref() == Some(relationship)
    }

    /// The first node that makes rows, and does not only keep or sort those of another.
    fn source(&self) -> &Node {
        match (self.kind.as_str(), self.children.as_slice()) {
            ("Gather" | "Gather Merge" | "Hash" | "Incremental Sort" | "Materialize" | "Memoize" | "Sort", [only]) => {
                only.source()
            }
            _ => self,
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
    fn a_join_says_how_often_its_other_side_asks() {
        let plan = |kind: &str, join: &str, other: &str| {
            let json = format!(
                r#"[{{"Plan": {{"Node Type": "{kind}", "Join Type": "{join}", "Join Filter": "(a.x = b.x)", "Total Cost": 90,
                "Plans": [
                {{"Node Type": "Seq Scan", "Parent Relationship": "Outer", "Schema": "s", "Relation Name": "a", "Alias": "a",
                "Total Cost": 50}},
                {{"Node Type": "{other}", "Parent Relationship": "Inner", "Total Cost": 20, "Plan Rows": 7, "Plans": [
                {{"Node Type": "Seq Scan", "Parent Relationship": "Outer", "Schema": "s", "Relation Name": "b", "Alias": "b",
                "Total Cost": 10}}]}},
                {{"Node Type": "Seq Scan", "Parent Relationship": "SubPlan", "Schema": "s", "Relation Name": "c",
                "Alias": "c"}}]}}}}]"#
            );
            let joins = |scan: Scan| scan.joins.iter().map(|join| (join.rows, join.cost, join.side_cost)).collect();
            Node::read(&json).unwrap().scans().into_iter().map(joins).collect::<Vec<Vec<_>>>()
        };
        let both = [vec![(7.0, 70.0, 50.0)], vec![(0.0, 40.0, 10.0)], vec![]];
        assert_eq!(plan("Hash Join", "Inner", "Hash"), both);
        assert_eq!(plan("Nested Loop", "Inner", "Materialize"), both);
        assert_eq!(plan("Nested Loop", "Inner", "Subquery Scan")[0], [], "it may need values of the other side");
        assert_eq!(plan("Hash Join", "Inner", "Aggregate")[1], [], "a group is no row");
        let none = Vec::new();
        assert_eq!(plan("Hash Join", "Left", "Hash"), [none.clone(), both[1].clone(), none.clone()]);
        assert_eq!(plan("Hash Join", "Right", "Hash"), [both[0].clone(), none.clone(), none]);
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
            scans.into_iter().filter(|scan| scan.limit.is_some()).map(|scan| scan.alias).collect::<Vec<_>>()
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
