//! A load whose table is known: what is written, where, and how. It is built once for a run, and shared.

use crate::limits::{MEMORY_BATCHES, SORT_MEMORY_MIB, STAGE_MEMORY_MIB};
use crate::merge::{Folding, Mode};
use crate::request::{LoadRequest, SkipUnchanged};
use millstream_document::decode::{Fitting, LeftOut};
use millstream_model::{KeySpec, KeyType};
use millstream_pg::SessionSettings;
use millstream_store::{Check, Identity, NamedVersion, Schema, TypedColumn};
use std::collections::BTreeSet;

/// A load whose table is known.
#[derive(Clone)]
pub(crate) struct LoadPlan {
    /// What was asked for.
    pub(crate) request: LoadRequest,
    /// The mode that was asked for, with the type of its version.
    pub(crate) mode: Mode,
    pub(crate) key: KeySpec,
    /// The types of its columns. Every batch needs them, so they are kept.
    pub(crate) key_types: Vec<KeyType>,
    /// OID of the table.
    pub(crate) table_oid: u32,
    /// Whether the table had no row when the run began.
    pub(crate) table_empty: bool,
    pub(crate) traits: TableTraits,
    /// The table's CHECK constraints, as they were known when the load began.
    pub(crate) checks: Vec<Check>,
    /// Whether every document must be checked against the tombstones of its key.
    pub(crate) checks_tombstones: bool,
    /// Which documents of a key are folded into one row.
    pub(crate) folding: Folding,
    /// What tells without the server that a folded document need not be tried.
    pub(crate) fitting: Option<Fitting>,
    /// The table's typed columns.
    pub(crate) columns: Vec<TypedColumn>,
    /// What documents leave out when they are stored.
    pub(crate) left_out: Option<LeftOut>,
}

/// What of a table decides how documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableTraits {
    /// Whether rows can be updated by a join with the staged keys.
    pub(crate) can_join: bool,
    /// Whether constraints, triggers or anything else may refuse a document or store it differently.
    pub(crate) may_refuse: bool,
    /// Whether a trigger may change the key of a row, or drop it, or keep one that is deleted.
    pub(crate) alters_rows: bool,
    /// Whether rows go into partitions.
    pub(crate) partitioned: bool,
    /// Whether long documents are compressed with lz4.
    pub(crate) lz4: bool,
}

impl LoadPlan {
    /// Where our own tables are.
    pub(crate) fn schema(&self) -> &Schema {
        &self.request.schema
    }

    /// What was asked for; `Off` if documents cannot be compared.
    pub(crate) fn skip_unchanged(&self) -> SkipUnchanged {
        // If every key must be checked against tombstones, one writer writes every batch.
        let comparable = self.mode.replaces() && self.traits.can_join && !self.checks_tombstones;
        if comparable { self.request.skip_unchanged } else { SkipUnchanged::Off }
    }

    /// Whether documents that equal the stored one may be skipped.
    pub(crate) fn skips(&self) -> bool {
        self.skip_unchanged() != SkipUnchanged::Off
    }

    /// Whether documents may delete, or must be checked against tombstones. The staging table then also holds what each
    /// document does to a stored row.
    pub(crate) fn deletes(&self) -> bool {
        self.checks_tombstones || self.mode.tombstone().is_some()
    }

    /// Whether a batch can be merged into the table. An upsert also checks a new document that does not become the stored
    /// one; a merge checks only what is stored.
    pub(crate) fn merges(&self) -> bool {
        self.traits.can_join && (self.mode.replaces() || !self.traits.may_refuse)
    }

    /// Whether it pays to remember which keys were met: a batch can be divided by them, and is not always written in
    /// another way.
    pub(crate) fn divides(&self) -> bool {
        self.merges() && !self.checks_tombstones && !self.traits.alters_rows
    }

