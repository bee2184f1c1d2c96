//! Kafka topics into a collection, each record once.
//!
//! A partition is a load, and the offset is its position. So offsets commit with the documents, in the database, and
//! what Kafka knows of offsets does not matter. [`load`] opens the loads of a topic's partitions and deals out to them
//! what a [`Client`] reads. `opening` locks a load and asks where it continues, which `start` decides, `partition` keeps how
//! far it is, `worker` makes documents of records, and `message` says what document a message is. A consumer group may
//! decide which partitions are loaded where: `seats` keeps what it has decided. [`connect`] makes a client of real brokers,
//! with the feature `kafka`.

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
#[cfg(feature = "kafka")]
mod member;
mod message;
mod opening;
mod partition;
mod properties;
mod request;
mod sample;
mod seats;
mod start;
mod task;
mod worker;

#[cfg(not(feature = "kafka"))]
pub use absent::{Broker, connect};
pub use account::{Account, Outcome, PartitionAccount};
pub use address::{Address, SCHEME};
#[cfg(feature = "kafka")]
pub use broker::{Broker, connect};
pub use client::{Client, ClientError, Decision, Lot, Marks, Member, Place, Record, Released, Topic};
pub use error::Error;
pub use loader::load;
pub use message::Messages;
pub use properties::{Mechanism, Properties, Protocol, Sasl};
pub use request::{Begin, Group, TopicRequest, Until};
