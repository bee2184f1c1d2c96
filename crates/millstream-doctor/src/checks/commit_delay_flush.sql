-- Flushes of the WAL and their time, since the reset of the counters. Those that make a new file are left out.
select
    coalesce(sum(fsyncs), 0)::bigint as flushes,
    coalesce(sum(fsync_time), 0)::float8 as milliseconds,
    date_part('epoch', now() - min(stats_reset))::float8 as seconds
from
    pg_stat_io
where
    object = 'wal'
    and context = 'normal'
