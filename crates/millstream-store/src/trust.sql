-- The first reason not to trust a schema: something in it belongs to a role that could use it to run code with the rights
-- of this one. $1 is the schema, $2 the roles that the caller trusts, $3, $4 and $5 our tables, sequences and functions.
-- It reads the catalog alone. Names are resolved in pg_catalog alone, so that nobody's operator runs before the answer.
with recursive
{roles}place as (
    select oid, nspowner
    from pg_catalog.pg_namespace
    where nspname operator(pg_catalog.=) $1::pg_catalog.text::pg_catalog.name
),
relation as (
    select c.oid,
           c.relname as name,
           c.relowner as owner,
           c.relkind as kind,
           c.relrowsecurity as is_secured,
           role.is_trusted,
           c.relname::pg_catalog.text operator(pg_catalog.=) any ($3::pg_catalog.text[]) as is_table,
           c.relname::pg_catalog.text operator(pg_catalog.=) any ($4::pg_catalog.text[]) as is_sequence
    from place
    join pg_catalog.pg_class c on c.relnamespace operator(pg_catalog.=) place.oid
    left join role on role.oid operator(pg_catalog.=) c.relowner
),
-- What our tables are made of, each with its address in pg_depend.
part as (
    select 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid as class, oid as object, name
    from relation
    where is_table
    union all
    select 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, i.indexrelid, r.name
    from relation r
    join pg_catalog.pg_index i on i.indrelid operator(pg_catalog.=) r.oid
    where r.is_table
    union all
    select 'pg_catalog.pg_attrdef'::pg_catalog.regclass::pg_catalog.oid, a.oid, r.name
    from relation r
    join pg_catalog.pg_attrdef a on a.adrelid operator(pg_catalog.=) r.oid
    where r.is_table
    union all
    select 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, c.oid, r.name
    from relation r
    join pg_catalog.pg_constraint c on c.conrelid operator(pg_catalog.=) r.oid
    where r.is_table
),
problem (place, problem, owner) as (
    select 1, 'it', nspowner
    from place
    where nspowner not in (select oid from role where is_trusted)
    union all
    select 2, pg_catalog.format('its relation %I', name), owner
    from relation
    where is_trusted is not true
      and (is_table or is_sequence or kind not in ('r', 'p', 'S', 'i', 'I'))
    union all
    select 3, pg_catalog.format('its function %I', p.proname), p.proowner
    from place
    join pg_catalog.pg_proc p on p.pronamespace operator(pg_catalog.=) place.oid
    where p.proname::pg_catalog.text operator(pg_catalog.=) any ($5::pg_catalog.text[])
      and p.proowner not in (select oid from role where is_trusted)
    union all
    select 4, pg_catalog.format('%I is not the table that Millstream makes', name), null
    from relation
    where is_table and kind operator(pg_catalog.<>) 'r'::pg_catalog."char"
       or is_sequence and kind operator(pg_catalog.<>) 'S'::pg_catalog."char"
    union all
    select 5, pg_catalog.format('table %I has the rule %I', r.name, w.rulename), null
    from relation r
    join pg_catalog.pg_rewrite w on w.ev_class operator(pg_catalog.=) r.oid
    where r.is_table or r.is_trusted is not true
    union all
    select 6, pg_catalog.format('table %I has row-level security', name), null
    from relation
    where is_secured
      and (is_table or is_trusted is not true)
    union all
    select 7, pg_catalog.format('table %I has the trigger %I', r.name, t.tgname), null
    from relation r
    join pg_catalog.pg_trigger t on t.tgrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) t.tgfoid
    where r.is_table
      and not t.tgisinternal
      -- Nobody knows who has written its condition.
      and (t.tgqual is not null or p.proowner not in (select oid from role where is_trusted))
    union all
    select 8, pg_catalog.format('function %s, which table %I uses,', p.oid::pg_catalog.regprocedure, part.name), p.proowner
    from part
    join pg_catalog.pg_depend d
      on d.classid operator(pg_catalog.=) part.class
     and d.objid operator(pg_catalog.=) part.object
     and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
    join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) d.refobjid
    where p.proowner not in (select oid from role where is_trusted)
)
select p.problem,
       pg_catalog.pg_get_userbyid(coalesce(role.actual, p.owner))::pg_catalog.text as owner,
       current_user::pg_catalog.text as role
from problem p
left join role on role.oid operator(pg_catalog.=) p.owner
order by p.place, p.problem
limit 1