    /// A batch's share of the memory, in bytes, if so many lanes write at once.
    pub(crate) fn batch_memory(&self, lanes: u16) -> usize {
        self.request.memory_bytes / (MEMORY_BATCHES * usize::from(lanes))
    }

    /// The settings of a lane's session.
    pub(crate) fn session(&self, lane: u16) -> SessionSettings {
        let session = SessionSettings::lane(usize::from(lane))
            .with("temp_buffers", &format!("{STAGE_MEMORY_MIB}MB"))
            .with("work_mem", &format!("{SORT_MEMORY_MIB}MB"))
            // A plan for the given values would be the same, and planning would look at every key among them.
            .with("plan_cache_mode", "force_generic_plan");
        // Without a join, look-ups need no other plans turned off, which a trigger may want.
        let joins = self.merges() || self.deletes() || self.folding == Folding::Tried;
        if joins { session.with_plans_by_key() } else { session.with_default_plans() }
    }

    /// What a later run must be asked for to resume this load. `sources` are the names of its sources, and `resumable` says
    /// whether a later run can be given them. `made` are the versions of the texts that are made of them.
    pub(crate) fn identity(&self, sources: &[String], made: &BTreeSet<&'static str>, resumable: bool) -> Identity {
        let request = &self.request;
        Identity {
            table_oid: self.table_oid,
            collection: request.collection.to_string(),
            mode: self.mode.to_string(),
            key: self.key.clone(),
            format: request.dialect.label(&request.format, made),
            transforms: request.transforms.iter().map(|transform| transform.name()).collect(),
            durability: request.durability.name,
            unlogged: request.durability.unlogged,
            layout: request.layout.name,
            sources: sources.to_vec(),
            resumable,
            once: resumable && self.mode.adds_up(),
            checks_tombstones: self.checks_tombstones,
        }
    }

    /// The type by which versions are compared, if it was asked for.
    pub(crate) fn named_version(&self) -> Option<NamedVersion> {
        let LoadRequest { mode, collection, .. } = &self.request;
        let path = mode.version()?.path_text();
        Some(NamedVersion { collection: collection.clone(), path, version_type: mode.version_type()? })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use millstream_model::KeyRequest;

    /// A load in this mode into a table of our own.
    pub(crate) fn plan(mode: &str) -> LoadPlan {
        let requested = KeyRequest::parse_list("id:text").unwrap();
        let key = KeySpec::from_requests(&requested).unwrap();
        LoadPlan {
            request: LoadRequest::new("events".parse().unwrap(), requested, Vec::new()),
            mode: mode.parse().unwrap(),
            key_types: key.types(),
            key,
            table_oid: 1,
            table_empty: true,
            traits: TableTraits {
                can_join: true,
                may_refuse: false,
                alters_rows: false,
                partitioned: false,
                lz4: false,
            },
            checks: Vec::new(),
            checks_tombstones: false,
            folding: Folding::Always,
            fitting: None,
            columns: Vec::new(),
            left_out: None,
        }
    }

    #[test]
    fn a_table_and_a_mode_decide_how_documents_are_written() {
        for (mode, can_join, may_refuse, merges, skips) in [
            ("replace", true, false, true, true),
            ("replace", true, true, true, true),
            ("replace", false, false, false, false),
            ("keep", true, false, true, false),
            ("keep", true, true, false, false),
            ("newest:v", true, true, false, false),
        ] {
            let mut plan = plan(mode);
            (plan.traits.can_join, plan.traits.may_refuse) = (can_join, may_refuse);
            assert_eq!((plan.merges(), plan.skips()), (merges, skips), "{mode} {can_join} {may_refuse}");
            plan.request.skip_unchanged = SkipUnchanged::Off;
            assert!(!plan.skips(), "nobody asks for it");
        }
        let mut checked = plan("newest:v");
        assert!(!checked.deletes() && checked.divides());
        checked.checks_tombstones = true;
        assert!(checked.deletes() && checked.merges() && !checked.divides());
    }
}
