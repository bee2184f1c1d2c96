-- B-tree indexes whose columns begin another one of the same table, in the same order, with the same operators and
-- collations. Of those that nothing else needs. $1: at least so many bytes. $2: at most so many.
with large as materialized (
    select *
    from pg_class
    where
        relkind = 'i'
        and relpersistence <> 't'
        -- The size of a block is asked for once.
        and relpages >= $1::float8 / (select current_setting('block_size')::float8)
),
short as materialized (
    select
        i.indexrelid,
        i.indrelid,
        i.indnkeyatts as keys,
        i.indkey::int2[] as key,
        i.indclass::oid[] as class,
        i.indcollation::oid[] as collation,
        i.indoption::int2[] as option,
        c.relam,
        c.relname,
        c.relpages,
        n.nspname
    from
        pg_index as i
        join large as c on c.oid = i.indexrelid
        join pg_am as a on a.oid = c.relam and a.amname = 'btree'
        join pg_namespace as n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'pg_toast')
    where
        i.indisvalid
        and i.indpred is null
        and i.indexprs is null
        and i.indnatts = i.indnkeyatts
        and not i.indisunique
        and not i.indisreplident
        and not i.indisclustered
        and not exists (select from pg_constraint as k where k.conrelid = i.indrelid and k.conindid = i.indexrelid)
        and not exists (select from pg_inherits as h where h.inhrelid = i.indexrelid)
),
pair as (
    select distinct on (short.indexrelid)
        short.*,
        long.indexrelid as longer
    from
        short
        join pg_index as long on long.indrelid = short.indrelid and long.indnkeyatts > short.keys
        join pg_class as c on c.oid = long.indexrelid and c.relkind = 'i' and c.relam = short.relam
    where
        long.indisvalid
        and long.indpred is null
        and long.indexprs is null
        -- Vectors of the catalog count from 0, and slices from 1: equal arrays begin with the same number.
        and (long.indkey::int2[])[0:short.keys - 1] = short.key[0:short.keys - 1]
        and (long.indclass::oid[])[0:short.keys - 1] = short.class[0:short.keys - 1]
        and (long.indcollation::oid[])[0:short.keys - 1] = short.collation[0:short.keys - 1]
        and (long.indoption::int2[])[0:short.keys - 1] = short.option[0:short.keys - 1]
    order by
        short.indexrelid, c.relpages, long.indexrelid
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
