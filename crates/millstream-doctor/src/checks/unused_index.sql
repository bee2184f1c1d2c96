-- Indexes that no query has used since the counters began, and that nothing else needs. $1: at least so many bytes.
-- $2: at most so many.
with large as materialized (
    -- Counters are looked up only for these.
    select i.*
    from
        pg_index as i
        join pg_class as c on c.oid = i.indexrelid
    where
        c.relkind = 'i'
        and c.relpersistence <> 't'
        -- The size of a block is asked for once.
        and c.relpages >= $1::float8 / (select current_setting('block_size')::float8)
        and i.indisvalid
        and not i.indisunique
        and not i.indisreplident
        -- The next cluster of the table needs it.
        and not i.indisclustered
        and i.indexprs is null
)
select
    format('%I.%I', n.nspname, c.relname) as name,
    i.indrelid::regclass::text as table_name,
    pg_get_indexdef(i.indexrelid) as definition,
    c.relpages::bigint * current_setting('block_size')::bigint as bytes,
    pg_stat_get_tuples_inserted(i.indrelid) + pg_stat_get_tuples_updated(i.indrelid)
        + pg_stat_get_tuples_deleted(i.indrelid) as writes
from
    large as i
    join pg_class as c on c.oid = i.indexrelid
    join pg_namespace as n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
where
    pg_stat_get_numscans(i.indexrelid) = 0
    and not exists (select from pg_constraint as k where k.conrelid = i.indrelid and k.conindid = i.indexrelid)
    -- A foreign key needs it when rows of the other table are deleted, as foreign-key-without-index says. A part of the key can
    -- be enough to find them.
    and not exists (
        select
        from
            pg_constraint as k
            cross join lateral unnest(k.conkey, k.conpfeqop) as u (attnum, operator)
            join pg_operator as o on o.oid = u.operator
            join pg_opclass as s on s.oid = i.indclass[0]
            join pg_amop as m on m.amopfamily = s.opcfamily and m.amopopr in (o.oid, o.oprcom) and m.amoppurpose = 's'
        where
            k.contype = 'f'
            and k.conrelid = i.indrelid
            and u.attnum = i.indkey[0]
            and (i.indpred is null
                or string_to_array(trim(both '()' from pg_get_expr(i.indpred, i.indrelid)), ') AND (')
                    <@ array(
                        select format('%I IS NOT NULL', attname) from pg_attribute
                        where attrelid = k.conrelid and attnum = any (k.conkey)
                    ))
    )
    and not exists (select from pg_inherits as h where h.inhrelid = i.indexrelid)
order by
    bytes desc, name
limit $2
