-- Sessions and transactions of the database since the reset of its counters.
select
    d.sessions,
    d.xact_commit + d.xact_rollback as transactions,
    extract(epoch from now() - coalesce(
        d.stats_reset,
        -- After a crash the counters begin anew, and this is empty. The earliest of these times errs on the calm side.
        (select least(b.stats_reset, a.stats_reset, w.stats_reset, pg_postmaster_start_time())
            from pg_stat_bgwriter as b, pg_stat_archiver as a, pg_stat_wal as w)
    ))::float8 as seconds,
    (select count(*) from pg_stat_ssl as s join pg_stat_activity as a on a.pid = s.pid
        where s.ssl and a.datname = current_database()) as encrypted
from
    pg_stat_database as d
where
    d.datname = current_database()
