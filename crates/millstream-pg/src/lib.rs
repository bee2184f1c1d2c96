//! PostgreSQL for Millstream: connecting, catalog, binary COPY, error kinds.

pub mod advisory;
mod attempt;
pub mod catalog;
mod connection;
mod conninfo;
pub mod copy;
mod error;
mod explained;
mod hash;
mod identifier;
mod json_rows;
mod kind;
pub mod limits;
mod named_file;
mod plans;
mod poll;
mod pooler;
mod retry;
mod roster;
mod session;
mod several;
pub mod sizing;
mod socket;
mod sqlstate;
pub mod standstill;
pub mod template;
mod tls;

pub use attempt::connect;
pub use connection::{Connection, ServerFacts};
pub use conninfo::{
    Address, ClientCertificate, ConnInfo, Environment, Host, Keepalives, Secret, SslMode, TargetSession, TlsRoot,
    TlsSettings, TlsVersion,
};
pub use error::Error;
pub use explained::Explained;
pub use hash::hash_text;
pub use identifier::{quote_identifier, quote_literal, quote_name, quote_qualified, quote_setting, unquoted};
pub use json_rows::json_rows;
pub use kind::ErrorKind;
pub use plans::{by_key, own_plans, plans_by_key};
pub use poll::Poll;
pub use pooler::ensure_session_pooling;
pub use retry::{Failures, may_pass};
pub use roster::{Roster, Waiting};
pub use session::{SessionSettings, Views};
pub use several::{Several, connect_several, connect_when_free};
pub use sqlstate::{classify, kind_of};
pub use standstill::Standstill;
