-- Whether other sessions hold a lock on one of these tables.
select exists (
    select
    from pg_catalog.pg_locks l
    join pg_catalog.pg_database d on d.oid = l.database
    where l.relation operator(pg_catalog.=) any (select pg_catalog.to_regclass(name) from pg_catalog.unnest($1::text[]) as name)
      and l.granted
      and l.pid <> pg_catalog.pg_backend_pid()
      and d.datname = pg_catalog.current_database()
)
