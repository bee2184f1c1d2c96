-- Where the pages of this database came from, and how much of its statements' time went into reading them. The time is
-- null unless track_io_timing is on.
select
    d.blks_hit as hits,
    d.blks_read as reads,
    case
        when current_setting('track_io_timing')::bool and d.active_time > 0
        then least(100 * d.blk_read_time / d.active_time, 100)
    end as time_percent,
    current_setting('shared_buffers') as buffers,
    (select coalesce(sum(c.relpages), 0)::bigint * current_setting('block_size')::bigint from pg_class as c) as bytes
from
    pg_stat_database as d
where
    d.datname = current_database()
