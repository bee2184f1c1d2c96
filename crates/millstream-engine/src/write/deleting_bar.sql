-- Removes documents from the batch that are older than the tombstone of their key. As a join, it could be planned from
-- the tombstones, of which there may be many.
delete from {stage} as staged
where {run} and (
    select gone.version
    from {schema}.tombstone as gone
    where gone.table_oid = {oid}::oid
      and gone.version_of = {version_of}
      and gone.id = staged.millstream_id
) > staged.millstream_version
