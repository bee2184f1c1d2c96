-- How often a session had to write WAL itself because the buffers were full, since the reset of the counters, and the
-- buffers.
select
    wal_buffers_full as waits,
    wal_bytes::bigint as wal_bytes,
    current_setting('wal_block_size')::bigint as page_bytes,
    date_part('epoch', now() - stats_reset)::float8 as seconds,
    pg_size_bytes(current_setting('wal_buffers')) as buffers,
    pg_size_bytes(current_setting('shared_buffers')) as shared,
    pg_size_bytes(current_setting('wal_segment_size')) as segment
from
    pg_stat_wal
