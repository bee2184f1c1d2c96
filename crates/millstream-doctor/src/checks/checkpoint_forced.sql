-- max_wal_size, and after how many bytes of WAL the server begins a checkpoint (`CalculateCheckpointSegments` in its
-- xlog.c); seconds after which one is due by time.
select
    pg_size_bytes(current_setting('max_wal_size')) as present,
    greatest(
        floor(
            pg_size_bytes(current_setting('max_wal_size')) / segment.bytes
            / (1 + current_setting('checkpoint_completion_target')::float8)
        ),
        1
    ) * segment.bytes as due,
    (select setting::float8 from pg_settings where name = 'checkpoint_timeout') as timeout
from
    (select pg_size_bytes(current_setting('wal_segment_size'))::float8 as bytes) as segment
