-- Whether the use of tables and indexes is counted, and the seconds since the counters of the database were reset. They are
-- null if nobody has reset them.
-- `date_part`, because the server could not plan a counted statement with `extract` again.
select
    current_setting('track_counts')::bool as counts,
    (
        select date_part('epoch', now() - stats_reset) from pg_stat_database where datname = current_database()
    )::float8 as seconds
