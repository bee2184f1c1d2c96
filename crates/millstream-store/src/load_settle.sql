-- Moves the lanes' counters into the load's row, and writes the watermarks of all slots.
update {schema}.load l
set floor_source = $2,
    floor_offset = $3,
    prefix_source = $4,
    prefix_length = $5,
    prefix_hash = $6,
    epoch = greatest(l.epoch, s.epoch),
    {added},
    reject_bytes = l.reject_bytes + s.reject_bytes,
    outcomes = (
        select pg_catalog.array_agg(total order by i)
        from (
            select i, pg_catalog.sum(n)::bigint as total
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
        pg_catalog.max(epoch) as epoch,
        {sums},
        coalesce(pg_catalog.sum(reject_bytes), 0)::bigint as reject_bytes
    from {schema}.lane
    where load_id = $1
) s
where l.load_id = $1
