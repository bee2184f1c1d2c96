-- What the server may ask of its machine. Settings by which it reads the time at each step of its I/O come last.
select
    current_setting('max_connections')::int8 as clients,
    current_setting('max_files_per_process')::int8 as files_per_process,
    pg_size_bytes(current_setting('max_wal_size')) as wal_bytes,
    array(
        select name
        from pg_settings
        where name in ('track_io_timing', 'track_wal_io_timing') and setting = 'on'
        order by name
    ) as timed
