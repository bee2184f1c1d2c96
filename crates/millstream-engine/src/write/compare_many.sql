-- As compare_one.sql, for keys of several columns: the answer names a key by its place in the request.
select pg_catalog.array_agg(found.millstream_place),
       pg_catalog.array_agg(pg_catalog.hashtextextended(found.text, ${seed_1}::bigint)),
       pg_catalog.array_agg(pg_catalog.hashtextextended(found.text, ${seed_2}::bigint))
from (
    select asked.millstream_place, stored.text
    from rows from ({arrays}) with ordinality as asked ({key}, millstream_place),
         lateral (
             select stored.doc::text collate "C" as text
             from {table} as stored
             where {join}
             offset 0
         ) as stored
    offset 0
) as found
