-- Transactions of this database that have a snapshot, or hide whether they have one. Leaves out processes that read no
-- model: vacuum, and our own refreshes and builds, which must not look into other models.
select coalesce(pg_catalog.array_agg(l.virtualtransaction), '{}')
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid'
  and l.granted
  and l.pid <> pg_catalog.pg_backend_pid()
  and a.datname = pg_catalog.current_database()
  and (a.backend_xmin is not null or a.query = '<insufficient privilege>')
  and a.backend_type is distinct from 'autovacuum worker'
  and a.backend_type is distinct from 'walsender'
  and not exists (
      select
      from pg_catalog.pg_locks ours
      where ours.pid = l.pid
        and ours.locktype = 'advisory'
        and ours.classid::bigint in ({model_class}, {build_class})
        and ours.objsubid = 2
  )
