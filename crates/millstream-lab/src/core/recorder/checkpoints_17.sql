-- Checkpoints and the background writer since PostgreSQL 17.
select
    checkpointer.num_timed::float8 as timed,
    checkpointer.num_requested::float8 as requested,
    checkpointer.write_time::float8 as write_ms,
    checkpointer.sync_time::float8 as sync_ms,
    checkpointer.buffers_written::float8 as buffers,
    writer.buffers_clean::float8 as cleaned,
    writer.maxwritten_clean::float8 as halts
from
    pg_catalog.pg_stat_checkpointer as checkpointer,
    pg_catalog.pg_stat_bgwriter as writer
