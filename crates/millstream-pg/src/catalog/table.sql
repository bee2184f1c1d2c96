select c.oid::pg_catalog.int8 as oid,
       n.nspname as schema,
       c.relname as name,
       c.relkind::pg_catalog.text as kind,
       c.relpersistence::pg_catalog.text as persistence,
       exists (select from pg_catalog.pg_inherits i where i.inhparent = c.oid) as has_children,
       pg_catalog.pg_get_userbyid(c.relowner)::pg_catalog.text as owner,
       array(select r.rulename::pg_catalog.text from pg_catalog.pg_rewrite r
              where r.ev_class = c.oid and r.rulename <> '_RETURN' order by r.rulename) as rules,
       array(select k.conname::pg_catalog.text from pg_catalog.pg_constraint k
              where k.conrelid = c.oid and k.contype = 'c' order by k.conname) as checks,
       array(select k.conname::pg_catalog.text from pg_catalog.pg_constraint k
              where k.conrelid = c.oid and k.contype = 'f' order by k.conname) as foreign_keys,
       array(select pg_catalog.format('%I.%I', pn.nspname, p.relname)
               from pg_catalog.pg_partition_tree(c.oid) t
               join pg_catalog.pg_class p on p.oid = t.relid::oid
               join pg_catalog.pg_namespace pn on pn.oid = p.relnamespace
              where c.relkind = 'p' and p.relkind = 'f' order by 1) as foreign_partitions,
       array(select pg_catalog.format('%I.%I', pn.nspname, p.relname)
               from pg_catalog.pg_partition_tree(c.oid) t
               join pg_catalog.pg_class p on p.oid = t.relid::oid
               join pg_catalog.pg_namespace pn on pn.oid = p.relnamespace
              where c.relkind = 'p' and p.relpersistence = 'u' order by 1) as unlogged_partitions,
       c.relrowsecurity as enabled,
       pg_catalog.row_security_active(c.oid) as applies,
       pg_catalog.has_schema_privilege(n.oid, 'usage') as schema_usage,
       pg_catalog.has_table_privilege(c.oid, 'select') as select,
       pg_catalog.has_table_privilege(c.oid, 'insert') as insert,
       pg_catalog.has_table_privilege(c.oid, 'update') as update,
       pg_catalog.has_table_privilege(c.oid, 'delete') as delete,
       pg_catalog.pg_has_role(c.relowner, 'usage') as own
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname = $1::pg_catalog.text
   and c.relname = $2::pg_catalog.text
