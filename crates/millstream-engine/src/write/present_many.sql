-- As present_one.sql, for keys that an answer cannot name by themselves: it names a key by its place in the request.
select pg_catalog.array_agg(asked.millstream_place)
from rows from ({arrays}) with ordinality as asked ({key}, millstream_place),
     lateral (
         select
         from {table} as stored
         where {join}
         offset 0
     ) as stored
