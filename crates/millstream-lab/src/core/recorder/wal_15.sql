-- Counters of the WAL until PostgreSQL 17.
select
    wal_records::float8 as records,
    wal_fpi::float8 as page_images,
    wal_bytes::float8 as bytes,
    wal_buffers_full::float8 as buffers_full,
    wal_write::float8 as writes,
    wal_sync::float8 as syncs,
    wal_write_time::float8 as write_ms,
    wal_sync_time::float8 as sync_ms
from
    pg_catalog.pg_stat_wal
