select t.tgname::pg_catalog.text as name,
       t.tgtype as type
  from pg_catalog.pg_trigger t
 where (t.tgrelid = $1
        -- What a partition has of its parent is listed once.
        or t.tgparentid = 0 and t.tgrelid in (select p.relid from pg_catalog.pg_partition_tree($1) p
                                               where pg_catalog.pg_partition_root($1) = $1))
   and not t.tgisinternal
   and t.tgenabled <> 'D'
 order by t.tgname
