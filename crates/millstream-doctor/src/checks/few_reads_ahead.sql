-- How the server reads ahead, and how many blocks it had to read. Up to PostgreSQL 17 there are no io_method and
-- io_workers.
select
    current_setting('effective_io_concurrency')::float8 as concurrency,
    current_setting('io_method', true) as method,
    current_setting('io_workers', true)::float8 as workers,
    (select coalesce(sum(blks_read), 0)::bigint from pg_stat_database) as blocks,
    (select date_part('epoch', now() - max(stats_reset))::float8 from pg_stat_database) as reset_seconds
