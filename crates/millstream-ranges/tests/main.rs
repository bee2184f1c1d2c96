//! Stores on a real disk, and their twins in a real PostgreSQL.

mod agreement;
mod build;
mod oracle;
mod pages;
mod stored;
mod table;
