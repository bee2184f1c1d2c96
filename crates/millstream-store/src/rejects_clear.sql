-- Deletes rejects. The reject for the damage at which a load stopped stays while the load can be resumed: its next run
-- deletes it and subtracts it from the counts of the load.
with wanted as (
    select
        r.load_id,
        r.source,
        r.byte_offset,
        r.reason = 'damaged_source' and l.resumable and l.state <> 'finished' as stays
    {matching}
),
gone as (
    delete from {schema}.reject
    where (load_id, source, byte_offset) in (select w.load_id, w.source, w.byte_offset from wanted w where not w.stays)
    returning load_id
)
select
    (select pg_catalog.count(*) from gone) as deleted,
    (select pg_catalog.count(*) from wanted where stays) as kept
