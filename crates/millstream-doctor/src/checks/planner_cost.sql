-- Costs of the planner and its switches, as new sessions have them. `number` is null for a switch.
select
    s.name,
    s.reset_val as now,
    s.boot_val as usual,
    case s.vartype when 'real' then s.reset_val::float8 end as number,
    case s.vartype when 'real' then s.boot_val::float8 end as usual_number
from
    pg_settings as s
where
    -- What a role or a database has is not the server's.
    s.source not in ('database', 'user', 'database user', 'client')
    and (s.name in ('seq_page_cost', 'random_page_cost', 'cpu_tuple_cost', 'cpu_index_tuple_cost', 'cpu_operator_cost')
    or s.name like 'enable\_%' and s.vartype = 'bool' and s.category like 'Query Tuning%')
order by
    s.name
