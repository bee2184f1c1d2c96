-- The columns of a key, in their order, each with the type that it has now if that is not the recorded one ($3). A domain
-- counts as the type under it. `equal` is the operator by which that type is compared, if it has one of its own.
with recursive key as (
    select place, name, a.atttypid as type, $3::text[] as recorded
    from pg_catalog.unnest($2::text[]) with ordinality as key (name, place)
    left join pg_catalog.pg_attribute a on a.attrelid = $1 and a.attname = name and not a.attisdropped
),
under as (
    select place, name, type, recorded
    from key
    union all
    select under.place, under.name, t.typbasetype, under.recorded
    from under
    join pg_catalog.pg_type t on t.oid = under.type and t.typtype = 'd'
)
select under.name,
       case when t.oid <> pg_catalog.to_regtype(recorded[place])::oid then pg_catalog.format_type(t.oid, -1) end as type_name,
       (
           select pg_catalog.format('operator(%I.%s)', n.nspname, o.oprname)
           from pg_catalog.pg_opclass c
           join pg_catalog.pg_am m on m.oid = c.opcmethod and m.amname = 'btree'
           join pg_catalog.pg_amop a
             on a.amopfamily = c.opcfamily
            and a.amoplefttype = t.oid
            and a.amoprighttype = t.oid
            and a.amopstrategy = 3::int2
           join pg_catalog.pg_operator o on o.oid = a.amopopr
           join pg_catalog.pg_namespace n on n.oid = o.oprnamespace
           where c.opcintype = t.oid
             and c.opcdefault
       ) as equal
from under
left join pg_catalog.pg_type t on t.oid = under.type
where t.typtype is distinct from 'd'
order by place
