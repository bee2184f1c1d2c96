-- Checkpoints and the background writer until PostgreSQL 16.
select
    checkpoints_timed::float8 as timed,
    checkpoints_req::float8 as requested,
    checkpoint_write_time::float8 as write_ms,
    checkpoint_sync_time::float8 as sync_ms,
    buffers_checkpoint::float8 as buffers,
    buffers_clean::float8 as cleaned,
    maxwritten_clean::float8 as halts
from
    pg_catalog.pg_stat_bgwriter
