-- Code of other roles that runs with the rights of this session when rows of table $1 are written: triggers, checks,
-- defaults, generated columns, index expressions, statistics, rules and domains, each with the role that wrote it. $2 are
-- roles that the caller trusts. If $3 is true, only what runs when the table is read: what the planner evaluates. Nothing
-- if this session has no more rights than tables need. A security definer function has the rights of its own owner.
with recursive
{roles}-- The table, its partitions, and tables whose rows are changed when a row that they reference is.
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
        where k.confrelid operator(pg_catalog.=) tree.oid
          and k.contype operator(pg_catalog.=) 'f'::pg_catalog."char"
    ) as more
),
relation as (
    select c.oid, c.relowner as owner, role.is_trusted
    from tree
    join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) tree.oid
    join role on role.oid operator(pg_catalog.=) c.relowner
),
domain (oid) as (
    select t.oid
    from relation r
    join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) a.atttypid
    where t.typtype operator(pg_catalog.=) 'd'::pg_catalog."char"
    union
    select b.oid
    from domain
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) domain.oid
    join pg_catalog.pg_type b on b.oid operator(pg_catalog.=) t.typbasetype
    where b.typtype operator(pg_catalog.=) 'd'::pg_catalog."char"
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
run as (
    select *,
           class in (
               'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid,
               'pg_catalog.pg_statistic_ext'::pg_catalog.regclass::pg_catalog.oid
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
