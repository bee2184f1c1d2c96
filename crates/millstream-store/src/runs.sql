-- Runs into a table that may not have come to their end, the oldest first, and whether they may still commit: another
-- session holds the load's lock, or a backend of one of its lanes lives. Where the role may not see when a backend was started,
-- its number has to do. A run is followed by one whose documents wait in segments.
select
    l.load_id,
    l.run_order,
    l.layout,
    l.mode,
    l.state = 'running' as running,
    exists (
        select
        from pg_catalog.pg_locks
        where locktype = 'advisory'
          and granted
          and pid <> pg_catalog.pg_backend_pid()
          and database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
          and classid = $2::int::oid
          and objid = (l.load_id & 2147483647)::int::oid
          and objsubid = 2
    )
    or exists (
        select
        from {schema}.lane n
        join pg_catalog.pg_stat_activity a on a.pid = n.backend_pid and a.datname = pg_catalog.current_database()
        where n.load_id = l.load_id
          and coalesce(a.backend_start = n.backend_start, true)
    ) as at_work,
    exists (
        select
        from {schema}.segment s
        where s.table_oid = l.table_oid
          and s.run_order > l.run_order
    ) as followed
from {schema}.load l
where l.table_oid = $1
  and l.state <> 'finished'
order by l.run_order
