//! Tests of the doctor against real servers.

mod index;
