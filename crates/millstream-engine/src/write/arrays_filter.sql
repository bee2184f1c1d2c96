where not exists (
        select
        from {table} as stored
        where {join}
          and stored.doc = staged.doc
    )
