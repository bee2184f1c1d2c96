select k.conname::pg_catalog.text as name,
       k.contype::pg_catalog.text as kind,
       pg_catalog.pg_get_constraintdef(k.oid) as definition
  from pg_catalog.pg_constraint k
 where k.conrelid = $1
   and k.contype in ('c', 'f')
 order by k.conname
