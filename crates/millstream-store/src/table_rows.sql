-- Rows of the table t as they were counted, or before that as many as were written. A crash of the server forgets the
-- latter, so none means nothing unless there is no page.
select case
    when pg_catalog.count(*) = pg_catalog.count(part.rows) then coalesce(pg_catalog.sum(part.rows), 0)::bigint
end as rows
from (
    select case
        when c.reltuples::float8 >= 0::float8 then c.reltuples::bigint
        when pg_catalog.pg_stat_get_live_tuples(c.oid) > 0 then pg_catalog.pg_stat_get_live_tuples(c.oid)
        when pg_catalog.pg_relation_size(c.oid) = 0 then 0
    end as rows
    from (
        select t.oid where t.relkind <> 'p'
        union all
        select tree.relid::oid
        from pg_catalog.pg_partition_tree(t.oid) tree
        where t.relkind = 'p' and tree.isleaf
    ) as leaf
    join pg_catalog.pg_class c on c.oid = leaf.oid
) as part
