-- As upsert.sql, for documents that come with the statement: one array per column, in key order. Only the unqualified
-- `unnest` takes several arrays.
with wanted as materialized (
    select *
    from unnest({arrays}) with ordinality as staged ({key}, doc, millstream_place)
    {filter}
),
written as (
    insert into {table} as stored ({key}, doc)
    select {key}, doc
    from wanted
    order by millstream_place
    on conflict ({key}) do {action}
    returning {inserted} as inserted
)
select
    (select count(*) from written where inserted),
    (select count(*) from written where not inserted),
    (select count(*) from wanted)
