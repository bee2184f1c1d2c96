-- Counters of the current database.
select
    xact_commit::float8 as commits,
    xact_rollback::float8 as rollbacks,
    blks_read::float8 as blocks_read,
    blks_hit::float8 as blocks_hit,
    temp_bytes::float8 as temporary_bytes,
    deadlocks::float8 as deadlocks
from
    pg_catalog.pg_stat_database
where
    datname = pg_catalog.current_database()
