-- Unfinished loads of streams that have one of the names $1. `committed` is the position before which all is committed; it is
-- null if nothing is. A load recorded as running that has no session is shown as crashed.
select
    l.load_id,
    l.collection,
    l.sources[1] as name,
    {state} as state,
    case
        when l.prefix_hash is not null or s.is_placed then greatest(f.floor, s.mark)
    end as committed
from {schema}.load l
cross join lateral (
    select pg_catalog.min(slot.floor) as floor
    from pg_catalog.unnest(l.floor_offset) as slot (floor)
) f
cross join lateral (
    select pg_catalog.min(byte_offset) as mark, pg_catalog.bool_or(prefix_hash is not null) as is_placed
    from {schema}.lane
    where load_id = l.load_id
) s
where pg_catalog.cardinality(l.sources) = 1
  and l.sources operator(pg_catalog.&&) $1::text[]
  and l.resumable
  and l.state <> 'finished'
order by l.collection, l.load_id
