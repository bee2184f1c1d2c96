-- Whether the role may read what pg_monitor may, whether sessions show what they do, which setting of a managed service
-- the server has, and for how many seconds its counters may have counted, and have surely. $1: such settings.
-- `date_part`, because the server could not plan a counted statement with `extract` again.
select
    pg_has_role('pg_monitor', 'usage') as may_monitor,
    current_setting('track_activities')::bool as tracks_activities,
    (select name from pg_settings where name = any($1) order by name limit 1) as provider,
    -- After a crash all counters begin anew. The earliest time errs on the calm side for what is counted in a second.
    date_part('epoch', now() - least(shared.reset, pg_postmaster_start_time()))::float8 as counted_seconds,
    date_part('epoch', now() - shared.reset)::float8 as sure_seconds
from
    (
        select least(b.stats_reset, a.stats_reset, w.stats_reset) as reset
        from pg_stat_bgwriter as b, pg_stat_archiver as a, pg_stat_wal as w
    ) as shared
