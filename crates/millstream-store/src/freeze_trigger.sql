-- The name of a table that has the trigger $2, and the trigger's function if we made it in our schema, which is $3.
select pg_catalog.format('%I.%I', n.nspname, c.relname) as table,
       case
           when place.nspname = $3 and pg_catalog.starts_with(p.proname::text, 'millstream_frozen_')
               then pg_catalog.format('%I.%I', place.nspname, p.proname)
       end as function
from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid = t.tgrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_proc p on p.oid = t.tgfoid
join pg_catalog.pg_namespace place on place.oid = p.pronamespace
where t.tgrelid = $1
  and t.tgname = $2
