-- Transactions of this database that may hold a snapshot, but those of processes that show nobody rows.
select coalesce(pg_catalog.array_agg(l.virtualtransaction), '{}')
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid'
  and l.granted
  and l.pid <> pg_catalog.pg_backend_pid()
  and a.datname = pg_catalog.current_database()
  and a.backend_type is distinct from 'autovacuum worker'
  and a.backend_type is distinct from 'walsender'
