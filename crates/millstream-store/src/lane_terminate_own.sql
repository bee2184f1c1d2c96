-- Terminates the backend that a lane recorded, before the lane's connection is replaced.
select pg_catalog.pg_terminate_backend(a.pid)
from {schema}.lane l
join pg_catalog.pg_stat_activity a on a.pid = l.backend_pid and a.backend_start = l.backend_start
where l.load_id = $1
  and l.lane = $2
  and l.run = $3
  and a.pid <> pg_catalog.pg_backend_pid()
