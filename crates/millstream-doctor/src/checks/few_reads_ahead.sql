-- How the server reads ahead, and how many blocks it had to read. Up to PostgreSQL 17 there are no io_method and
-- io_workers.
select
    -- What a role or a database has is not the server's.
    (select setting::float8 from pg_settings
        where name = 'effective_io_concurrency' and source not in ('database', 'user', 'database user', 'client'))
        as concurrency,
    current_setting('io_method', true) as method,
    current_setting('io_workers', true)::float8 as workers,
    (select coalesce(sum(blks_read), 0)::bigint from pg_stat_database) as blocks,
    (select date_part('epoch', now() - max(stats_reset))::float8 from pg_stat_database) as reset_seconds
