-- The columns of a table, those that hold text, and those of them that are in the order of their bytes, the planner's idea of its rows (-1 where it never looked), and the age of its statistics.
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
       ) as columns,
       array(
           select a.attname::text
           from pg_catalog.pg_attribute a
           where a.attrelid = c.oid
             and a.attnum > 0
             and not a.attisdropped
             and (a.atttypid = 'pg_catalog.text'::pg_catalog.regtype::pg_catalog.oid
                  or a.atttypid = 'pg_catalog.varchar'::pg_catalog.regtype::pg_catalog.oid)
       ) as texts,
       array(
           select a.attname::text
           from pg_catalog.pg_attribute a
           join pg_catalog.pg_collation l on l.oid = a.attcollation
           join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
           where a.attrelid = c.oid
             and a.attnum > 0
             and not a.attisdropped
             -- The built-in collations, and the libc's of that name. The default one is the database's.
             and case l.collprovider
                     when 'd' then d.datlocprovider = 'b' or (d.datlocprovider = 'c' and d.datcollate in ('C', 'POSIX'))
                     when 'c' then l.collcollate in ('C', 'POSIX')
                     else l.collprovider = 'b'
                 end
       ) as byte_ordered
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1
  and c.relname = $2
