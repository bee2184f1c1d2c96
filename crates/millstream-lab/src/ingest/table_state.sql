-- The bytes of a table, $1 its OID, and how often it was vacuumed by the server itself.
select
    pg_table_size(c.oid) - coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0) as heap_bytes,
    pg_indexes_size(c.oid) as index_bytes,
    coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0) as toast_bytes,
    pg_stat_get_autovacuum_count(c.oid) as autovacuums
from
    pg_class c
where
    c.oid = $1
