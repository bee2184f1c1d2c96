-- Whether autovacuum can work, how many of its workers do, and what a page costs them.
select
    current_setting('autovacuum')::bool as autovacuum,
    (select count(*) from pg_stat_activity where backend_type = 'autovacuum worker') as workers,
    current_setting('autovacuum_max_workers')::bigint as max_workers,
    case current_setting('autovacuum_vacuum_cost_limit')
        when '-1' then current_setting('vacuum_cost_limit')
        else current_setting('autovacuum_vacuum_cost_limit')
    end::bigint as cost_limit,
    current_setting('vacuum_cost_page_miss')::float8 as page_miss,
    current_setting('vacuum_cost_page_dirty')::float8 as page_dirty,
    current_setting('block_size')::float8 as block_size
