-- The columns of a collection, and at 0 the triggers that record its changes: each with a mark that changes when somebody
-- alters it. So a column is known that was renamed, got another type or had its values rewritten, and a trigger that was
-- disabled for a while: what changed meanwhile fired no trigger. VACUUM FULL, and making the table logged or unlogged, do
-- not change the marks, but for a column that was added with a default: then one refresh more is a swap.
select a.attnum::integer as nth,
       pg_catalog.md5(pg_catalog.concat_ws(' ', a.attnum, a.attname, a.atttypid, a.xmin)) as mark
from pg_catalog.pg_attribute a
where a.attrelid = $1
  and a.attnum > 0
  and not a.attisdropped
union all
select 0,
       pg_catalog.md5(
           pg_catalog.string_agg(pg_catalog.concat_ws(' ', t.tgname, t.tgenabled, t.xmin), ', ' order by t.tgname)
       )
from pg_catalog.pg_trigger t
where t.tgrelid = $1
  and t.tgfoid in (pg_catalog.to_regprocedure($2)::oid, pg_catalog.to_regprocedure($3)::oid)
