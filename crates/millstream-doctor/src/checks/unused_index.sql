-- Indexes that no query has used since the counters began, and that nothing else needs. $1: at least so many bytes.
-- $2: at most so many.
select
    format('%I.%I', n.nspname, c.relname) as name,
    i.indrelid::regclass::text as table_name,
    pg_get_indexdef(i.indexrelid) as definition,
    c.relpages::bigint * current_setting('block_size')::bigint as bytes,
    coalesce(t.n_tup_ins, 0) + coalesce(t.n_tup_upd, 0) + coalesce(t.n_tup_del, 0) as writes
from
    pg_index as i
    join pg_class as c on c.oid = i.indexrelid and c.relkind = 'i'
    join pg_namespace as n on n.oid = c.relnamespace
    join pg_stat_user_indexes as s on s.indexrelid = i.indexrelid
    join pg_stat_user_tables as t on t.relid = i.indrelid
where
    s.idx_scan = 0
    and i.indisvalid
    and c.relpersistence <> 't'
    and not i.indisunique
    and not i.indisreplident
    -- The next cluster of the table needs it.
    and not i.indisclustered
    and i.indexprs is null
    and not exists (select from pg_constraint as k where k.conindid = i.indexrelid)
    -- A foreign key needs it when rows of the other table are deleted, as foreign-key-without-index says.
    and not exists (
        select from pg_constraint as k
        where
            k.contype = 'f'
            and k.conrelid = i.indrelid
            and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey
            and (i.indpred is null
                or string_to_array(trim(both '()' from pg_get_expr(i.indpred, i.indrelid)), ') AND (')
                    <@ array(
                        select format('%I IS NOT NULL', attname) from pg_attribute
                        where attrelid = k.conrelid and attnum = any (k.conkey)
                    ))
    )
    and not exists (select from pg_inherits as h where h.inhrelid = i.indexrelid)
    and c.relpages::float8 * current_setting('block_size')::float8 >= $1::float8
order by
    bytes desc, name
limit $2
