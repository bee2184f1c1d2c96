-- Indexes on expressions that no query has used, of tables that queries read as a whole. $1: smaller tables do not count, in
-- rows. $2: at least so many whole reads. $3: at most so many.
select
    format('%I.%I', n.nspname, x.relname) as name,
    format('%I.%I', tn.nspname, t.relname) as table_name,
    t.relname::text as table_word,
    tn.nspname::text as schema,
    t.relname::text as table,
    pg_get_indexdef(i.indexrelid) as definition,
    -- The first key that is an expression.
    (select pg_get_indexdef(i.indexrelid, k.place::int4, true)
        from unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
        where k.attnum = 0 order by k.place limit 1) as key,
    i.indisunique and i.indnkeyatts = 1 and i.indpred is null as is_unique,
    pg_stat_get_numscans(t.oid) as reads,
    pg_stat_get_tuples_returned(t.oid) as rows_read
from
    pg_index as i
    join pg_class as x on x.oid = i.indexrelid and x.relkind = 'i' and x.relpersistence <> 't'
    join pg_namespace as n on n.oid = x.relnamespace
    join pg_class as t on t.oid = i.indrelid
    join pg_namespace as tn on tn.oid = t.relnamespace
where
    i.indexprs is not null
    and i.indisvalid
    and tn.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    and pg_stat_get_numscans(i.indexrelid) = 0
    and t.reltuples >= $1::float8
    and pg_stat_get_numscans(t.oid) >= $2::float8
order by
    rows_read desc, name
limit $3
