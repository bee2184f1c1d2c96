-- Ends the session $2, if it still holds the lock of load $1.
select pg_catalog.pg_terminate_backend(k.pid)
from pg_catalog.pg_locks k
where k.pid = $2::int
  and {locked}
