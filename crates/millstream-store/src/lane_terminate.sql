-- Terminates the backends that the lanes of a load recorded, except our own: those of all lanes, or the one of a lane
-- ($2) of this run ($3). The start time guards against reused process ids.
select pg_catalog.pg_terminate_backend(a.pid)
from {schema}.lane l
join pg_catalog.pg_stat_activity a on a.pid = l.backend_pid and a.backend_start = l.backend_start
where l.load_id = $1
  and ($2::smallint is null or l.lane = $2 and l.run = $3::integer)
  and a.pid <> pg_catalog.pg_backend_pid()
