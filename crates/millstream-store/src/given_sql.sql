-- What SQL that somebody gave may use that would run code of a role that this session does not trust, and that role; nothing if
-- this session has no more rights than tables need. Only names are compared, for to parse the SQL is to read its values, and to
-- read a value made of domains is to run their checks. $1, $2 and $3 are the schema, the name and the place of each name, $4 and
-- $5 the schema and the name of each operator. $6 are roles that the caller trusts. $7 is whether there are values, $8 what
-- does not say which name it means, if there is such, $9 whether arguments may be given by name. What the relations run that the
-- SQL reads is said by foreign_relation.sql.
with recursive
{roles}stranger (oid, name) as (
    select role.oid, pg_catalog.pg_get_userbyid(role.actual)::pg_catalog.text
    from role
    where not role.is_trusted
    union all
    -- A grant to everybody.
    select 0::pg_catalog.oid, 'public'::pg_catalog.text
    where not 'public'::pg_catalog.text operator(pg_catalog.=) any ($6::pg_catalog.text[])
),
-- Schemas in which they may create.
open (oid, creator) as (
    select n.oid, pg_catalog.min(stranger.name)
    from pg_catalog.pg_namespace n
    cross join lateral (
        select n.nspowner as oid
        union all
        select entry.grantee
        from pg_catalog.aclexplode(n.nspacl) as entry
        where entry.privilege_type operator(pg_catalog.=) 'CREATE'::pg_catalog.text
    ) as creator
    join stranger on stranger.oid operator(pg_catalog.=) creator.oid
    group by n.oid
),
name (schema, name, place) as (
    select given.schema::pg_catalog.name, given.name::pg_catalog.name, given.place
    from rows from (
        pg_catalog.unnest($1::pg_catalog.text[]),
        pg_catalog.unnest($2::pg_catalog.text[]),
        pg_catalog.unnest($3::pg_catalog.text[])
    ) as given (schema, name, place)
),
operator_name (schema, name) as (
    select given.schema::pg_catalog.name, given.name::pg_catalog.name
    from rows from (
        pg_catalog.unnest($4::pg_catalog.text[]), pg_catalog.unnest($5::pg_catalog.text[])
    ) as given (schema, name)
),
place (oid, name, is_searched) as (
    select n.oid, n.nspname, n.nspname operator(pg_catalog.=) any (pg_catalog.current_schemas(true))
    from pg_catalog.pg_namespace n
    where n.oid operator(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
),
-- What may be called. What is hidden by one before it on the search path, with the same arguments, cannot be.
called (what, owner, place, arguments, has_namesake) as (
    select pg_catalog.format('the function %s', p.oid::pg_catalog.regprocedure),
           p.proowner,
           place.oid,
           p.proargtypes::pg_catalog.oid[] operator(pg_catalog.||) p.prorettype,
           name.schema is null
           and exists (
               select
               from pg_catalog.pg_proc own
               where own.proname operator(pg_catalog.=) name.name
                 and own.pronamespace operator(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
           )
    from name
    join pg_catalog.pg_proc p on p.proname operator(pg_catalog.=) name.name
    join place on place.oid operator(pg_catalog.=) p.pronamespace
    where case
              when name.schema is not null then place.name operator(pg_catalog.=) name.schema
              else pg_catalog.pg_function_is_visible(p.oid)
                  or place.is_searched
                  and (
                      p.pronargdefaults operator(pg_catalog.>) 0::pg_catalog.int2
                      or p.provariadic operator(pg_catalog.<>) 0::pg_catalog.oid
                      or $9::pg_catalog.bool and p.proargnames is not null
                  )
          end
      and (
          name.place operator(pg_catalog.=) 'called'::pg_catalog.text
          or name.place operator(pg_catalog.=) 'dotted'::pg_catalog.text
          and exists (
              select
              from pg_catalog.pg_type t
              where t.oid operator(pg_catalog.=) p.proargtypes[0]
                and p.pronargs operator(pg_catalog.=) 1::pg_catalog.int2
                and t.typtype operator(pg_catalog.=) any ('{c,p}'::pg_catalog."char"[])
          )
      )
    union all
    select pg_catalog.format('the operator %s', o.oid::pg_catalog.regoperator),
           p.proowner,
           place.oid,
           array[o.oprleft, o.oprright, o.oprresult],
           given.schema is null
           and exists (
               select
               from pg_catalog.pg_operator own
               where own.oprname operator(pg_catalog.=) given.name
                 and own.oprnamespace operator(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
           )
    from operator_name as given
    join pg_catalog.pg_operator o on o.oprname operator(pg_catalog.=) given.name
    join place on place.oid operator(pg_catalog.=) o.oprnamespace
    join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) o.oprcode::pg_catalog.oid
    where case
              when given.schema is not null then place.name operator(pg_catalog.=) given.schema
              else pg_catalog.pg_operator_is_visible(o.oid)
          end
),
-- Types that are named, and those of arguments and results, with which a value may be compared.
root (what, oid, is_named) as (
    select pg_catalog.format('the type %s', t.oid::pg_catalog.regtype), t.oid, true
    from name
    join pg_catalog.pg_type t on t.typname operator(pg_catalog.=) name.name
    join place on place.oid operator(pg_catalog.=) t.typnamespace
    left join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) t.typrelid
    where (
          name.place operator(pg_catalog.=) any ('{called,type}'::pg_catalog.text[])
          -- A table has a type of its name.
          or name.place operator(pg_catalog.=) 'word'::pg_catalog.text
          and (c.oid is null or c.relkind operator(pg_catalog.=) 'c'::pg_catalog."char")
      )
      and case
              when name.schema is not null then place.name operator(pg_catalog.=) name.schema
              else pg_catalog.pg_type_is_visible(t.oid)
          end
    union all
    select called.what, argument.oid, false
    from called
    cross join lateral pg_catalog.unnest(called.arguments) as argument (oid)
),
-- With what they are made of. A value of a domain itself is read as one of the type below it.
within (what, oid, is_named, is_inside) as (
    select root.what, root.oid, root.is_named, false
    from root
    union
    select within.what, more.oid, within.is_named, within.is_inside or more.is_inside
    from within
    cross join lateral (
        select t.typbasetype as oid, false as is_inside
        from pg_catalog.pg_type t
        where t.oid operator(pg_catalog.=) within.oid
        union all
        select t.typelem, true
        from pg_catalog.pg_type t
        where t.oid operator(pg_catalog.=) within.oid
        union all
        select a.atttypid, true
        from pg_catalog.pg_type t
        join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) t.typrelid
        where t.oid operator(pg_catalog.=) within.oid
          and t.typrelid operator(pg_catalog.<>) 0::pg_catalog.oid
          and a.attnum operator(pg_catalog.>) 0::pg_catalog.int2
        union all
        select g.rngsubtype, true
        from pg_catalog.pg_range g
        where g.rngtypid operator(pg_catalog.=) within.oid
           or g.rngmultitypid operator(pg_catalog.=) within.oid
    ) as more
    where more.oid operator(pg_catalog.<>) 0::pg_catalog.oid
),
found (what, owner) as (
    select called.what, stranger.name
    from called
    join stranger on stranger.oid operator(pg_catalog.=) called.owner
    union all
    select called.what, open.creator
    from called
    join open on open.oid operator(pg_catalog.=) called.place
    where not called.has_namesake
    union all
    select within.what, stranger.name
    from within
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) within.oid
    cross join lateral (
        select t.typowner as oid
        union all
        select p.proowner
        from pg_catalog.pg_constraint k
        join pg_catalog.pg_depend d
          on d.classid operator(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid
         and d.objid operator(pg_catalog.=) k.oid
        left join pg_catalog.pg_operator o
          on d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid
         and o.oid operator(pg_catalog.=) d.refobjid
        join pg_catalog.pg_proc p
          on p.oid operator(pg_catalog.=) case
              when d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
                  then d.refobjid
              else o.oprcode::pg_catalog.oid
          end
        where k.contypid operator(pg_catalog.=) t.oid
    ) as author
    join stranger on stranger.oid operator(pg_catalog.=) author.oid
    where within.is_named
       or $7::pg_catalog.bool
      and within.is_inside
      and t.typtype operator(pg_catalog.=) 'd'::pg_catalog."char"
    union all
    -- Others may have written casts and functions of a type, whoever owns it.
    select within.what, stranger.name
    from within
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) within.oid
    join place on place.oid operator(pg_catalog.=) t.typnamespace
    cross join lateral (
        select c.castfunc as oid
        from pg_catalog.pg_cast c
        where c.castsource operator(pg_catalog.=) t.oid
           or c.casttarget operator(pg_catalog.=) t.oid
        union all
        select d.refobjid
        from pg_catalog.pg_depend d
        where d.classid operator(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid
          and d.objid operator(pg_catalog.=) t.oid
          and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
    ) as code
    join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) code.oid
    join stranger on stranger.oid operator(pg_catalog.=) p.proowner
    union all
    select unclear.what, null
    from (values ($8::pg_catalog.text)) as unclear (what)
    where unclear.what is not null
)
select found.what, found.owner
from found
where exists (
{powers})
order by found.owner is null, found.what
limit 1
