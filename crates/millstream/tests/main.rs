//! Tests of the real binary: what it prints, where, and how it ends.

#![expect(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test may panic, and nothing here is reachable from outside"
)]

mod altered;
mod chaos;
mod client;
mod copy;
mod crash;
mod demo;
mod distinct;
mod doctor;
mod doctor_change;
mod doctor_disk;
mod doctor_healthy;
mod doctor_index;
mod doctor_measure;
mod doctor_watch;
mod enrich;
mod explain_index;
mod guard;
mod guides;
mod help;
mod home;
mod hostile;
mod kill;
mod lab;
mod lab_drive;
mod lab_guest;
mod lab_own_server;
mod lab_pgbench;
mod local;
mod log_kill;
mod mending;
mod mix;
mod models;
mod models_obstacles;
mod models_unheard;
mod models_values;
mod names;
mod network;
mod network_guest;
mod opening;
mod packets;
mod pages;
mod process;
mod ranges;
mod ranges_damage;
mod ranges_formats;
mod ranges_programs;
mod ranges_readers;
mod recorder;
mod records;
mod refresh_kill;
mod refresh_moment;
mod refresh_plan;
mod refusals;
mod report_queries;
mod reports;
mod signals;
mod sources;
mod stream;
mod strict;
mod targets;
mod terminal;
mod trust;
mod trust_columns;
mod turns;
mod unread;
mod verify;
