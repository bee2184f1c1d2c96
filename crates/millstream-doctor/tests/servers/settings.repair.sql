-- The repairs of the faults in settings.plant.sql.
alter system reset autovacuum;

alter system reset enable_nestloop;

alter system set random_page_cost = 1.1;

alter system reset cpu_tuple_cost;

alter system reset checkpoint_timeout;

alter system reset checkpoint_completion_target;

alter system set max_connections = 200;

alter system reset default_statistics_target;

alter system reset work_mem;

alter system set log_lock_waits = on;

alter system set track_io_timing = on;

alter system reset synchronous_commit;

alter system set effective_io_concurrency = 16;

alter system reset max_wal_size;

select pg_reload_conf();

-- Each version calls the counters of checkpoints its own way.
do $$ begin
    perform pg_stat_reset_shared('wal');
    perform pg_stat_reset_shared('bgwriter');
    if current_setting('server_version_num')::int >= 170000 then
        perform pg_stat_reset_shared('checkpointer');
    end if;
end $$;
