-- Sums over all statements. Without their texts, which the server would read from a file.
select
    sum(calls)::float8 as calls,
    sum(rows)::float8 as rows,
    sum(total_exec_time)::float8 as execution_ms,
    sum(wal_bytes)::float8 as wal_bytes
from
    pg_stat_statements(false)
