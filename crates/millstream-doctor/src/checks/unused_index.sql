-- Indexes that no query has used since the counters began, and that nothing else needs. $1: at least so many bytes.
-- $2: at least so many seconds. $3: at most so many.
with counters as (
    select
        -- After a crash the counters begin anew, and the database's own time of reset is empty.
        extract(epoch from now() - greatest(d.stats_reset, b.stats_reset))::float8 as seconds
    from
        pg_stat_database as d
        cross join pg_stat_bgwriter as b
    where
        d.datname = current_database()
)
select
    format('%I.%I', n.nspname, c.relname) as name,
    i.indrelid::regclass::text as table_name,
    pg_get_indexdef(i.indexrelid) as definition,
    c.relpages::bigint * current_setting('block_size')::bigint as bytes,
    counters.seconds,
    coalesce(t.n_tup_ins, 0) + coalesce(t.n_tup_upd, 0) + coalesce(t.n_tup_del, 0) as writes
from
    counters
    cross join pg_index as i
    join pg_class as c on c.oid = i.indexrelid and c.relkind = 'i'
    join pg_namespace as n on n.oid = c.relnamespace
    join pg_stat_user_indexes as s on s.indexrelid = i.indexrelid
    join pg_stat_user_tables as t on t.relid = i.indrelid
where
    s.idx_scan = 0
    and i.indisvalid
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
            and i.indpred is null
            and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey
    )
    and not exists (select from pg_inherits as h where h.inhrelid = i.indexrelid)
    and c.relpages::float8 * current_setting('block_size')::float8 >= $1::float8
    and counters.seconds >= $2::float8
order by
    bytes desc, name
limit $3
