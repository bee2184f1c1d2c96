-- Loads, newest first, with the counts of all their runs and whether a process runs them now: it then holds the
-- load's advisory lock, or, where the connection with the lock was lost, has lanes that go on.
select
    l.load_id,
    l.collection,
    l.mode,
    l.durability,
    case when l.state = 'running' and not h.held then 'crashed' else l.state end as state,
    l.stop_reason,
    l.read + s.read as read,
    l.rejected + s.rejected as rejected,
    l.runs,
    to_char(l.started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as started_at,
    to_char(l.ended_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as ended_at,
    l.sources,
    l.receipt::text as receipt
from {schema}.load l
cross join lateral (
    select coalesce(sum(read), 0)::bigint as read, coalesce(sum(rejected), 0)::bigint as rejected
    from {schema}.lane
    where load_id = l.load_id
) s
cross join lateral (
    select exists (
        select
        from pg_locks
        where locktype = 'advisory' and granted
            and database = (select oid from pg_database where datname = current_database())
            and classid = $1::int::oid and objid = (l.load_id & 2147483647)::int::oid and objsubid = 2
    ) or exists (
        select
        from {schema}.lane n
        join pg_stat_activity a on a.pid = n.backend_pid and a.datname = current_database()
        where n.load_id = l.load_id and coalesce(a.backend_start = n.backend_start, true)
    ) as held
) h
where $2::bigint is null or l.load_id = $2
order by l.load_id desc
