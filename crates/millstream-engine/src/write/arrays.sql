-- As upsert.sql, for documents that come with the statement: one array per column, in key order.
with wanted as materialized (
    select *
    from rows from ({arrays}) with ordinality as staged ({key}, doc, millstream_place)
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
    (select pg_catalog.count(*) from written where inserted),
    (select pg_catalog.count(*) from written where not inserted),
    (select pg_catalog.count(*) from wanted)
