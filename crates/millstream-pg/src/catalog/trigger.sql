-- The bits are those of `catalog/pg_trigger.h`; `instead of` (64) exists on views only.
select t.tgname as name,
       t.tgtype & 1::int2 <> 0 as row,
       t.tgtype & 2::int2 <> 0 as before,
       t.tgtype & 4::int2 <> 0 as insert,
       t.tgtype & 8::int2 <> 0 as delete,
       t.tgtype & 16::int2 <> 0 as update
  from pg_catalog.pg_trigger t
 where (t.tgrelid = $1
        -- What a partition has of its parent is listed once.
        or t.tgparentid = 0::oid and t.tgrelid in (select p.relid::oid from pg_catalog.pg_partition_tree($1) p
                                               where pg_catalog.pg_partition_root($1)::oid = $1))
   and not t.tgisinternal
   and t.tgenabled <> 'D'
 order by t.tgname
