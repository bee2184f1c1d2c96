-- What a load relies on of the table {oid} whose key has the columns {columns}: one row, none if the table is gone. Each
-- column changes with what it describes. Checks and indexes are null if the load does not rely on them (mark_checks.sql,
-- mark_indexes.sql), and the place is if the table is no shard (mark_place.sql). The tree is the table with its partitions, or with the tables that inherit from it. Nothing is locked:
-- pg_partition_tree would lock every partition.
with recursive tree (oid) as (
    select {oid}::oid
    union all
    select i.inhrelid
    from tree
    join pg_catalog.pg_inherits i on i.inhparent = tree.oid
)
select
    n.nspname::text as schema_name,
    c.relname::text as table_name,
    pg_catalog.concat_ws(
        ' ', c.relkind, case when c.relkind <> 'p' and (select pg_catalog.count(*) > 1 from tree) then 'parent' end
    ) as kind,
    (
        select pg_catalog.string_agg(
            pg_catalog.concat_ws(
                ' ', a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attgenerated, a.attidentity
            ),
            ', ' order by a.attname
        )
        from pg_catalog.pg_attribute a
        where a.attrelid = c.oid
          and (a.attname = 'doc' or a.attname::text = any ({columns}))
    ) as columns,
    (
        select 'yes'
        from pg_catalog.pg_index i
        where i.indrelid = c.oid
          and i.indisunique
          and i.indisvalid
          and i.indimmediate
          and i.indpred is null
          and i.indexprs is null
          and (
              select pg_catalog.array_agg(a.attname::text order by a.attname::text collate "C")
              from pg_catalog.pg_attribute a
              where a.attrelid = c.oid
                and a.attnum = any ((i.indkey::smallint[])[0:i.indnkeyatts - 1])
          ) operator(pg_catalog.=) {columns}
        limit 1
    ) as keyed,
    (
        select pg_catalog.string_agg(
            pg_catalog.concat_ws(' ', t.tgrelid, t.tgname, t.tgtype, t.tgfoid, t.tgenabled), ', '
            order by t.tgrelid, t.tgname
        )
        from tree
        join pg_catalog.pg_trigger t on t.tgrelid = tree.oid
        where not t.tgisinternal
          and t.tgparentid = 0::oid
          and t.tgenabled <> 'D'
          and not pg_catalog.starts_with(t.tgname::text, {own_triggers})
    ) as triggers,
    (
        select pg_catalog.string_agg(r.rulename, ', ' order by r.rulename)
        from pg_catalog.pg_rewrite r
        where r.ev_class = c.oid
    ) as rules,
    {place} as place,
    {checks} as checks,
    {indexes} as indexes,
    (
        select coalesce(
            pg_catalog.string_agg(
                pg_catalog.format('%s:%s', f.oid, pg_catalog.pg_relation_filenode(f.oid)), ' ' order by f.oid
            ),
            ''
        )
        from tree
        join pg_catalog.pg_class f on f.oid = tree.oid
        where f.relkind = 'r'
    ) as files
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = {oid}::oid
