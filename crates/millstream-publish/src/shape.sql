-- The columns in which a table and a model differ: by declaration, or because only one has them.
with columns as (
    select
        a.attrelid,
        a.attnum,
        t.typtype,
        a.attname,
        pg_catalog.format_type(a.atttypid, a.atttypmod)
        || case
               when a.attcollation <> t.typcollation
               then ' collate ' || a.attcollation::pg_catalog.regcollation::text
               else ''
           end as declared
    from pg_catalog.pg_attribute a
    join pg_catalog.pg_type t on t.oid = a.atttypid
    where a.attrelid in ($1::text::pg_catalog.regclass::oid, $2::text::pg_catalog.regclass::oid)
      and a.attnum > 0
      and not a.attisdropped
)
select coalesce(new.attname, old.attname)::text as name, new.declared as declared, old.declared as before,
       new.typtype is not distinct from 'd' as is_domain
from (select * from columns where attrelid = $1::text::pg_catalog.regclass::oid) as new
full join (select * from columns where attrelid = $2::text::pg_catalog.regclass::oid) as old using (attname)
where new.declared is distinct from old.declared
order by new.attnum nulls last, old.attnum
