-- The columns of a table, the planner's idea of its rows (-1 where it never looked), and the age of its statistics.
-- `date_part`, because the server could not plan a counted statement with `extract` again.
select c.oid,
       c.reltuples as rows,
       pg_catalog.date_part('epoch', pg_catalog.now() - greatest(
           pg_catalog.pg_stat_get_last_analyze_time(c.oid), pg_catalog.pg_stat_get_last_autoanalyze_time(c.oid)
       ))::pg_catalog.float8 as analyze_age,
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
