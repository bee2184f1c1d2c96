-- How long a commit waits for others, if how many other transactions are open, and whether flushes are timed.
select
    (select setting::float8 from pg_settings where name = 'commit_delay') as delay,
    current_setting('commit_siblings')::bigint as siblings,
    current_setting('track_wal_io_timing')::bool as is_timed
