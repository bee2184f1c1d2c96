-- Counters of the WAL since PostgreSQL 18, which counts its writes and flushes as I/O.
select
    wal.wal_records::float8 as records,
    wal.wal_fpi::float8 as page_images,
    wal.wal_bytes::float8 as bytes,
    wal.wal_buffers_full::float8 as buffers_full,
    io.*
from
    pg_catalog.pg_stat_wal as wal,
    (
        select
            pg_catalog.sum(writes)::float8 as writes,
            pg_catalog.sum(fsyncs)::float8 as syncs,
            pg_catalog.sum(write_time)::float8 as write_ms,
            pg_catalog.sum(fsync_time)::float8 as sync_ms
        from
            pg_catalog.pg_stat_io
        where
            object = 'wal'
    ) as io
