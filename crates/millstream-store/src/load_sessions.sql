-- Sessions other than this one that work for load l: the session that holds the load's advisory lock, and live backends
-- of its lanes, which may survive that session. If the role may not see when a backend started, only the process ids
-- are compared.
select k.pid
from pg_catalog.pg_locks k
where {locked}
  and k.pid <> pg_catalog.pg_backend_pid()
union all
select a.pid
from {schema}.lane n
join pg_catalog.pg_stat_activity a on a.pid = n.backend_pid and a.datname = pg_catalog.current_database()
where n.load_id = l.load_id
  and coalesce(a.backend_start = n.backend_start, true)
  and a.pid <> pg_catalog.pg_backend_pid()
