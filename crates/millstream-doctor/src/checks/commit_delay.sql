-- How long a commit waits for others, if how many other transactions are open, and whether flushes are timed.
select
    -- What a role or a database has is not the server's.
    coalesce(
        (select setting::float8 from pg_settings
            where name = 'commit_delay' and source not in ('database', 'user', 'database user', 'client')), 0
    ) as delay,
    current_setting('commit_siblings')::bigint as siblings,
    current_setting('track_wal_io_timing')::bool as is_timed
