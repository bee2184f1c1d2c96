-- A range of a group in which some documents delete. A key is deleted or written, never both.
with latest as materialized (
    {latest}
),
gone as (
    delete from {table} as stored
    using latest
    where {join}
      and latest.doc is null
)
insert into {table} ({key}, doc)
select {key}, doc
from latest
where doc is not null
on conflict ({key}) do update set doc = excluded.doc
