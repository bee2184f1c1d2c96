-- Whether autovacuum can work, how many of its workers do, and how fast they may.
select
    current_setting('autovacuum')::bool as autovacuum,
    (select count(*) from pg_stat_activity where backend_type = 'autovacuum worker') as workers,
    current_setting('autovacuum_max_workers')::bigint as max_workers,
    case current_setting('autovacuum_vacuum_cost_limit')
        when '-1' then current_setting('vacuum_cost_limit')
        else current_setting('autovacuum_vacuum_cost_limit')
    end::bigint as cost_limit
