-- Queries of this database that the replay has cancelled.
select
    confl_snapshot + confl_lock + confl_bufferpin + confl_deadlock + confl_tablespace as conflicts,
    confl_snapshot as snapshots,
    confl_lock as locks,
    confl_bufferpin as pins,
    confl_deadlock as deadlocks,
    confl_tablespace as tablespaces,
    current_setting('hot_standby_feedback') as feedback,
    current_setting('max_standby_streaming_delay') as delay
from
    pg_stat_database_conflicts
where
    datname = current_database()
