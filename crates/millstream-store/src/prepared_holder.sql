-- A prepared transaction that holds a lock on one of these tables: its identifier and its owner. No session is behind it, so
-- that pg_blocking_pids() and pg_stat_activity do not name it. Its lock on its own number tells which it is.
select p.gid, p.owner::text
from pg_catalog.pg_locks l
join pg_catalog.pg_locks own on own.virtualtransaction = l.virtualtransaction
join pg_catalog.pg_prepared_xacts p on p.transaction = own.transactionid
where l.pid is null
  and own.pid is null
  and l.relation = any (select pg_catalog.to_regclass(name)::oid from pg_catalog.unnest($1::text[]) as name)
  and p.database = pg_catalog.current_database()
order by p.prepared
limit 1
