-- The columns of a table, and the planner's idea of its rows; -1 where it never looked.
select c.oid,
       c.reltuples as rows,
       pg_catalog.current_setting('server_version_num')::pg_catalog.int4 as version_num,
       array(
           select a.attname::text
           from pg_catalog.pg_attribute a
           where a.attrelid = c.oid
             and a.attnum > 0
             and not a.attisdropped
           order by a.attnum
       ) as columns
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1
  and c.relname = $2
