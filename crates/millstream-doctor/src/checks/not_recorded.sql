-- What the server does not record, so that later nobody can see what happened.
select
    name,
    setting
from
    pg_settings
where
    -- What a role or a database has is not the server's.
    source not in ('database', 'user', 'database user', 'client')
    and ((name in ('track_io_timing', 'log_lock_waits', 'log_checkpoints', 'track_counts', 'track_activities') and setting = 'off')
    or (name = 'log_autovacuum_min_duration' and setting = '-1')
    or (name = 'shared_preload_libraries' and setting !~ 'pg_stat_statements'))
order by
    name
