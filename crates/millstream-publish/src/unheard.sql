-- Why the change record is unreliable; null if it is reliable. Then every trigger exists and fires, a crash that
-- empties the collection empties the record too, and key and doc are what they were when the record was made. Triggers
-- are found by the functions they call, so a model in another schema has its own.
select case
        when kept.oid is null then 'it was dropped'
        when fired.present <> 5 then 'a trigger of the collection was dropped'
        when fired.enabled <> 5 then 'a trigger of the collection is disabled'
        when exists (select from pg_catalog.pg_inherits where written.oid in (inhrelid, inhparent))
            then 'the collection inherits, or is inherited from'
        when kept.relpersistence = 'u' and written.relpersistence <> 'u' then 'the collection was made logged, the record not'
        when kept.relpersistence <> 'u' and written.relpersistence = 'u' then 'the collection was made unlogged, the record not'
        when pg_catalog.obj_description(kept.oid, 'pg_class') is distinct from (
{columns}        ) then 'a column of its key, or doc, was altered'
    end
from pg_catalog.pg_class as written
left join pg_catalog.pg_class as kept on kept.oid = pg_catalog.to_regclass($2)::oid
cross join (
    select pg_catalog.count(*) as present, pg_catalog.count(*) filter (where t.tgenabled in ('O', 'A')) as enabled
    from pg_catalog.pg_trigger t
    where t.tgrelid = $1
      and t.tgfoid in (pg_catalog.to_regprocedure($3)::oid, pg_catalog.to_regprocedure($4)::oid)
) as fired
where written.oid = $1
