-- What of a role that this session does not trust SQL would run because of the relations that it reads, and that role: a type
-- of a column, or a relation; nothing if this session has no more rights than tables need. A type's owner may give it casts
-- and checks at any moment, and the planner, `analyze` and functions such as to_jsonb find code by a column's type. $1 are the
-- relations that the caller has chosen. They may belong to anybody unless they are views. $2 and $3 are the schema and the
-- name of each relation that SQL may name. $4 are roles that the caller trusts. Each `offset 0` makes the planner look rows
-- up by their index: it knows too little of the lists to see that they are short, and would read whole catalogs.
with recursive
{roles}stranger (oid, name) as (
    select role.oid, pg_catalog.pg_get_userbyid(role.actual)::pg_catalog.text
    from role
    where not role.is_trusted
),
-- With what a view reads, and with partitions and the like, which are planned with their parent.
relation (oid, is_chosen) as (
    select chosen.oid, true
    from pg_catalog.unnest($1::pg_catalog.oid[]) as chosen (oid)
    union
    select named.oid, false
    from rows from (
        pg_catalog.unnest($2::pg_catalog.text[]), pg_catalog.unnest($3::pg_catalog.text[])
    ) as given (schema, name)
    cross join lateral (
        select c.oid
        from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
        where c.relname operator(pg_catalog.=) given.name::pg_catalog.name
          and c.relkind operator(pg_catalog.=) any ('{r,p,v,m,f}'::pg_catalog."char"[])
          and case
                  when given.schema is not null
                      then n.nspname operator(pg_catalog.=) given.schema::pg_catalog.name
                  else pg_catalog.pg_table_is_visible(c.oid)
              end
        offset 0
    ) as named
    where named.oid operator(pg_catalog.<>) all ($1::pg_catalog.oid[])
    union
    select more.oid, more.is_chosen
    from relation
    cross join lateral (
        select d.refobjid as oid, false as is_chosen
        from pg_catalog.pg_class c
        join pg_catalog.pg_rewrite w on w.ev_class operator(pg_catalog.=) c.oid
        join pg_catalog.pg_depend d
          on d.classid operator(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid
         and d.objid operator(pg_catalog.=) w.oid
         and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
        where c.oid operator(pg_catalog.=) relation.oid
          and c.relkind operator(pg_catalog.=) 'v'::pg_catalog."char"
        union all
        select i.inhrelid, relation.is_chosen
        from pg_catalog.pg_inherits i
        where i.inhparent operator(pg_catalog.=) relation.oid
        offset 0
    ) as more
    where more.oid operator(pg_catalog.<>) all ($1::pg_catalog.oid[])
),
fact (oid, is_chosen, name, owner, kind, schema) as (
    select relation.oid, relation.is_chosen, c.name, c.owner, c.kind, c.schema
    from relation
    cross join lateral (
        select c.oid::pg_catalog.regclass::pg_catalog.text as name, c.relowner as owner, c.relkind as kind,
               c.relnamespace as schema
        from pg_catalog.pg_class c
        where c.oid operator(pg_catalog.=) relation.oid
        offset 0
    ) as c
),
-- The types of their columns that are not PostgreSQL's own, with what these are made of.
type (oid, owner, place) as (
    select t.oid, t.owner, a.place
    from fact
    cross join lateral (
        select a.atttypid, pg_catalog.format('the column %I of %s', a.attname, fact.name) as place
        from pg_catalog.pg_attribute a
        where a.attrelid operator(pg_catalog.=) fact.oid
          and a.attnum operator(pg_catalog.>) 0::pg_catalog.int2
        offset 0
    ) as a
    cross join lateral (
        select t.oid, t.typowner as owner
        from pg_catalog.pg_type t
        where t.oid operator(pg_catalog.=) a.atttypid
          and t.typnamespace operator(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
        offset 0
    ) as t
    union
    select t.oid, t.owner, type.place
    from type
    cross join lateral (
        select part.oid
        from pg_catalog.pg_type whole
        cross join lateral (values (whole.typbasetype), (whole.typelem)) as part (oid)
        where whole.oid operator(pg_catalog.=) type.oid
        union all
        select a.atttypid
        from pg_catalog.pg_type whole
        join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) whole.typrelid
        where whole.oid operator(pg_catalog.=) type.oid
          and a.attnum operator(pg_catalog.>) 0::pg_catalog.int2
        union all
        select part.oid
        from pg_catalog.pg_range g
        cross join lateral (values (g.rngtypid), (g.rngsubtype)) as part (oid)
        where g.rngtypid operator(pg_catalog.=) type.oid
           or g.rngmultitypid operator(pg_catalog.=) type.oid
        offset 0
    ) as part
    cross join lateral (
        select t.oid, t.typowner as owner
        from pg_catalog.pg_type t
        where t.oid operator(pg_catalog.=) part.oid
          and t.typnamespace operator(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
        offset 0
    ) as t
),
-- What has code, with its address in pg_depend.
part (place, class, oid) as (
    select type.place, 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, type.oid
    from type
    union all
    select type.place, 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, k.oid
    from type
    cross join lateral (
        select k.oid from pg_catalog.pg_constraint k where k.contypid operator(pg_catalog.=) type.oid offset 0
    ) as k
    union all
    select 'the view ' operator(pg_catalog.||) fact.name,
           'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid,
           w.oid
    from fact
    cross join lateral (
        select w.oid from pg_catalog.pg_rewrite w where w.ev_class operator(pg_catalog.=) fact.oid offset 0
    ) as w
    where fact.kind operator(pg_catalog.=) 'v'::pg_catalog."char"
),
found (place, what, owner) as (
    select 1, 'the relation ' operator(pg_catalog.||) fact.name, fact.owner
    from fact
    where fact.schema operator(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
      and (not fact.is_chosen or fact.kind operator(pg_catalog.=) 'v'::pg_catalog."char")
    union all
    select 2, pg_catalog.format('the type %s of %s', type.oid::pg_catalog.regtype, type.place), type.owner
    from type
    union all
    select 3, pg_catalog.format('the function %s of %s', code.oid::pg_catalog.regprocedure, part.place), code.owner
    from part
    cross join lateral (
        select p.oid, p.proowner as owner
        from pg_catalog.pg_depend d
        left join pg_catalog.pg_operator o
          on o.oid operator(pg_catalog.=) d.refobjid
         and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid
        join pg_catalog.pg_proc p
          on p.oid operator(pg_catalog.=) case
              when d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
                  then d.refobjid
              else o.oprcode::pg_catalog.oid
          end
        where d.classid operator(pg_catalog.=) part.class
          and d.objid operator(pg_catalog.=) part.oid
        union all
        select p.oid, p.proowner
        from pg_catalog.pg_cast c
        join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) c.castfunc
        where part.class operator(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid
          and (
              c.castsource operator(pg_catalog.=) part.oid
              or c.casttarget operator(pg_catalog.=) part.oid
          )
        offset 0
    ) as code
)
select found.what, stranger.name as owner
from found
join stranger on stranger.oid operator(pg_catalog.=) found.owner
where exists (
{powers})
order by found.place, found.what
limit 1
