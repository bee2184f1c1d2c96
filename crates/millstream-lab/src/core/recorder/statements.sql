-- Sums over all statements. Without their texts, which the server would read from a file.
select
    pg_catalog.sum(calls)::float8 as calls,
    pg_catalog.sum(rows)::float8 as rows,
    pg_catalog.sum(total_exec_time)::float8 as execution_ms,
    pg_catalog.sum(wal_bytes)::float8 as wal_bytes
from
    the_extension.pg_stat_statements(false)
