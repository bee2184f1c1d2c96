select t.tgname::pg_catalog.text as name,
       t.tgtype as type
  from pg_catalog.pg_trigger t
 where t.tgrelid = $1
   and not t.tgisinternal
   and t.tgenabled <> 'D'
 order by t.tgname
