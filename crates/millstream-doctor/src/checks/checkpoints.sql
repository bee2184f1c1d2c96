-- Checkpoints and WAL since the reset of their counters.
select
    c.{timed} as timed,
    c.{requested} as requested,
    {restartpoints}::bigint as restartpoints,
    c.{sync_ms}::bigint as sync_ms,
    date_part('epoch', now() - c.stats_reset)::float8 as seconds,
    date_part('epoch', now() - w.stats_reset)::float8 as wal_seconds,
    w.wal_bytes::float8 as wal_bytes
from
    {view} as c
    cross join pg_stat_wal as w
