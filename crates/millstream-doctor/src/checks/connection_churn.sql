-- Sessions and transactions of the database since the reset of its counters.
select
    d.sessions,
    d.xact_commit + d.xact_rollback as transactions,
    (select count(*) from pg_stat_ssl as s join pg_stat_activity as a on a.pid = s.pid
        where s.ssl and a.datname = current_database()) as encrypted
from
    pg_stat_database as d
where
    d.datname = current_database()
