//! PostgreSQL for Millstream: connecting, catalog, binary COPY, error kinds.
