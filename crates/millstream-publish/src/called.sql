-- What the view $1, the indexes $3 of table $2 and values of the types $4 use outside pg_catalog: the schemas of functions and operators, in which a
-- new one may fit a call better, and the owners of functions, operators and types, who may change what these do.
with recursive
used as (
    select d.refclassid as class, d.refobjid as oid
    from pg_catalog.pg_depend d
    join pg_catalog.pg_rewrite w
      on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid and d.objid = w.oid
    where w.ev_class = $1::text::pg_catalog.regclass::pg_catalog.oid
    union
    select d.refclassid, d.refobjid
    from pg_catalog.pg_depend d
    join pg_catalog.pg_index i
      on d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid and d.objid = i.indexrelid
    join pg_catalog.pg_class c on c.oid = i.indexrelid
    where i.indrelid = $2::text::pg_catalog.regclass::pg_catalog.oid
      and c.relname::text = any ($3::text[])
),
function as (
    select p.proowner as owner, p.pronamespace as schema
    from used
    join pg_catalog.pg_proc p
      on used.class = 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid and p.oid = used.oid
    union
    select p.proowner, o.oprnamespace
    from used
    join pg_catalog.pg_operator o
      on used.class = 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid and o.oid = used.oid
    join pg_catalog.pg_proc p on p.oid = o.oprcode::pg_catalog.oid
),
-- With what they are made of. A domain's check is code.
type (oid) as (
    select used.oid
    from used
    where used.class = 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid
    union
    select pg_catalog.to_regtype(name)::pg_catalog.oid
    from pg_catalog.unnest($4::text[]) as given (name)
    union
    select part.oid
    from type
    join pg_catalog.pg_type t on t.oid = type.oid
    left join pg_catalog.pg_range r on r.rngtypid = t.oid or r.rngmultitypid = t.oid
    left join pg_catalog.pg_attribute a on a.attrelid = t.typrelid and t.typrelid <> 0
    cross join lateral (values (t.typbasetype), (t.typelem), (a.atttypid), (r.rngsubtype)) as part (oid)
    where part.oid <> 0
)
select coalesce((
           select pg_catalog.array_agg(distinct n.nspname::text order by n.nspname::text)
           from function
           join pg_catalog.pg_namespace n on n.oid = function.schema
           where n.nspname <> 'pg_catalog'
       ), '{}'),
       coalesce((
           select pg_catalog.array_agg(found.owner)
           from (
               select owner
               from function
               union
               select t.typowner
               from type
               join pg_catalog.pg_type t using (oid)
           ) as found
       ), '{}')
