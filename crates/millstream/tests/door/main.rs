//! Tests of the program at its door: what it prints, asks and refuses, how it ends, and what its commands do to a host.

#![expect(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test may panic, and nothing here is reachable from outside"
)]

mod cat;
mod copy;
mod demo;
mod doctor;
mod doctor_change;
mod doctor_disk;
mod doctor_healthy;
mod doctor_index;
mod doctor_measure;
mod doctor_watch;
mod events;
mod explain_index;
mod guard;
mod guides;
mod help;
mod home;
mod lab;
mod lab_dials;
mod lab_drive;
mod lab_guest;
mod lab_own_server;
mod lab_pgbench;
mod lab_slow_disk;
mod local;
mod network;
mod network_guest;
#[cfg(feature = "objects")]
mod objects;
mod own;
mod packets;
mod ranges;
mod ranges_answers;
mod recorder;
mod refusals;
mod signals;
mod targets;
mod terminal;
mod unread;

use millstream_testkit::process;
