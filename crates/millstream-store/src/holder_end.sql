-- Ends the session $2, if it still holds the lock of load $1.
select pg_catalog.pg_terminate_backend(k.pid)
from pg_catalog.pg_locks k
where k.pid = $2::int
  and k.locktype = 'advisory'
  and k.granted
  and k.database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
  and k.classid = ({load_class})::int::oid
  and k.objid = ($1::bigint & 2147483647::bigint)::int::oid
  and k.objsubid = 2
