-- Code of other roles that runs with the rights of this session when rows of table $1 are written: triggers, checks,
-- defaults, generated columns, keys of partitions, index expressions, statistics, rules and domains, each with the role that
-- wrote it. $2 are roles that the caller trusts. If $3 is true, only what runs when the table is read: what the planner
-- evaluates. Nothing if this session has no more rights than tables need. A security definer function has the rights of its
-- own owner.
with recursive
{roles}-- The table, its partitions, and when it is written, tables whose rows are changed when a row that they reference is.
tree (oid) as (
    select $1::pg_catalog.oid
    union
    select more.oid
    from tree
    cross join lateral (
        select i.inhrelid as oid
        from pg_catalog.pg_inherits i
        where i.inhparent operator(pg_catalog.=) tree.oid
        union all
        select k.conrelid
        from pg_catalog.pg_constraint k
        where not $3
          and k.confrelid operator(pg_catalog.=) tree.oid
          and k.contype operator(pg_catalog.=) 'f'::pg_catalog."char"
    ) as more
),
relation as (
    select c.oid, c.relowner as owner, role.is_trusted
    from tree
    join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) tree.oid
    join role on role.oid operator(pg_catalog.=) c.relowner
),
-- The table, and the partitioned ones that it is a part of: their key decides what it takes.
above (oid) as (
    select $1::pg_catalog.oid
    union
    select i.inhparent
    from above
    join pg_catalog.pg_inherits i on i.inhrelid operator(pg_catalog.=) above.oid
),
-- The types of the columns, and those that they are made of.
kind (oid) as (
    select a.atttypid
    from relation r
    join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
    union
    select more.oid
    from kind
    cross join lateral (
        select t.typbasetype as oid
        from pg_catalog.pg_type t
        where t.oid operator(pg_catalog.=) kind.oid
        union all
        select t.typelem
        from pg_catalog.pg_type t
        where t.oid operator(pg_catalog.=) kind.oid
        union all
        select a.atttypid
        from pg_catalog.pg_type t
        join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) t.typrelid
        where t.oid operator(pg_catalog.=) kind.oid
          and t.typtype operator(pg_catalog.=) 'c'::pg_catalog."char"
          and a.attnum operator(pg_catalog.>) 0::pg_catalog.int2
        union all
        select g.rngsubtype
        from pg_catalog.pg_range g
        where g.rngtypid operator(pg_catalog.=) kind.oid
           or g.rngmultitypid operator(pg_catalog.=) kind.oid
    ) as more
),
domain as (
    select t.oid
    from kind
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) kind.oid
    where t.typtype operator(pg_catalog.=) 'd'::pg_catalog."char"
),
-- What runs, with its address in pg_depend.
part as (
    select r.owner, r.is_trusted, pg_catalog.format('trigger %I', t.tgname) as what,
           'pg_catalog.pg_trigger'::pg_catalog.regclass::pg_catalog.oid as class, t.oid as object
    from relation r
    join pg_catalog.pg_trigger t on t.tgrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) t.tgfoid
    where not t.tgisinternal
      -- A condition has the rights of this session all the same.
      and (not p.prosecdef or t.tgqual is not null)
      and t.tgenabled operator(pg_catalog.<>) 'D'::pg_catalog."char"
    union all
    select r.owner, r.is_trusted, pg_catalog.format('check %I', k.conname),
           'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, k.oid
    from relation r
    join pg_catalog.pg_constraint k on k.conrelid operator(pg_catalog.=) r.oid
    where k.contype operator(pg_catalog.=) 'c'::pg_catalog."char"
    union all
    select r.owner, r.is_trusted, pg_catalog.format('default of %I', a.attname),
           'pg_catalog.pg_attrdef'::pg_catalog.regclass::pg_catalog.oid, d.oid
    from relation r
    join pg_catalog.pg_attrdef d on d.adrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_attribute a
      on a.attrelid operator(pg_catalog.=) r.oid and a.attnum operator(pg_catalog.=) d.adnum
    union all
    select r.owner, r.is_trusted, pg_catalog.format('index %I', c.relname),
           'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, c.oid
    from relation r
    join pg_catalog.pg_index i on i.indrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) i.indexrelid
    where i.indexprs is not null
       or i.indpred is not null
    union all
    select c.relowner, role.is_trusted, pg_catalog.format('partition key of %I', c.relname),
           'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, c.oid
    from (select tree.oid from tree union select above.oid from above) as member
    join pg_catalog.pg_partitioned_table k on k.partrelid operator(pg_catalog.=) member.oid
    join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) member.oid
    join role on role.oid operator(pg_catalog.=) c.relowner
    where k.partexprs is not null
    union all
    select r.owner, r.is_trusted, pg_catalog.format('statistics %I', s.stxname),
           'pg_catalog.pg_statistic_ext'::pg_catalog.regclass::pg_catalog.oid, s.oid
    from relation r
    join pg_catalog.pg_statistic_ext s on s.stxrelid operator(pg_catalog.=) r.oid
    where s.stxexprs is not null
    union all
    select r.owner, r.is_trusted, pg_catalog.format('rule %I', w.rulename),
           'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid, w.oid
    from relation r
    join pg_catalog.pg_rewrite w on w.ev_class operator(pg_catalog.=) r.oid
    union all
    select t.typowner, role.is_trusted, pg_catalog.format('domain %I', t.typname),
           'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, t.oid
    from domain
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) domain.oid
    join role on role.oid operator(pg_catalog.=) t.typowner
),
-- By checks of partitions, and if the session says so of all tables, the planner finds out which of them it need not read.
run as (
    select *,
           class in (
               'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid,
               'pg_catalog.pg_statistic_ext'::pg_catalog.regclass::pg_catalog.oid
           )
           or class operator(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid
           and (
               exists (
                   select
                   from pg_catalog.pg_inherits i
                   where i.inhparent operator(pg_catalog.=) $1
               )
               or pg_catalog.current_setting('constraint_exclusion') operator(pg_catalog.=) 'on'::pg_catalog.text
           ) as planned
    from part
),
code as (
    select what, owner
    from run
    where not is_trusted
      and (planned or not $3)
    union
    select run.what, p.proowner
    from run
    join pg_catalog.pg_depend d
      on d.classid operator(pg_catalog.=) run.class
     and d.objid operator(pg_catalog.=) run.object
    left join pg_catalog.pg_operator o
      on o.oid operator(pg_catalog.=) d.refobjid
     and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid
    join pg_catalog.pg_proc p
      on p.oid operator(pg_catalog.=) o.oprcode::pg_catalog.oid
      or p.oid operator(pg_catalog.=) d.refobjid
     and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
    join role on role.oid operator(pg_catalog.=) p.proowner
    where run.is_trusted
      and not role.is_trusted
      and (planned or not $3)
)
select pg_catalog.pg_get_userbyid(owner)::pg_catalog.text as owner,
       pg_catalog.string_agg(what, ', ' order by what) as code
from code
where exists (
{powers})
group by owner
order by owner
