-- Loads that start over if the table is emptied: unfinished ones, and finished ones in mode sum, that have documents in
-- it. Rejects are not in it, and neither are documents that wait in a segment. A load without its marker row does not
-- count, because a crash emptied its unlogged table (unlogged_emptied.sql).
select
    l.load_id,
    l.state = 'finished' as finished,
    pg_catalog.split_part(l.mode, ':', 1) = 'sum' as adds_up,
    l.read + lanes.read as documents
from {schema}.load l
cross join lateral (
    select
        coalesce(pg_catalog.sum(n.read), 0)::bigint as read,
        coalesce(pg_catalog.sum(n.rejected), 0)::bigint as rejected
    from {schema}.lane n
    where n.load_id = l.load_id
) as lanes
cross join lateral (
    select coalesce(pg_catalog.sum(s.documents), 0)::bigint as waiting
    from {schema}.segment s
    where s.load_id = l.load_id
) as segments
where l.table_oid = $1
  and (l.state <> 'finished' or pg_catalog.split_part(l.mode, ':', 1) = 'sum')
  and (l.durability <> 'unlogged' or exists (select from {schema}.unlogged_load u where u.load_id = l.load_id))
  and l.read + lanes.read > l.rejected + lanes.rejected + segments.waiting
order by l.load_id
