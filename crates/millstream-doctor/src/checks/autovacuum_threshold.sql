-- From how many dead rows on autovacuum comes to the table `r`, and whether it may, by the table's own `options` and those of the
-- server. Statements have it in a lateral join.
select
    -- PostgreSQL 18 caps the sum; -1 means no cap.
    least(
        coalesce(
            max(case o.option_name when 'autovacuum_vacuum_threshold' then o.option_value::float8 end),
            current_setting('autovacuum_vacuum_threshold')::float8
        ) + coalesce(
            max(case o.option_name when 'autovacuum_vacuum_scale_factor' then o.option_value::float8 end),
            current_setting('autovacuum_vacuum_scale_factor')::float8
        ) * greatest(r.reltuples, 0),
        nullif(coalesce(
            max(case o.option_name when 'autovacuum_vacuum_max_threshold' then o.option_value::float8 end),
            current_setting('autovacuum_vacuum_max_threshold', true)::float8
        ), -1)
    ) as dead_rows,
    coalesce(bool_and(case o.option_name when 'autovacuum_enabled' then o.option_value::bool end), true) as enabled
from
    pg_options_to_table(r.options) as o
