-- Tables with rows of which the planner may have no statistics. The counters may have been reset, so what this role
-- sees of the statistics counts. $1: fewer rows do not count. $2: at most so many.
with recursive tree as (
    select oid as root, oid from pg_class where relkind = 'p' and relpersistence <> 't' and not relispartition
    union all
    select t.root, i.inhrelid from tree as t join pg_inherits as i on i.inhparent = t.oid
),
held as (
    select
        oid,
        greatest(reltuples::float8, pg_stat_get_live_tuples(oid)::float8) as rows
    from
        pg_class
    where
        relkind in ('r', 'm')
        and relpersistence <> 't'
    union all
    -- A query of a partitioned table needs statistics of its own, which only analyze by hand makes.
    select
        t.root,
        sum(greatest(c.reltuples::float8, pg_stat_get_live_tuples(c.oid)::float8, 0))
    from
        tree as t
        join pg_class as c on c.oid = t.oid and c.relkind = 'r'
    group by
        t.root
),
suspects as materialized (
    select oid, rows
    from held
    where
        rows >= $1::float8
        and pg_stat_get_last_analyze_time(oid) is null
        and pg_stat_get_last_autoanalyze_time(oid) is null
),
tables as materialized (
    select
        n.nspname,
        c.relname,
        format('%I.%I', n.nspname, c.relname) as name,
        h.rows,
        c.relkind = 'p' as is_root,
        -- Neither vacuum nor analyze nor an index build has counted its rows.
        c.reltuples < 0 as is_untouched,
        has_table_privilege(c.oid, 'select') and not row_security_active(c.oid) as is_readable,
        coalesce((
            select bool_and(o.option_value::bool)
            from pg_options_to_table(c.reloptions) as o
            where o.option_name = 'autovacuum_enabled'
        ), true) as enabled
    from
        suspects as h
        join pg_class as c on c.oid = h.oid
        join pg_namespace as n on n.oid = c.relnamespace
    where
        n.nspname not in ('pg_catalog', 'information_schema')
        -- Segments of the log layout are read once, from the beginning to the end.
        and n.oid not in (
            select relnamespace from pg_class
            where relname in ('collection', 'load', 'model', 'segment') and relkind = 'r'
            group by relnamespace having count(*) = 4
        )
)
select
    name,
    rows,
    is_root,
    enabled,
    is_readable or is_untouched as is_known
from
    tables as t
where
    is_untouched
    or not is_readable
    -- For one table after the other: the view is not made to be joined.
    or not exists (
        select from pg_stats as s
        where s.schemaname = t.nspname and s.tablename = t.relname and s.inherited = t.is_root
        offset 0
    )
order by
    rows desc, name
limit $2
