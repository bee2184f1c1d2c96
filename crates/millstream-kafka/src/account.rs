//! The account of a topic: that of each partition, and their sum.

use crate::error::Error;
use millstream_engine::StopReason;
use millstream_model::{Counters, Receipt};
use serde::Serialize;

/// The account of a topic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Account {
    /// The collection, as `SCHEMA.NAME`.
    pub collection: String,
    /// The topic.
    pub topic: String,
    /// Counts over all runs of the loads of its partitions.
    #[serde(flatten)]
    pub counters: Counters,
    /// Wall time of this run.
    pub seconds: f64,
    /// Documents that this run accounted for, per second.
    pub rows_per_second: f64,
    /// Its partitions, in order.
    pub partitions: Vec<PartitionAccount>,
}

/// The account of a partition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionAccount {
    /// Its number.
    pub partition: i32,
    /// The offset from which the next run loads.
    pub offset: u64,
    /// Records of this run that were removed before they were loaded, at most.
    pub gap: u64,
    /// The receipt of its load.
    #[serde(flatten)]
    pub receipt: Receipt,
}

/// How loading a topic ended. The account is right in every case.
#[derive(Debug)]
pub struct Outcome {
    /// The account.
    pub account: Account,
    /// Why it ended before it should, if it did.
    pub stopped: Option<StopReason>,
    /// The error behind [`StopReason::Failed`].
    pub error: Option<Error>,
}

impl Account {
    /// The account of some partitions, in order. `loaded` documents of them are of this run.
    pub(crate) fn new(
        (collection, topic): (String, String),
        partitions: Vec<PartitionAccount>,
        loaded: u64,
        seconds: f64,
    ) -> Self {
        let mut counters = Counters::default();
        for PartitionAccount { receipt, .. } in &partitions {
            counters += receipt.counters;
        }
        let rows_per_second = if seconds > 0.0 { loaded as f64 / seconds } else { 0.0 };
        Self { collection, topic, counters, seconds, rows_per_second, partitions }
    }
}
