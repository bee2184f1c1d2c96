-- Moves the lanes' counters into the load's row, and writes the watermarks of all slots.
update {schema}.load l
set floor_source = $2,
    floor_offset = $3,
    prefix_source = $4,
    prefix_length = $5,
    prefix_hash = $6,
    epoch = greatest(l.epoch, s.epoch),
    read = l.read + s.read,
    inserted = l.inserted + s.inserted,
    updated = l.updated + s.updated,
    unchanged = l.unchanged + s.unchanged,
    superseded = l.superseded + s.superseded,
    stale = l.stale + s.stale,
    kept = l.kept + s.kept,
    deleted = l.deleted + s.deleted,
    appended = l.appended + s.appended,
    rejected = l.rejected + s.rejected,
    bytes_read = l.bytes_read + s.bytes_read,
    reject_bytes = l.reject_bytes + s.reject_bytes,
    outcomes = (
        select pg_catalog.array_agg(total order by i)
        from (
            select i, sum(n)::bigint as total
            from (
                select l.outcomes
                union all
                select n.outcomes from {schema}.lane n where n.load_id = $1
            ) as counted
            cross join lateral pg_catalog.unnest(counted.outcomes) with ordinality as outcome (n, i)
            group by i
        ) as totals
    )
from (
    select
        max(epoch) as epoch,
        coalesce(sum(read), 0)::bigint as read,
        coalesce(sum(inserted), 0)::bigint as inserted,
        coalesce(sum(updated), 0)::bigint as updated,
        coalesce(sum(unchanged), 0)::bigint as unchanged,
        coalesce(sum(superseded), 0)::bigint as superseded,
        coalesce(sum(stale), 0)::bigint as stale,
        coalesce(sum(kept), 0)::bigint as kept,
        coalesce(sum(deleted), 0)::bigint as deleted,
        coalesce(sum(appended), 0)::bigint as appended,
        coalesce(sum(rejected), 0)::bigint as rejected,
        coalesce(sum(bytes_read), 0)::bigint as bytes_read,
        coalesce(sum(reject_bytes), 0)::bigint as reject_bytes
    from {schema}.lane
    where load_id = $1
) s
where l.load_id = $1
