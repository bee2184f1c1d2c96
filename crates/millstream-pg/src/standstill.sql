-- What each session of $1 that is at work does: how long, what it waits for, and who holds what it waits for. Another
-- role's state is null without the rights of pg_read_all_stats.
select
    a.pid,
    a.application_name as name,
    a.wait_event_type as kind,
    a.wait_event as event,
    extract(epoch from pg_catalog.clock_timestamp() - a.query_start)::float8 as seconds,
    extract(epoch from pg_catalog.clock_timestamp() - l.waitstart)::float8 as lock_seconds,
    l.locktype as lock,
    case when l.database = d.oid then l.relation::pg_catalog.regclass::text end as relation,
    blocker.pid as holder,
    coalesce(nullif(h.application_name, ''), h.backend_type) as holder_name,
    h.state as holder_state,
    extract(epoch from pg_catalog.clock_timestamp() - h.xact_start)::float8 as holder_seconds,
    blocker.pid = any ($1) as holder_is_own,
    (
        select behind
        from pg_catalog.unnest(pg_catalog.pg_blocking_pids(blocker.pid)) as behind
        where not behind = any ($1)
        limit 1
    ) as behind
from pg_catalog.pg_stat_activity a
join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
left join pg_catalog.pg_locks l on l.pid = a.pid and not l.granted
left join lateral (
    select pid
    from pg_catalog.unnest(pg_catalog.pg_blocking_pids(a.pid)) as pid
    where a.wait_event_type = 'Lock'
    -- Of several, one that does not wait itself.
    order by pid = any ($1), pg_catalog.cardinality(pg_catalog.pg_blocking_pids(pid)) > 0, pid
    limit 1
) as blocker on true
left join pg_catalog.pg_stat_activity h on h.pid = blocker.pid
where a.pid = any ($1)
  and a.pid <> pg_catalog.pg_backend_pid()
  and a.state = 'active'
  -- A session that waits for us is not what holds us up.
  and a.wait_event_type is distinct from 'Client'
