//! Throw-away PostgreSQL servers and faults for tests.
