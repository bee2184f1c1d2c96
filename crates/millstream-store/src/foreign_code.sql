-- Code of other roles that runs with the rights of this session when rows of table $1 are written: triggers, checks,
-- defaults, generated columns, keys of partitions, index expressions, operator classes, statistics, rules, policies, and
-- checks and casts of types, each with the role that wrote it. $2 are roles that the caller trusts. If $3 is true, only what
-- runs when the table is read: casts, and what the planner evaluates. $4 is our schema. Nothing if this session has no more
-- rights than tables need. A security definer function counts, too: a cursor that it leaves open is read with the rights of
-- the session at the commit, it can change settings, and its owner can make it run with the rights of the session.
--
-- Each step begins at what the one before has found, and reads the catalog by an index: a table says how many rows it has,
-- a recursive query does not, so what it found is handed on as an array.
with recursive
{roles}-- The table, its partitions, and when it is written, tables whose rows are changed when a row that they reference is. Those
-- that its rows reference are only read.
tree (oid, is_written) as (
    select $1::pg_catalog.oid, not $3
    union
    select more.oid, more.is_written
    from tree
    cross join lateral (
        select i.inhrelid as oid, tree.is_written
        from pg_catalog.pg_inherits i
        where i.inhparent operator(pg_catalog.=) tree.oid
        union all
        -- A foreign key has no index by the table that it references, but triggers there.
        select k.conrelid, true
        from pg_catalog.pg_trigger t
        join pg_catalog.pg_constraint k on k.oid operator(pg_catalog.=) t.tgconstraint
        where tree.is_written
          and t.tgrelid operator(pg_catalog.=) tree.oid
          and k.confrelid operator(pg_catalog.=) tree.oid
        union all
        select k.confrelid, false
        from pg_catalog.pg_constraint k
        where tree.is_written
          and k.conrelid operator(pg_catalog.=) tree.oid
          and k.contype operator(pg_catalog.=) 'f'::pg_catalog."char"
    ) as more
),
-- The table, and the partitioned ones that it is a part of: their key decides what it takes.
above (oid) as (
    select $1::pg_catalog.oid
    union
    select i.inhparent
    from above
    join pg_catalog.pg_inherits i on i.inhrelid operator(pg_catalog.=) above.oid
),
relation as (
    select c.oid, c.relowner as owner, role.is_trusted,
           c.oid operator(pg_catalog.=) any (array(select tree.oid from tree where tree.is_written)) as is_written
    from pg_catalog.pg_class c
    join role on role.oid operator(pg_catalog.=) c.relowner
    where c.oid operator(pg_catalog.=) any (array(select tree.oid from tree))
),
partitioned as (
    select c.relname, c.relowner as owner, role.is_trusted, k.partrelid, k.partclass, k.partexprs
    from pg_catalog.pg_partitioned_table k
    join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) k.partrelid
    join role on role.oid operator(pg_catalog.=) c.relowner
    where k.partrelid operator(pg_catalog.=) any (
        array(select tree.oid from tree union select above.oid from above)
    )
),
indexed as (
    select r.owner, r.is_trusted, c.relname, i.indexrelid, i.indclass, i.indexprs, i.indpred
    from relation r
    join pg_catalog.pg_index i on i.indrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) i.indexrelid
),
-- What the owner of a table, or somebody with a right to it, wrote there: its address in pg_depend, and whether it
-- runs. An operator class is as good as the functions of its family, whoever uses it.
written (owner, is_trusted, what, class, object, runs) as (
    select r.owner,
           -- Nobody else may call this function of ours, so nobody else made its trigger.
           r.is_trusted
           or p.proname::pg_catalog.text operator(pg_catalog.~) '^change_[0-9]+_(record|key)$'::pg_catalog.text
          and p.pronamespace in (
              select n.oid
              from pg_catalog.pg_namespace n
              where n.nspname operator(pg_catalog.=) $4::pg_catalog.text::pg_catalog.name
          )
          and p.proowner in (select role.oid from role where role.is_trusted)
          and p.proacl is not null
          and not exists (
              select
              from pg_catalog.aclexplode(p.proacl) as entry
              where entry.grantee not in (select role.oid from role where role.is_trusted)
          ),
           pg_catalog.format('trigger %I', t.tgname),
           'pg_catalog.pg_trigger'::pg_catalog.regclass::pg_catalog.oid,
           t.oid,
           r.is_written
    from relation r
    join pg_catalog.pg_trigger t on t.tgrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) t.tgfoid
    where not t.tgisinternal
      and t.tgenabled operator(pg_catalog.<>) 'D'::pg_catalog."char"
    union all
    -- By checks of partitions, and if the session says so of all tables, the planner finds out which of them it need not
    -- read.
    select r.owner, r.is_trusted, pg_catalog.format('check %I', k.conname),
           'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, k.oid,
           exists (
               select
               from pg_catalog.pg_inherits i
               where i.inhparent operator(pg_catalog.=) any (array(select tree.oid from tree))
           )
           or pg_catalog.current_setting('constraint_exclusion') operator(pg_catalog.=) 'on'::pg_catalog.text
           or r.is_written
    from relation r
    join pg_catalog.pg_constraint k on k.conrelid operator(pg_catalog.=) r.oid
    where k.contype operator(pg_catalog.=) 'c'::pg_catalog."char"
    union all
    select r.owner, r.is_trusted, pg_catalog.format('default of %I', a.attname),
           'pg_catalog.pg_attrdef'::pg_catalog.regclass::pg_catalog.oid, d.oid, r.is_written
    from relation r
    join pg_catalog.pg_attrdef d on d.adrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_attribute a
      on a.attrelid operator(pg_catalog.=) r.oid and a.attnum operator(pg_catalog.=) d.adnum
    union all
    select owner, is_trusted, pg_catalog.format('index %I', relname),
           'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, indexrelid, true
    from indexed
    where indexprs is not null
       or indpred is not null
    union all
    select null, true, pg_catalog.format('index %I', i.relname),
           'pg_catalog.pg_opclass'::pg_catalog.regclass::pg_catalog.oid, o.oid, true
    from indexed i
    join pg_catalog.pg_opclass o on o.oid operator(pg_catalog.=) any (i.indclass)
    where o.opcnamespace operator(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
    union all
    select owner, is_trusted, pg_catalog.format('partition key of %I', relname),
           'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, partrelid, true
    from partitioned
    where partexprs is not null
    union all
    select null, true, pg_catalog.format('partition key of %I', k.relname),
           'pg_catalog.pg_opclass'::pg_catalog.regclass::pg_catalog.oid, o.oid, true
    from partitioned k
    join pg_catalog.pg_opclass o on o.oid operator(pg_catalog.=) any (k.partclass)
    where o.opcnamespace operator(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
    union all
    select r.owner, r.is_trusted, pg_catalog.format('statistics %I', s.stxname),
           'pg_catalog.pg_statistic_ext'::pg_catalog.regclass::pg_catalog.oid, s.oid, true
    from relation r
    join pg_catalog.pg_statistic_ext s on s.stxrelid operator(pg_catalog.=) r.oid
    where s.stxexprs is not null
    union all
    select r.owner, r.is_trusted, pg_catalog.format('rule %I', w.rulename),
           'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid, w.oid, r.is_written
    from relation r
    join pg_catalog.pg_rewrite w on w.ev_class operator(pg_catalog.=) r.oid
    union all
    select r.owner, r.is_trusted, pg_catalog.format('policy %I', y.polname),
           'pg_catalog.pg_policy'::pg_catalog.regclass::pg_catalog.oid, y.oid, true
    from relation r
    join pg_catalog.pg_policy y on y.polrelid operator(pg_catalog.=) r.oid
    where pg_catalog.row_security_active(r.oid)
),
-- The types of the columns and of what is written there, and those that they are made of.
kind (oid, runs) as (
    select used.oid, used.runs
    from (
        select a.atttypid as oid, r.is_written as runs
        from relation r
        join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
        where a.attnum operator(pg_catalog.>) 0::pg_catalog.int2
        union
        select d.refobjid, w.runs
        from written w
        join pg_catalog.pg_depend d
          on d.classid operator(pg_catalog.=) w.class
         and d.objid operator(pg_catalog.=) w.object
         and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid
    ) as used
    union
    select more.oid, kind.runs
    from kind
    cross join lateral (
        select part.oid
        from pg_catalog.pg_type t
        cross join lateral (values (t.typbasetype), (t.typelem)) as part (oid)
        where t.oid operator(pg_catalog.=) kind.oid
          and part.oid operator(pg_catalog.<>) 0::pg_catalog.oid
        union all
        select a.atttypid
        from pg_catalog.pg_type t
        join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) t.typrelid
        where t.oid operator(pg_catalog.=) kind.oid
          and t.typtype operator(pg_catalog.=) 'c'::pg_catalog."char"
          and a.attnum operator(pg_catalog.>) 0::pg_catalog.int2
        union all
        select part.oid
        from pg_catalog.pg_range g
        cross join lateral (values (g.rngsubtype), (g.rngtypid)) as part (oid)
        where g.rngtypid operator(pg_catalog.=) kind.oid
           or g.rngmultitypid operator(pg_catalog.=) kind.oid
    ) as more
),
reached as (
    select named.oid, false as runs
    from pg_catalog.unnest(array(select kind.oid from kind where not kind.runs)) as named (oid)
    union all
    select named.oid, true
    from pg_catalog.unnest(array(select kind.oid from kind where kind.runs)) as named (oid)
),
part as (
    select owner, is_trusted, what, class, object, runs
    from written
    union all
    select t.typowner,
           -- Of other types, functions alone run.
           role.is_trusted or t.typtype operator(pg_catalog.<>) 'd'::pg_catalog."char",
           pg_catalog.format(
               '%s %I',
               case when t.typtype operator(pg_catalog.=) 'd'::pg_catalog."char" then 'domain' else 'type' end,
               t.typname
           ),
           code.class,
           code.object,
           -- A cast runs where a column is compared or shown, and the planner asks functions of a range about it.
           reached.runs or t.typtype operator(pg_catalog.<>) 'd'::pg_catalog."char"
    from reached
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) reached.oid
    join role on role.oid operator(pg_catalog.=) t.typowner
    cross join lateral (
        select 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid as class, t.oid as object
        union all
        select 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, k.oid
        from pg_catalog.pg_constraint k
        where k.contypid operator(pg_catalog.=) t.oid
    ) as code
    where t.typnamespace operator(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
),
run as (
    select owner, is_trusted, what, class, object
    from part
    where runs
),
code as (
    select what, owner
    from run
    where not is_trusted
    union
    select run.what, p.proowner
    from run
    cross join lateral (
        select d.refobjid as oid
        from pg_catalog.pg_depend d
        where d.classid operator(pg_catalog.=) run.class
          and d.objid operator(pg_catalog.=) run.object
          and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
        union all
        select o.oprcode::pg_catalog.oid
        from pg_catalog.pg_depend d
        join pg_catalog.pg_operator o on o.oid operator(pg_catalog.=) d.refobjid
        where d.classid operator(pg_catalog.=) run.class
          and d.objid operator(pg_catalog.=) run.object
          and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid
        union all
        select s.amproc::pg_catalog.oid
        from pg_catalog.pg_opclass c
        join pg_catalog.pg_amproc s on s.amprocfamily operator(pg_catalog.=) c.opcfamily
        where run.class operator(pg_catalog.=) 'pg_catalog.pg_opclass'::pg_catalog.regclass::pg_catalog.oid
          and c.oid operator(pg_catalog.=) run.object
        union all
        select o.oprcode::pg_catalog.oid
        from pg_catalog.pg_opclass c
        join pg_catalog.pg_amop s on s.amopfamily operator(pg_catalog.=) c.opcfamily
        join pg_catalog.pg_operator o on o.oid operator(pg_catalog.=) s.amopopr
        where run.class operator(pg_catalog.=) 'pg_catalog.pg_opclass'::pg_catalog.regclass::pg_catalog.oid
          and c.oid operator(pg_catalog.=) run.object
        union all
        -- Some functions such as to_jsonb look for a cast by themselves.
        select c.castfunc
        from pg_catalog.pg_cast c
        where run.class operator(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid
          and (
              c.castsource operator(pg_catalog.=) run.object
              or c.casttarget operator(pg_catalog.=) run.object
          )
    ) as called
    join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) called.oid
    join role on role.oid operator(pg_catalog.=) p.proowner
    where run.is_trusted
      and not role.is_trusted
)
select pg_catalog.pg_get_userbyid(owner)::pg_catalog.text as owner,
       pg_catalog.string_agg(what, ', ' order by what) as code
from code
where exists (
{powers})
group by owner
order by owner
