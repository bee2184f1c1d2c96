-- B-tree indexes whose columns begin another one of the same table, in the same order, with the same operators and
-- collations. Of those that nothing else needs. $1: at least so many bytes. $2: at most so many.
with tree as (
    select
        i.indexrelid,
        i.indrelid,
        i.indnkeyatts as keys,
        i.indnatts as columns,
        i.indkey::int2[] as key,
        i.indclass::oid[] as class,
        i.indcollation::oid[] as collation,
        i.indoption::int2[] as option,
        i.indisunique or i.indisreplident or i.indisclustered as is_needed,
        c.relname,
        c.relpages,
        n.nspname
    from
        pg_index as i
        join pg_class as c on c.oid = i.indexrelid and c.relkind = 'i' and c.relpersistence <> 't'
        join pg_am as a on a.oid = c.relam and a.amname = 'btree'
        join pg_namespace as n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'pg_toast')
    where
        i.indisvalid
        and i.indpred is null
        and i.indexprs is null
),
pair as (
    select distinct on (short.indexrelid)
        short.*,
        long.indexrelid as longer
    from
        tree as short
        join tree as long on long.indrelid = short.indrelid and long.keys > short.keys
    where
        not short.is_needed
        and short.columns = short.keys
        and short.relpages::float8 * current_setting('block_size')::float8 >= $1::float8
        -- Vectors of the catalog count from 0, and slices from 1: equal arrays begin with the same number.
        and long.key[0:short.keys - 1] = short.key[0:short.keys - 1]
        and long.class[0:short.keys - 1] = short.class[0:short.keys - 1]
        and long.collation[0:short.keys - 1] = short.collation[0:short.keys - 1]
        and long.option[0:short.keys - 1] = short.option[0:short.keys - 1]
        and not exists (select from pg_constraint as k where k.conindid = short.indexrelid)
        and not exists (select from pg_inherits as h where h.inhrelid = short.indexrelid)
    order by
        short.indexrelid, long.relpages, long.indexrelid
)
select
    format('%I.%I', p.nspname, p.relname) as name,
    p.longer::regclass::text as longer,
    pg_get_indexdef(p.indexrelid) as definition,
    pg_get_indexdef(p.longer) as longer_definition,
    p.relpages::bigint * current_setting('block_size')::bigint as bytes,
    coalesce(pg_stat_get_numscans(p.indexrelid), 0) as scans
from
    pair as p
order by
    bytes desc, name
limit $2
