-- Loads that stored documents in a table that is empty now, although the loads deleted fewer documents than they
-- stored: a TRUNCATE or DELETE emptied it. `again` marks the loads that start over: unfinished ones, and finished ones
-- in mode sum. A load without its marker row is not marked, because a crash emptied its unlogged table
-- (unlogged_emptied.sql). Merged documents of a load with --delete-when do not count as stored: nobody counts what it
-- deleted.
with loads as (
    select
        l.load_id,
        l.state = 'finished' as finished,
        (l.state <> 'finished' or split_part(l.mode, ':', 1) = 'sum')
        and (l.durability <> 'unlogged' or exists (select from {schema}.unlogged_load u where u.load_id = l.load_id))
            as again,
        l.read + lanes.read as documents,
        l.inserted + lanes.inserted as inserted,
        l.deleted + lanes.deleted as deleted,
        l.updated + l.kept + lanes.met as met,
        case when l.mode like '% --delete-when %' then 0 else l.appended + lanes.appended - segments.waiting end as merged
    from {schema}.load l
    cross join lateral (
        select
            coalesce(sum(n.read), 0)::bigint as read,
            coalesce(sum(n.inserted), 0) as inserted,
            coalesce(sum(n.deleted), 0) as deleted,
            coalesce(sum(n.updated + n.kept), 0) as met,
            coalesce(sum(n.appended), 0) as appended
        from {schema}.lane n
        where n.load_id = l.load_id
    ) as lanes
    cross join lateral (
        select coalesce(sum(s.documents), 0) as waiting
        from {schema}.segment s
        where s.load_id = l.load_id
    ) as segments
    where l.table_oid = $1
),
whole as (
    select sum(inserted) > sum(deleted) or (sum(deleted) = 0 and sum(met + merged) > 0) as stored
    from loads
)
select l.load_id, l.finished, l.again, l.documents
from loads l
cross join whole
where whole.stored
  and l.inserted + l.met + l.merged > 0
order by l.load_id
