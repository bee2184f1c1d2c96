select ic.relname::pg_catalog.text as name,
       i.indisprimary as primary,
       i.indisunique or i.indisexclusion as restricts,
       i.indisunique and not i.indisexclusion and i.indimmediate and i.indisvalid and i.indisready and i.indislive
         and i.indpred is null and not 0 = any (i.indkey::pg_catalog.int2[]) as inferable,
       array(select a.attname::pg_catalog.text
               from pg_catalog.unnest(i.indkey::pg_catalog.int2[]) with ordinality as k (attnum, place)
               join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
              where k.place <= i.indnkeyatts
              order by k.place) as columns,
       pg_catalog.pg_get_indexdef(i.indexrelid) as definition
  from pg_catalog.pg_index i
  join pg_catalog.pg_class ic on ic.oid = i.indexrelid
 where i.indrelid = $1
 order by i.indisprimary desc, ic.relname
