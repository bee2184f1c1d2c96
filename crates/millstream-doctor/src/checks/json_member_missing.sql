-- Columns of JSON documents that views and indexes with expressions read, each with the text by which they read it. Of a
-- partitioned index, only the root counts. $1: at most so many. $2: whether the texts are wanted.
with reader as materialized (
    -- First, because there are few of them.
    select 'pg_rewrite'::regclass as class, w.oid, w.ev_class as relation
    from
        pg_rewrite as w
        join pg_class as v on v.oid = w.ev_class
        join pg_namespace as n on n.oid = v.relnamespace and n.nspname not in ('pg_catalog', 'information_schema')
    union all
    select 'pg_class'::regclass, indexrelid, indexrelid
    from pg_index
    where indisvalid and (indexprs is not null or indpred is not null)
),
reading as (
    select distinct a.attrelid, a.attnum, r.relation as reader
    from
        reader as r
        join pg_depend as d on d.classid = r.class and d.objid = r.oid
        join pg_attribute as a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
    where
        d.refclassid = 'pg_class'::regclass
        and a.attnum > 0
        and a.atttypid in ('json'::regtype, 'jsonb'::regtype)
),
readers as materialized (
    -- Only those that are returned have a text: to make that of a view locks the view and its tables.
    select
        r.oid as reader,
        r.relkind,
        format('%I.%I', rn.nspname, r.relname) as name,
        t.oid as table_oid,
        format('%I.%I', tn.nspname, t.relname) as table_name,
        one.attnum
    from
        reading as one
        join pg_class as r on r.oid = one.reader and r.relkind in ('i', 'I', 'v', 'm') and not r.relispartition
            and r.relpersistence <> 't'
        join pg_namespace as rn on rn.oid = r.relnamespace
        join pg_class as t on t.oid = one.attrelid and t.relpersistence <> 't'
        join pg_namespace as tn on tn.oid = t.relnamespace
    where
        rn.nspname not in ('pg_catalog', 'information_schema')
    order by
        name, table_name, attnum
    limit $1
)
select
    readers.name,
    case readers.relkind when 'i' then 'drop index concurrently ' when 'I' then 'drop index ' end
        || readers.name as drop_index,
    readers.table_name,
    -- A view over a view, or over a foreign table, has no rows of its own to look at.
    t.relkind in ('r', 'm', 'p') as has_rows,
    case t.relkind
        when 'p' then (
            -- Without partitions, there is nothing to add up.
            select coalesce(sum(greatest(leaf.reltuples, 0)), 0)
            from
                pg_partition_tree(t.oid) as p
                join pg_class as leaf on leaf.oid = p.relid
            where
                p.isleaf
        )
        else t.reltuples
    end::float8 as rows,
    a.attname::text as column,
    quote_ident(a.attname) as column_word,
    case
        when not $2::bool then null
        when i.indexrelid is null then pg_get_viewdef(readers.reader)
        else array_to_string(
            array(
                select pg_get_indexdef(i.indexrelid, n, false)
                from generate_series(1, i.indnkeyatts) as n
                order by n
            ),
            ', '
        )
    end as text,
    pg_get_expr(i.indpred, i.indrelid) as predicate
from
    readers
    join pg_class as t on t.oid = readers.table_oid
    join pg_attribute as a on a.attrelid = t.oid and a.attnum = readers.attnum
    left join pg_index as i on i.indexrelid = readers.reader
order by
    readers.name, readers.table_name, readers.attnum
