-- Deletes the rows that the batch's tombstones name. Returns how many rows it deleted, and how many tombstones there
-- are.
with gone as (
    delete from {table} as stored
    using (
        select {key}, doc from {stage} where {run} and millstream_effect = 2 order by {key}
    ) as staged
    where {join} and ({condition}) is true
    returning 1
)
select (select pg_catalog.count(*) from gone),
       (select pg_catalog.count(*) from {stage} where {run} and millstream_effect = 2)
