-- What the server has counted so far, and what it has counted of the table lab_load.t, as JSON. Until PostgreSQL 15, a
-- page that is added counts as one that was not in shared_buffers.
select
    pg_catalog.json_build_object(
        'wal_bytes', pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), '0/0'),
        'page_images', (select wal_fpi from pg_catalog.pg_stat_wal),
        'heap_misses', coalesce(io.heap_blks_read, 0) - pages.heap * pages.counted,
        'index_misses', coalesce(io.idx_blks_read, 0) - pages.indexes * pages.counted,
        'index_splits', pages.indexes
    )
from
    (select pg_catalog.to_regclass('lab_load.t') as id) as t
    left join pg_catalog.pg_statio_all_tables as io on io.relid = t.id
    cross join lateral (
        select
            coalesce(pg_catalog.pg_relation_size(t.id) / size, 0) as heap,
            coalesce(pg_catalog.pg_indexes_size(t.id) / size, 0) as indexes,
            case when pg_catalog.current_setting('server_version_num')::int < 160000 then 1 else 0 end as counted
        from
            (select pg_catalog.current_setting('block_size')::int as size) as block
    ) as pages;
