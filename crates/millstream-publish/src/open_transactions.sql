-- Transactions of this database that have a snapshot, and the session with the oldest one. Every role may see who has a snapshot.
-- Leaves out processes that read no model: those of the server itself, such as autovacuum, which have no role; a vacuum, which
-- is never a part of a longer transaction; senders of WAL; and our own refreshes and builds, which must not look into other
-- models.
select coalesce(pg_catalog.array_agg(l.virtualtransaction), '{}'),
       (pg_catalog.array_agg(
           pg_catalog.format('session %s of role %s', a.pid, a.usename) order by pg_catalog.age(a.backend_xmin) desc
       ))[1]
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid'
  and l.granted
  and l.pid <> pg_catalog.pg_backend_pid()
  and a.datname = pg_catalog.current_database()
  and a.backend_xmin is not null
  and a.usesysid is not null
  and not exists (select from pg_catalog.pg_stat_progress_vacuum v where v.pid = l.pid)
  and not exists (select from pg_catalog.pg_stat_replication r where r.pid = l.pid)
  and not exists (
      select
      from pg_catalog.pg_locks ours
      where ours.pid = l.pid
        and ours.locktype = 'advisory'
        and ours.classid::bigint in ({model_class}, {build_class})
        and ours.objsubid = 2
  )
