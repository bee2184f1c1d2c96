-- What the view $1, the indexes $3 of table $2 and values of the types $4 use outside pg_catalog: the schemas, in which a
-- new function may fit a call better, or a name become another object's, and the owners, who may change what their objects
-- do. Views, aggregates and the like count with what they use. The relations $5 do not count; their OIDs come too.
with recursive
used as (
    select 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid as class,
           $1::text::pg_catalog.regclass::pg_catalog.oid as oid
    union
    select d.refclassid, d.refobjid
    from pg_catalog.pg_depend d
    join pg_catalog.pg_index i
      on d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid and d.objid = i.indexrelid
    join pg_catalog.pg_class c on c.oid = i.indexrelid
    where i.indrelid = $2::text::pg_catalog.regclass::pg_catalog.oid
      and c.relname::text = any ($3::text[])
    union
    select d.refclassid, d.refobjid
    from used
    left join pg_catalog.pg_rewrite w
      on used.class = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid and w.ev_class = used.oid
    cross join lateral (
        values
            ('pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid, w.oid),
            ('pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid, used.oid)
    ) as source (class, oid)
    join pg_catalog.pg_depend d on d.classid = source.class and d.objid = source.oid
    where w.oid is not null
       or used.class = source.class
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
    left join pg_catalog.pg_attribute a on a.attrelid = t.typrelid and t.typrelid <> 0::pg_catalog.oid
    cross join lateral (values (t.typbasetype), (t.typelem), (a.atttypid), (r.rngsubtype)) as part (oid)
    where part.oid <> 0::pg_catalog.oid
),
found (owner, schema) as (
    select p.proowner, p.pronamespace
    from used
    join pg_catalog.pg_proc p
      on used.class = 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid and p.oid = used.oid
    union
    select p.proowner, o.oprnamespace
    from used
    join pg_catalog.pg_operator o
      on used.class = 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid and o.oid = used.oid
    join pg_catalog.pg_proc p on p.oid = o.oprcode::pg_catalog.oid
    union
    select c.relowner, c.relnamespace
    from used
    join pg_catalog.pg_class c
      on used.class = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid and c.oid = used.oid
    where c.relkind <> 'i'
      and c.oid <> all ($5::text[]::pg_catalog.regclass[]::pg_catalog.oid[])
    union
    select t.typowner, t.typnamespace
    from type
    join pg_catalog.pg_type t using (oid)
    -- The type of a row is its relation's.
    left join pg_catalog.pg_class c on c.oid = t.typrelid and c.relkind <> 'c'
    where c.oid is null
    union
    -- What a domain's check and an operator class call has no name in the text.
    select p.proowner, null
    from (
        select 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid as class, k.oid
        from type
        join pg_catalog.pg_constraint k on k.contypid = type.oid
    ) as checked
    join pg_catalog.pg_depend d on d.classid = checked.class and d.objid = checked.oid
    left join pg_catalog.pg_operator o
      on d.refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid and o.oid = d.refobjid
    join pg_catalog.pg_proc p
      on p.oid = case
          when d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid then d.refobjid
          else o.oprcode::pg_catalog.oid
      end
    union
    select p.proowner, null
    from used
    join pg_catalog.pg_opclass c
      on used.class = 'pg_catalog.pg_opclass'::pg_catalog.regclass::pg_catalog.oid and c.oid = used.oid
    cross join lateral (
        select s.amproc::pg_catalog.oid as oid
        from pg_catalog.pg_amproc s
        where s.amprocfamily = c.opcfamily
        union all
        select o.oprcode::pg_catalog.oid
        from pg_catalog.pg_amop s
        join pg_catalog.pg_operator o on o.oid = s.amopopr
        where s.amopfamily = c.opcfamily
    ) as part
    join pg_catalog.pg_proc p on p.oid = part.oid
)
select coalesce(
           pg_catalog.array_agg(distinct n.nspname::text order by n.nspname::text) filter (where n.nspname is not null),
           '{}'
       ),
       coalesce(pg_catalog.array_agg(distinct found.owner), '{}'),
       $5::text[]::pg_catalog.regclass[]::pg_catalog.oid[]
from found
left join pg_catalog.pg_namespace n on n.oid = found.schema
where n.nspname is distinct from 'pg_catalog'
