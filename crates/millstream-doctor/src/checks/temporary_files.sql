-- Temporary files of the database since the reset of its counters.
select
    temp_files as files,
    temp_bytes as bytes,
    extract(epoch from now() - coalesce(
        d.stats_reset,
        -- After a crash the counters begin anew, and this is empty. The earliest of these times errs on the calm side.
        (select least(b.stats_reset, a.stats_reset, w.stats_reset, pg_postmaster_start_time())
            from pg_stat_bgwriter as b, pg_stat_archiver as a, pg_stat_wal as w)
    ))::float8 as seconds,
    current_setting('work_mem') as work_mem
from
    pg_stat_database as d
where
    datname = current_database()
