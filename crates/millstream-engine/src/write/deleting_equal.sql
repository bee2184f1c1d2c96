-- Removes documents from the batch that equal the stored one, before its rows are locked. As a join, it could be
-- planned from the collection.
delete from pg_temp.millstream_stage as staged
where millstream_effect <> 2
  and (
    select stored.doc = staged.doc
    from {table} as stored
    where {join}
)
