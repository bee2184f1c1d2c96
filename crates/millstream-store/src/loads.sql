-- Loads, newest first, with the counts of all their runs. A load recorded as running that has no session is shown as
-- crashed.
select
    l.load_id,
    l.collection,
    l.mode,
    l.durability,
    -- The sessions are looked at only for loads that are recorded as running: it takes long.
    {state} as state,
    l.stop_reason,
    l.read + s.read as read,
    l.rejected + s.rejected as rejected,
    l.runs,
    pg_catalog.to_char(l.started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as started_at,
    pg_catalog.to_char(l.ended_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as ended_at,
    l.sources,
    l.receipt
from {schema}.load l
cross join lateral (
    select coalesce(pg_catalog.sum(read), 0)::bigint as read, coalesce(pg_catalog.sum(rejected), 0)::bigint as rejected
    from {schema}.lane
    where load_id = l.load_id
) s
where ($1::bigint is null or l.load_id = $1)
  and ($3::text is null or l.sources operator(pg_catalog.=) array[$3::text])
order by l.load_id desc
limit $2::bigint
