//! What the statements of a load are made of: names in SQL, and what its mode and its table make of an upsert.

use crate::plan::LoadPlan;
use millstream_pg::{by_key, quote_identifier, quote_literal, quote_name};

/// A load as its statements see it. Names are quoted.
pub(super) struct Names<'a> {
    pub(super) plan: &'a LoadPlan,
    pub(super) table: String,
    /// The key's columns.
    pub(super) keys: Vec<String>,
    /// The same with commas between them.
    pub(super) key: String,
    /// The condition that a row of `stored` and a row of `staged` have the same key.
    pub(super) join: String,
    /// What an upsert does to a stored row.
    pub(super) action: String,
    /// How an upsert recognises the rows that it inserted.
    pub(super) inserted: &'static str,
}

/// Staged rows that are written together.
#[derive(Clone, Copy)]
pub(super) struct Staged<'a> {
    /// The staging table.
    pub(super) table: &'a str,
    /// The condition of the rows.
    pub(super) run: &'a str,
    /// Whether the statement that writes them notes their keys.
    pub(super) notes: bool,
}

/// All rows of a lane's staging table.
pub(super) const STAGED: Staged<'_> = Staged { table: "pg_temp.millstream_stage", run: "true", notes: false };

/// The SQLSTATE by which a statement reports that a trigger or rule dropped a row. No server uses it.
pub(super) const DROPPED: &str = "MS001";

/// The xmax of an inserted row is zero; that of an updated row is our transaction.
const INSERTED: &str = "(xmax = 0)";
/// The same for a partitioned table, whose rows have no xmax to read. The update of a row leaves a mark, which is
/// removed when the row is returned.
const INSERTED_PARTITIONED: &str = "case when pg_catalog.current_setting('millstream.updated', true) = 'yes' \
     then pg_catalog.set_config('millstream.updated', '', true) <> '' else true end";

impl<'a> Names<'a> {
    pub(super) fn new(plan: &'a LoadPlan) -> Self {
        let keys: Vec<String> = plan.key.columns.iter().map(|c| quote_identifier(&c.name)).collect();
        let mut names = Self {
            plan,
            table: quote_name(&plan.request.collection),
            key: keys.join(", "),
            join: by_key("stored", "staged", &keys),
            keys,
            action: "nothing".to_owned(),
            inserted: if plan.traits.partitioned { INSERTED_PARTITIONED } else { INSERTED },
        };
        if let Some(set) = names.replaced("excluded.doc") {
            let condition = plan.mode.condition("excluded.doc", "stored.doc");
            let condition = condition.map_or_else(String::new, |condition| format!(" where {condition}"));
            names.action = names.update(&set) + &condition;
        }
        names
    }

    /// What replaces a stored document; `None` if it stays.
    pub(super) fn replaced(&self, new: &str) -> Option<String> {
        self.plan.mode.set(self.plan.schema(), new, &self.stored())
    }

    /// The stored document, into which a new one is merged. Where documents leave members out, the stored one may have them
    /// in a spelling that the new one does not have any more.
    fn stored(&self) -> String {
        let LoadPlan { mode, left_out, .. } = self.plan;
        match left_out {
            Some(left_out) if !mode.stores_documents() && !mode.adds_up() => {
                let names: Vec<String> = left_out.names().map(quote_literal).collect();
                format!(
                    "(case pg_catalog.jsonb_typeof(stored.doc) when 'object' then \
                     stored.doc operator(pg_catalog.-) array[{}]::pg_catalog.text[] else stored.doc end)",
                    names.join(", ")
                )
            }
            _ => "stored.doc".to_owned(),
        }
    }

    /// What an upsert does to a stored row whose document becomes `set`.
    pub(super) fn update(&self, set: &str) -> String {
        if self.plan.traits.partitioned {
            return format!(
                "update set doc = case when pg_catalog.set_config('millstream.updated', 'yes', true) <> '' then {set} end"
            );
        }
        format!("update set doc = {set}")
    }

    /// The key's columns of a row.
    pub(super) fn values(&self, row: &str) -> String {
        self.keys.iter().map(|key| format!("{row}.{key}")).collect::<Vec<_>>().join(", ")
    }

    /// Rows of arrays that are parameters: of the key's columns, and of documents.
    pub(super) fn arrays(&self, documents: bool) -> String {
        let types = self.plan.key_types.iter().map(|key_type| key_type.sql_name());
        let types = types.chain(documents.then_some("jsonb"));
        (1..).zip(types).map(|(n, name)| format!("pg_catalog.unnest(${n}::{name}[])")).collect::<Vec<_>>().join(", ")
    }
}
