//! What stands for the client in a build that has none.

use crate::address::Address;
use crate::client::{Client, ClientError, Decision, Lot, Marks, Member, Place, Topic};
use crate::error::Error;
use crate::properties::Properties;
use std::time::Duration;

/// A client of real brokers. This build has none.
pub enum Broker {}

/// Refuses, because this build has no client.
///
/// # Errors
/// Always.
pub async fn connect(_: &Address, _: &Properties) -> Result<Broker, Error> {
    Err(Error::refused(
        "this build of millstream has no feature 'kafka', which reads topics",
        "build it with `cargo build --release --features kafka`, or pipe a consumer's output: millstream load -",
    ))
}

impl Client for Broker {
    async fn topic(&self) -> Result<Topic, ClientError> {
        match *self {}
    }

    async fn marks(&self, _: i32) -> Result<Marks, ClientError> {
        match *self {}
    }

    async fn offset_at(&self, _: i32, _: i64) -> Result<Option<u64>, ClientError> {
        match *self {}
    }

    async fn assign(&self, _: &[(i32, Option<Place>)]) -> Result<(), ClientError> {
        match *self {}
    }

    async fn pause(&self, _: i32, _: bool) {
        match *self {}
    }

    async fn poll(&self, _: Duration) -> Result<Vec<Lot>, ClientError> {
        match *self {}
    }

    async fn commit(&self, _: &[(i32, u64)]) -> Result<(), ClientError> {
        match *self {}
    }

    async fn join(&self, _: impl Fn(String) + Send + Sync) -> Result<(), ClientError> {
        match *self {}
    }

    async fn decision(&self) -> Result<Decision, ClientError> {
        match *self {}
    }

    async fn leave(&self) {
        match *self {}
    }

    async fn members(&self) -> Result<Vec<Member>, ClientError> {
        match *self {}
    }
}
