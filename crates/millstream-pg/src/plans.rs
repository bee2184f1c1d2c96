//! Plans that find rows by key, whatever the statistics, the role and the database say.
//!
//! Statistics can be wrong by any factor. If vacuum sees a table while all of its rows are dead or not committed yet,
//! the planner expects one row in any number of pages. A join of a batch with that table is then planned as a loop over
//! the whole table for each row of the batch. So our statements leave the planner one way: [`by_key`] makes a join that
//! no other plan fits, and [`plans_by_key`] turns off what reads a whole table.

/// What a plan depends on besides the statistics, with PostgreSQL's own defaults: which plans may be used, and what they
/// cost.
pub(crate) const PLANNER: &[(&str, &str)] = &[
    ("enable_seqscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_bitmapscan", "on"),
    ("enable_tidscan", "on"),
    ("enable_nestloop", "on"),
    ("enable_hashjoin", "on"),
    ("enable_mergejoin", "on"),
    ("enable_material", "on"),
    ("enable_memoize", "on"),
    ("enable_sort", "on"),
    ("enable_incremental_sort", "on"),
    ("enable_hashagg", "on"),
    ("enable_partition_pruning", "on"),
    ("constraint_exclusion", "partition"),
    ("seq_page_cost", "1"),
    ("random_page_cost", "4"),
    ("cpu_tuple_cost", "0.01"),
    ("cpu_index_tuple_cost", "0.005"),
    ("cpu_operator_cost", "0.0025"),
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("effective_cache_size", "4GB"),
    ("from_collapse_limit", "8"),
    ("join_collapse_limit", "8"),
];

/// Plans that read a table in another way than by its key's index, row after row. If a join needs nothing but the key, a
/// scan of the whole index for each row would be an index-only scan.
pub(crate) const NOT_BY_KEY: &[&str] = &[
    "enable_seqscan",
    "enable_bitmapscan",
    "enable_indexonlyscan",
    "enable_hashjoin",
    "enable_mergejoin",
    "enable_material",
    "enable_memoize",
];

/// Statements that make the planner look rows up by key, for the rest of the transaction or until [`own_plans`].
pub fn plans_by_key() -> String {
    let fixed = PLANNER.iter().map(|(name, value)| format!("set local {name} = '{value}';\n"));
    fixed.chain(NOT_BY_KEY.iter().map(|name| format!("set local {name} = off;\n"))).collect()
}

/// Statements that end [`plans_by_key`]: the planner has the settings of the session's beginning again.
pub fn own_plans() -> String {
    PLANNER.iter().map(|(name, _)| format!("reset {name};\n")).collect()
}

/// A condition that joins the row `stored` with the row `new` by these quoted columns of `stored`'s unique key.
///
/// It is written with `any` because the planner treats such a condition as a look-up only. For `=` it also considers
/// reading the key's index from end to end, as a merge join would, and chooses it if it expects few rows. The operator
/// is PostgreSQL's own: a type such as varchar has none, so the search path would decide.
pub fn by_key(stored: &str, new: &str, key: &[String]) -> String {
    let columns =
        key.iter().map(|column| format!("{stored}.{column} operator(pg_catalog.=) any (array[{new}.{column}])"));
    columns.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_by_key_has_a_default() {
        assert!(NOT_BY_KEY.iter().all(|off| PLANNER.contains(&(off, "on"))));
    }

    #[test]
    fn every_column_of_the_key_is_looked_up() {
        let key = ["\"a\"".to_owned(), "\"b\"".to_owned()];
        let expected = "s.\"a\" operator(pg_catalog.=) any (array[n.\"a\"]) and \
                        s.\"b\" operator(pg_catalog.=) any (array[n.\"b\"])";
        assert_eq!(by_key("s", "n", &key), expected);
    }
}
