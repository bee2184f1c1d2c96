-- The name of the first CHECK constraint, in the order in which the server looks at them, that a staged
-- document breaks, as SQL. Null where one reads other columns than a staged row has, and where a trigger
-- or a generated column comes before them.
select 'case' || pg_catalog.string_agg(
    pg_catalog.format(' when not (%s) then %L::pg_catalog.text', pg_catalog.pg_get_expr(c.conbin, c.conrelid), c.conname),
    '' order by c.conname
) || ' end'
from pg_catalog.pg_constraint c
where c.conrelid = {oid}
  and c.contype = 'c'
  and coalesce((pg_catalog.to_jsonb(c) ->> 'conenforced')::boolean, true)
having pg_catalog.bool_and(coalesce(c.conkey, '{}') <@ (
        select pg_catalog.array_agg(stored.attnum)
        from pg_catalog.pg_attribute stored
        join pg_catalog.pg_attribute staged using (attname, atttypid, attcollation)
        where stored.attrelid = {oid}
          and staged.attrelid = 'pg_temp.millstream_replay'::pg_catalog.regclass
          and stored.attnum > 0
    ))
   and not exists (
        select
        from pg_catalog.pg_attribute
        where attrelid = {oid} and attnum > 0 and not attisdropped and attgenerated <> ''
    )
   -- Before each row that is inserted: the bits 1, 2 and 4.
   and not exists (
        select
        from pg_catalog.pg_trigger
        where tgrelid = {oid} and not tgisinternal and tgenabled <> 'D' and tgtype & 7 = 7
    )
into replay.breaches;
