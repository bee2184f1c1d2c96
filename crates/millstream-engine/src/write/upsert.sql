-- Visits every key once, in key order, so that loads into one collection cannot deadlock.
with written as (
    insert into {table} as stored ({key}, doc)
    select {key}, doc
    from pg_temp.millstream_stage {filter}
    order by {key}
    on conflict ({key}) do {action}
    returning {inserted} as inserted
)
select count(*) filter (where inserted), count(*) filter (where not inserted)
from written
