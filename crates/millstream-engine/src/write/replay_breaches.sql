-- An SQL expression for the name of the first CHECK constraint that a staged document breaks, in the order in which the
-- server checks them. Null if a constraint reads columns that a staged row does not have, or if a trigger or a
-- generated column comes before the constraints.
select 'case'::text || pg_catalog.string_agg(
    pg_catalog.format(' when not (%s) then %L::pg_catalog.text', pg_catalog.pg_get_expr(c.conbin, c.conrelid), c.conname),
    '' order by c.conname
) || ' end'
from pg_catalog.pg_constraint c
where c.conrelid = {oid}::oid
  and c.contype = 'c'
  and coalesce((pg_catalog.to_jsonb(c) operator(pg_catalog.->>) 'conenforced')::boolean, true)
having pg_catalog.bool_and(coalesce(c.conkey, '{}') operator(pg_catalog.<@) (
        select pg_catalog.array_agg(stored.attnum)
        from pg_catalog.pg_attribute stored
        join pg_catalog.pg_attribute staged using (attname, atttypid, attcollation)
        where stored.attrelid = {oid}::oid
          and staged.attrelid = 'pg_temp.millstream_replay'::pg_catalog.regclass::pg_catalog.oid
          and stored.attnum > 0
    ))
   and not exists (
        select
        from pg_catalog.pg_attribute
        where attrelid = {oid}::oid and attnum > 0 and not attisdropped and attgenerated <> ''
    )
   -- Triggers before insert for each row have the bits 1, 2 and 4.
   and not exists (
        select
        from pg_catalog.pg_trigger
        where tgrelid = {oid}::oid and not tgisinternal and tgenabled <> 'D' and tgtype & 7::int2 = 7
    )
into replay.breaches;
