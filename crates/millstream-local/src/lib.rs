//! The local PostgreSQL server: find, download, start, size.
