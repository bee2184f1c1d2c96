-- Terminates the backends that a load's lanes recorded, except our own. The start time guards against reused process
-- ids.
select pg_catalog.pg_terminate_backend(a.pid)
from {schema}.lane l
join pg_catalog.pg_stat_activity a on a.pid = l.backend_pid and a.backend_start = l.backend_start
where l.load_id = $1
  and a.pid <> pg_catalog.pg_backend_pid()
