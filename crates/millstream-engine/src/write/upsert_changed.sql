-- As upsert.sql, but a stored document that equals the staged one is neither locked nor written, which
-- the upsert alone would do.
with written as (
    insert into {table} as stored ({key}, doc)
    select {key}, doc
    from pg_temp.millstream_stage as staged
    where not exists (
        select
        from {table} as stored
        where {join}
          and stored.doc = staged.doc
    )
    order by {key}
    on conflict ({key}) do {action}
    returning (xmax = 0) as inserted
)
select count(*) filter (where inserted), count(*) filter (where not inserted)
from written
