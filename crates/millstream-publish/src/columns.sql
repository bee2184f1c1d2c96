-- What key and doc of a collection are: another name or type of one, and a rewrite of its values, is another line of
-- the catalog and so another text. VACUUM FULL and a change between logged and unlogged leave these lines alone.
select pg_catalog.md5(pg_catalog.string_agg(
    pg_catalog.concat_ws(' ', a.attnum, a.attname, a.atttypid, a.xmin), ', ' order by a.attnum))
from pg_catalog.pg_attribute a
where a.attrelid = $1
  and (
      a.attname = 'doc'
      or exists (select from pg_catalog.pg_index i
                 where i.indrelid = a.attrelid and i.indisunique and a.attnum = any (i.indkey::int2[]))
  )
