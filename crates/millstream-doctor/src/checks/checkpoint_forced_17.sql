-- Checkpoints and WAL since the reset of their counters, from PostgreSQL 17 on.
select
    c.num_timed as timed,
    c.num_requested as requested,
    extract(epoch from now() - c.stats_reset)::float8 as seconds,
    (w.wal_bytes::float8 / greatest(extract(epoch from now() - w.stats_reset), 1)::float8) as wal_per_second
from
    pg_stat_checkpointer as c
    cross join pg_stat_wal as w
