-- A process of the server that works for a load: it holds the load's lock, or commits for one of its lanes, which goes on
-- where the connection with the lock was lost.
select working.pid
from (
    select pid
    from pg_catalog.pg_locks
    where locktype = 'advisory'
      and granted
      and database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
      and classid = $2::int::oid
      and objid = ($1::bigint & 2147483647)::int::oid
      and objsubid = 2
    union all
    select a.pid
    from {schema}.lane n
    join pg_catalog.pg_stat_activity a on a.pid = n.backend_pid and a.datname = pg_catalog.current_database()
    where n.load_id = $1
      and coalesce(a.backend_start = n.backend_start, true)
) as working
where working.pid <> pg_catalog.pg_backend_pid()
limit 1
