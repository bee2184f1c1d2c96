-- Checkpoints and WAL since the reset of their counters, before PostgreSQL 17.
select
    c.checkpoints_timed as timed,
    c.checkpoints_req as requested,
    extract(epoch from now() - c.stats_reset)::float8 as seconds,
    (w.wal_bytes::float8 / greatest(extract(epoch from now() - w.stats_reset), 1)::float8) as wal_per_second
from
    pg_stat_bgwriter as c
    cross join pg_stat_wal as w
