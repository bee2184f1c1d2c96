-- All collections, with what the catalog and their loads know about them.
select
    coalesce(n.nspname, k.schema_name)::text as schema,
    coalesce(t.relname, k.table_name)::text as table,
    k.key,
    k.doc,
    case when s.segments > 0 then 'log' else k.layout end as layout,
    k.adopted,
    t.oid is not null as present,
    t.relpersistence = 'u' as unlogged,
    exists (
        select
        from pg_catalog.pg_trigger f
        where f.tgrelid = t.oid
          and f.tgname = 'millstream_frozen'
          and f.tgenabled <> 'D'
    ) as read_only,
    d.distributed,
    case when not d.distributed then e.rows end as rows_estimate,
    case
        when t.oid is not null and not d.distributed then coalesce(p.bytes, pg_catalog.pg_total_relation_size(t.oid))::bigint
    end as bytes,
    coalesce(c.checks, '[]') as checks,
    coalesce(g.columns, '[]') as columns,
    s.segments,
    s.segment_bytes,
    pg_catalog.to_char(s.waiting_since at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as waiting_since,
    l.loads,
    pg_catalog.to_char(l.last_load_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as last_load_at
from {schema}.collection k
left join pg_catalog.pg_class t on t.oid = k.table_oid
left join pg_catalog.pg_namespace n on n.oid = t.relnamespace
cross join lateral (
    select
{distributed} as distributed
) d
left join lateral (
    select pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid)) as bytes
    from pg_catalog.pg_partition_tree(t.oid) leaf
    join pg_catalog.pg_class c on c.oid = leaf.relid::oid
    where t.relkind = 'p' and leaf.isleaf
) p on true
left join lateral (
{rows}) e on t.oid is not null
left join lateral (
    select pg_catalog.json_agg(
        pg_catalog.json_build_object(
            'name', conname, 'expression', pg_catalog.pg_get_expr(conbin, conrelid), 'validated', convalidated
        ) order by conname
    ) as checks
    from pg_catalog.pg_constraint
    where conrelid = k.table_oid and contype = 'c'
) c on true
left join lateral (
    select pg_catalog.json_agg(
        pg_catalog.json_build_object(
            'name', a.attname,
            'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
            'expression', pg_catalog.pg_get_expr(d.adbin, d.adrelid)
        ) order by a.attnum
    ) as columns
    from pg_catalog.pg_attribute a
    join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = k.table_oid
      and a.attgenerated = 's'
      and not a.attisdropped
) g on true
left join lateral (
    select pg_catalog.count(*) as loads, pg_catalog.max(coalesce(ended_at, started_at)) as last_load_at
    from {schema}.load
    where table_oid = k.table_oid
) l on true
left join lateral (
    select pg_catalog.count(*) as segments, coalesce(pg_catalog.sum(bytes), 0)::bigint as segment_bytes, pg_catalog.min(committed_at) as waiting_since
    from {schema}.segment
    where table_oid = k.table_oid
) s on true
order by 1, 2, k.created_at
