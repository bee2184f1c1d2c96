-- The process that holds an advisory lock with two keys. pg_locks shows the keys without sign.
select pid
from pg_catalog.pg_locks
where locktype = 'advisory'
  and granted
  and database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
  and classid::bigint = ($1::integer)::bigint & 4294967295
  and objid::bigint = ($2::integer)::bigint & 4294967295
  and objsubid = 2
