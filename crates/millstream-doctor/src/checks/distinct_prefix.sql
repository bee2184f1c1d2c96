-- A column of a table that begins a B-tree index, with the planner's idea of rows and different values. $1: the schema, or
-- null for any. $2, $3: table and column.
select
    format('%I.%I', n.nspname, c.relname) as table_name,
    quote_ident(a.attname) as column,
    x.relname::text as index,
    c.reltuples::float8 as rows,
    case when s.n_distinct < 0 then -s.n_distinct * c.reltuples else s.n_distinct end::float8 as values,
    date_part('epoch', now() - greatest(
        pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)
    ))::float8 as analyze_age
from
    pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    join pg_attribute as a on a.attrelid = c.oid and a.attname = $3 and not a.attisdropped
    join pg_index as i on i.indrelid = c.oid and i.indkey[0] = a.attnum and i.indisvalid and i.indpred is null
    join pg_class as x on x.oid = i.indexrelid
    join pg_am as m on m.oid = x.relam and m.amname = 'btree'
    join pg_stats as s on s.schemaname = n.nspname and s.tablename = c.relname and s.attname = a.attname and not s.inherited
where
    c.relkind in ('r', 'm')
    and c.relpersistence <> 't'
    and c.relname = $2
    and n.nspname = coalesce($1, n.nspname)
    and n.nspname not in ('pg_catalog', 'information_schema')
order by
    c.reltuples desc, x.relname
limit 1
