-- Leaves out documents that equal the stored one. An upsert alone would lock and write its row.
-- `is true` keeps the planner from looking for an index on the documents.
where not exists (
        select
        from {table} as stored
        where {join}
          and (stored.doc = staged.doc) is true
    )
