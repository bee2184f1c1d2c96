-- A server whose settings are wrong. An empty line ends what is sent together.
alter system set autovacuum = off;

alter system set enable_nestloop = off;

alter system set random_page_cost = 0.5;

alter system set cpu_tuple_cost = 1;

alter system set checkpoint_timeout = '30s';

alter system set checkpoint_completion_target = 0.5;

-- It waits for a restart.
alter system set max_connections = 77;

alter system set default_statistics_target = 10;

-- 200 sessions with so much each.
alter system set work_mem = '64MB';

alter system set log_lock_waits = off;

alter system set track_io_timing = off;

alter system set synchronous_commit = off;

alter system set effective_io_concurrency = 0;

alter system set max_wal_size = '32MB';

select pg_reload_conf();

-- Checkpoints that the WAL forces: each message fills half of max_wal_size.
select pg_logical_emit_message(false, 'wal', repeat('x', 20000000));
checkpoint;

select pg_logical_emit_message(false, 'wal', repeat('x', 20000000));
checkpoint;

select pg_logical_emit_message(false, 'wal', repeat('x', 20000000));
checkpoint;
