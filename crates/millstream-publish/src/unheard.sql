-- Why the change record is unreliable; null if it is reliable. Then every trigger exists and fires, a crash that
-- empties the collection empties the record too, and columns and triggers are what they were when the record was made.
-- Triggers are found by the functions they call, so a model in another schema has its own. The trigger with an argument
-- hears what a replication applies; only the table's owner can have it.
select case
        when kept.oid is null then 'it was dropped'
        when fired.present <> 5 then 'a trigger of the collection was dropped'
        when fired.disabled > 0 then 'a trigger of the collection is disabled'
        when fired.replicated = 0 and pg_catalog.pg_has_role(kept.relowner, written.relowner, 'usage')
            then 'no trigger of the collection records what a replication applies'
        when fired.replicated = 0 and exists (select from pg_catalog.pg_subscription_rel where srrelid = written.oid)
            then 'a subscription writes the collection, and only its owner can have that recorded'
        when exists (select from pg_catalog.pg_inherits where written.oid in (inhrelid, inhparent))
            then 'the collection inherits, or is inherited from'
        -- A table that takes no writes has no changes to record. A crash empties the record with what it belongs to: the
        -- models.
        when kept.relpersistence = 'u' and written.relpersistence <> 'u' and not frozen.in_place
            then 'the collection was made logged, the record not'
        when kept.relpersistence <> 'u' and written.relpersistence = 'u' then 'the collection was made unlogged, the record not'
        when altered.columns then 'a column of the collection was altered'
        when altered.triggers then 'a trigger of the collection was disabled for a while, or altered'
    end
from pg_catalog.pg_class as written
left join pg_catalog.pg_class as kept on kept.oid = pg_catalog.to_regclass($4)::oid
cross join (
    select
        pg_catalog.count(*) filter (where t.tgnargs = 0) as present,
        pg_catalog.count(*) filter (where t.tgnargs > 0) as replicated,
        pg_catalog.count(*) filter (where t.tgenabled = 'D' or t.tgnargs = 0 and t.tgenabled = 'R') as disabled
    from pg_catalog.pg_trigger t
    where t.tgrelid = $1
      and t.tgfoid in (pg_catalog.to_regprocedure($2)::oid, pg_catalog.to_regprocedure($3)::oid)
) as fired
cross join lateral (
    select coalesce(pg_catalog.obj_description(kept.oid, 'pg_class'), '') as text
) as comment
cross join lateral (
    -- A column that was added since the record was made has a higher number, and changed no document.
    select
        pg_catalog.bool_or(
            relied.nth > 0
            and relied.nth <= coalesce(
                (pg_catalog.regexp_match(comment.text, '^([0-9][0-9]?[0-9]?[0-9]?) '))[1]::integer, 9999
            )
            and pg_catalog.strpos(comment.text, relied.mark) = 0
        ) as columns,
        pg_catalog.bool_or(relied.nth = 0 and pg_catalog.strpos(comment.text, relied.mark) = 0) as triggers
    from (
{marks}    ) as relied
) as altered
cross join (
    select exists (
        select
        from pg_catalog.pg_trigger t
        where t.tgrelid = $1
          and t.tgname = 'millstream_frozen'
          and t.tgenabled = 'A'
    ) as in_place
) as frozen
where written.oid = $1
