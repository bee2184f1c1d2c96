-- What the parts of every collection take on disk. A part of a partitioned table is that of all its partitions. $1 is our
-- schema, in which the segments are.
with piece (table_oid, oid) as (
    select t.oid, t.oid
    from {schema}.collection k
    join pg_catalog.pg_class t on t.oid = k.table_oid
    where t.relkind <> 'p'
    union all
    select t.oid, tree.relid::oid
    from {schema}.collection k
    join pg_catalog.pg_class t on t.oid = k.table_oid
    cross join lateral pg_catalog.pg_partition_tree(t.oid) tree
    where t.relkind = 'p' and tree.isleaf
)
select
    coalesce(n.nspname, k.schema_name)::text as schema,
    coalesce(t.relname, k.table_name)::text as table,
    k.doc,
    case when t.oid is not null then pg_catalog.format('%I.%I', n.nspname, t.relname) end as quoted,
    e.rows as rows_estimate,
    coalesce(t.reloptions, '{}') as options,
    p.heap_bytes,
    p.map_bytes,
    p.toast_bytes,
    coalesce(i.indexes, '[]') as indexes,
    s.segments,
    s.segment_bytes
from {schema}.collection k
left join pg_catalog.pg_class t on t.oid = k.table_oid
left join pg_catalog.pg_namespace n on n.oid = t.relnamespace
left join lateral (
{rows}) e on t.oid is not null
left join lateral (
    select
        coalesce(pg_catalog.sum(pg_catalog.pg_relation_size(c.oid)), 0)::bigint as heap_bytes,
        coalesce(pg_catalog.sum(
            pg_catalog.pg_relation_size(c.oid, 'fsm') + pg_catalog.pg_relation_size(c.oid, 'vm')
            + pg_catalog.pg_relation_size(c.oid, 'init')
        ), 0)::bigint as map_bytes,
        -- With the index of the TOAST table.
        coalesce(pg_catalog.sum(
            case when c.reltoastrelid <> 0::oid then pg_catalog.pg_total_relation_size(c.reltoastrelid) end
        ), 0)::bigint as toast_bytes
    from piece
    join pg_catalog.pg_class c on c.oid = piece.oid
    where piece.table_oid = t.oid
) p on t.oid is not null
left join lateral (
    select pg_catalog.json_agg(
        pg_catalog.json_build_object('name', one.name, 'bytes', one.bytes, 'options', one.options)
        order by one.bytes desc, one.name
    ) as indexes
    from (
        select
            r.relname::text as name,
            coalesce(r.reloptions, '{}') as options,
            coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(x.indexrelid)), 0)::bigint as bytes
        from piece
        join pg_catalog.pg_index x on x.indrelid = piece.oid
        join pg_catalog.pg_class r
          on r.oid = coalesce(pg_catalog.pg_partition_root(x.indexrelid)::oid, x.indexrelid)
        where piece.table_oid = t.oid
        group by r.oid, r.relname, r.reloptions
    ) as one
) i on t.oid is not null
left join lateral (
    select
        pg_catalog.count(*) as segments,
        coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint as segment_bytes
    from {schema}.segment s
    join pg_catalog.pg_namespace sn on sn.nspname = $1
    join pg_catalog.pg_class c on c.relnamespace = sn.oid and c.relname = 'segment_' || s.segment_id::text
    where s.table_oid = k.table_oid
) s on true
order by 1, 2, k.created_at
