-- Leaves out documents that equal the stored one. An upsert alone would lock and write its row.
where not exists (
        select
        from {table} as stored
        where {join}
          and stored.doc = staged.doc
    )
