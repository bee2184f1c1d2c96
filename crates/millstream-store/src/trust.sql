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
           c.relname::pg_catalog.text operator(pg_catalog.=) any ($4::pg_catalog.text[]) as is_sequence,
           c.relname::pg_catalog.text operator(pg_catalog.~) '^(segment|model|change)_[0-9]'::pg_catalog.text as is_numbered
    from place
    join pg_catalog.pg_class c on c.relnamespace operator(pg_catalog.=) place.oid
    left join role on role.oid operator(pg_catalog.=) c.relowner
),
-- What we read and others could fill with code: our tables, and segments and change records of other roles. Planning a
-- query of such a table is enough to run functions in its indexes and statistics.
plain as (
    select oid, name
    from relation
    where is_table
       or is_trusted is not true
      and kind operator(pg_catalog.=) 'r'::pg_catalog."char"
      and name::pg_catalog.text operator(pg_catalog.~) '^(segment|change)_[0-9]+$'::pg_catalog.text
),
problem (place, problem, owner) as (
    select 1, 'it', nspowner
    from place
    where nspowner not in (select oid from role where is_trusted)
    union all
    select 2, pg_catalog.format('its relation %I', name), owner
    from relation
    where is_trusted is not true
      and (
          is_table
          or is_sequence
          or is_numbered
         and kind not in ('r', 'p', 'S', 'i', 'I')
          -- The columns by which a table is divided may be expressions.
          or kind operator(pg_catalog.=) 'p'::pg_catalog."char"
         and name::pg_catalog.text operator(pg_catalog.~) '^(segment|change)_[0-9]+$'::pg_catalog.text
      )
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
    where r.is_table
       or r.is_trusted is not true
      and r.is_numbered
    union all
    select 6, pg_catalog.format('table %I has row-level security', name), null
    from relation
    where is_secured
      and (is_table or is_trusted is not true and is_numbered)
    union all
    select 7, pg_catalog.format('table %I has the trigger %I', r.name, t.tgname), null
    from relation r
    join pg_catalog.pg_trigger t on t.tgrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) t.tgfoid
    where r.oid in (select oid from plain)
      and not t.tgisinternal
      -- Nobody knows who has written its condition.
      and (t.tgqual is not null or p.proowner not in (select oid from role where is_trusted))
    union all
    select 8, pg_catalog.format('table %I has the check %I', r.name, k.conname), null
    from plain r
    join pg_catalog.pg_constraint k on k.conrelid operator(pg_catalog.=) r.oid
    where k.contype operator(pg_catalog.=) 'c'::pg_catalog."char"
      and not (
          r.name operator(pg_catalog.=) 'load'::pg_catalog.name
          and k.conname operator(pg_catalog.=) 'load_state_check'::pg_catalog.name
      )
    union all
    select 9, pg_catalog.format('table %I has the index %I', r.name, c.relname), null
    from plain r
    join pg_catalog.pg_index i on i.indrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) i.indexrelid
    where i.indexprs is not null
       or i.indpred is not null
    union all
    select 10, pg_catalog.format('table %I has the statistics %I', r.name, s.stxname), null
    from plain r
    join pg_catalog.pg_statistic_ext s on s.stxrelid operator(pg_catalog.=) r.oid
    union all
    select 11, pg_catalog.format('table %I inherits, or is inherited from', r.name), null
    from plain r
    join pg_catalog.pg_inherits i
      on i.inhrelid operator(pg_catalog.=) r.oid
      or i.inhparent operator(pg_catalog.=) r.oid
    union all
    select 12, pg_catalog.format('column %I of table %I has a type that is not PostgreSQL''s own', a.attname, r.name), null
    from plain r
    join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) a.atttypid
    where t.typnamespace operator(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
    union all
    select 13, pg_catalog.format('column %I of table %I has the default %s', a.attname, r.name, d.text), null
    from relation r
    join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
    cross join lateral (
        select pg_catalog.pg_get_expr(d.adbin, d.adrelid) as text
        from pg_catalog.pg_attrdef d
        where d.adrelid operator(pg_catalog.=) r.oid
          and d.adnum operator(pg_catalog.=) a.attnum
    ) d
    where r.is_table
      and (
          a.attgenerated operator(pg_catalog.<>) ''::pg_catalog."char"
          or not d.text operator(pg_catalog.~)
              '^(now\(\)|true|false|[0-9]+|''[^'']*''::[a-z]+(\[\])?)$'::pg_catalog.text
      )
    union all
    select 14, pg_catalog.format('table %s references table %I', k.conrelid::pg_catalog.regclass, r.name), null
    from relation r
    join pg_catalog.pg_constraint k on k.confrelid operator(pg_catalog.=) r.oid
    where r.is_table
      and k.conrelid not in (select oid from relation where is_table)
)
select p.problem,
       pg_catalog.pg_get_userbyid(coalesce(role.actual, p.owner))::pg_catalog.text as owner,
       current_user::pg_catalog.text as role
from problem p
left join role on role.oid operator(pg_catalog.=) p.owner
order by p.place, p.problem
limit 1
