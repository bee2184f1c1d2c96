-- The bytes and rows of a table.
select
    (
        pg_catalog.pg_table_size(c.oid)
        - coalesce(pg_catalog.pg_total_relation_size(nullif(c.reltoastrelid, 0::oid)), 0)
    )::float8 as heap_bytes,
    pg_catalog.pg_indexes_size(c.oid)::float8 as index_bytes,
    coalesce(pg_catalog.pg_total_relation_size(nullif(c.reltoastrelid, 0::oid)), 0)::float8 as toast_bytes,
    (select pg_catalog.count(*) from the_table)::float8 as stored
from
    pg_catalog.pg_class as c
where
    c.oid = 'the_table'::regclass::oid
