-- A fingerprint of a collection's key columns and doc. It changes when one of them is renamed, gets another type, or
-- has its values rewritten. VACUUM FULL, and making the table logged or unlogged, do not change it.
select pg_catalog.md5(pg_catalog.string_agg(
    pg_catalog.concat_ws(' ', a.attnum, a.attname, a.atttypid, a.xmin), ', ' order by a.attnum))
from pg_catalog.pg_attribute a
where a.attrelid = $1
  and (
      a.attname = 'doc'
      or exists (select from pg_catalog.pg_index i
                 where i.indrelid = a.attrelid and i.indisunique and a.attnum = any (i.indkey::int2[]))
  )
