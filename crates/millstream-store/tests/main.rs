//! Tests of our tables against real servers.

mod trust;
