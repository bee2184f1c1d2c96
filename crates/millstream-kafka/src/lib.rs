//! Kafka topics into a collection, each record once.
//!
//! A partition is a load, and the offset is its position. So offsets commit with the documents, in the database, and
//! what Kafka knows of offsets does not matter. [`load`] opens the loads of a topic's partitions and deals out to them
//! what a [`Client`] reads. `start` decides where a partition continues, `partition` keeps how far it is, `worker` makes
//! documents of records, and `message` says what document a message is. [`connect`] makes a client of real brokers, with
//! the feature `kafka`.

#[cfg(not(feature = "kafka"))]
mod absent;
mod account;
mod address;
#[cfg(feature = "kafka")]
mod broker;
mod client;
mod error;
mod fingerprint;
mod frame;
pub mod limits;
mod loader;
mod message;
mod partition;
mod properties;
mod request;
mod sample;
mod start;
mod worker;

#[cfg(not(feature = "kafka"))]
pub use absent::{Broker, connect};
pub use account::{Account, Outcome, PartitionAccount};
pub use address::{Address, SCHEME};
#[cfg(feature = "kafka")]
pub use broker::{Broker, connect};
pub use client::{Client, ClientError, Lot, Marks, Record, Topic};
pub use error::Error;
pub use loader::load;
pub use message::Messages;
pub use properties::{Mechanism, Properties, Sasl};
pub use request::{Begin, TopicRequest, Until};
