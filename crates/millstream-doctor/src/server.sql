-- Whether the role may read what pg_monitor may, whether sessions show what they do, which setting of a managed service
-- the server has, and for how many seconds its counters may have counted. $1: such settings.
-- `date_part`, because the server could not plan a counted statement with `extract` again.
select
    pg_has_role('pg_monitor', 'usage') as may_monitor,
    current_setting('track_activities')::bool as tracks_activities,
    (select name from pg_settings where name = any($1) order by name limit 1) as provider,
    -- After a crash the counters begin anew, and some times of reset are empty. The earliest errs on the calm side.
    (
        select date_part('epoch', now() - least(b.stats_reset, a.stats_reset, w.stats_reset, pg_postmaster_start_time()))
        from pg_stat_bgwriter as b, pg_stat_archiver as a, pg_stat_wal as w
    )::float8 as counted_seconds
