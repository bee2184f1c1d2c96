-- Visits every key once, in key order, so that two upserts cannot deadlock.
with written as (
    insert into {table} as stored ({key}, doc)
    select {key}, doc
    from {stage} {filter}
    order by {key}
    on conflict ({key}) do {action}
    returning {inserted} as inserted{returned}
){more}
select pg_catalog.count(*) filter (where inserted), pg_catalog.count(*) filter (where not inserted)
from written
