-- Columns for which analyze keeps fewer values than $1, in tables of at least $2 rows. $3: at most so many. Up to
-- PostgreSQL 16, -1 stands for the server's setting, from 17 on null.
select
    format('%I.%I', n.nspname, c.relname) as table_name,
    quote_ident(a.attname) as column,
    a.attstattarget::int4 as target,
    date_part('epoch', now() - greatest(
        pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)
    ))::float8 as analyze_age
from
    pg_attribute as a
    join pg_class as c on c.oid = a.attrelid
    join pg_namespace as n on n.oid = c.relnamespace
where
    a.attstattarget >= 0
    and a.attstattarget < $1::float8
    and a.attnum > 0
    and not a.attisdropped
    and c.relkind in ('r', 'm', 'p')
    and c.relpersistence <> 't'
    and c.reltuples >= $2::float8
    and n.nspname <> 'pg_catalog'
order by
    c.reltuples desc, 1, 2
limit $3
