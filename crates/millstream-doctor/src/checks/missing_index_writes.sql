-- How a table is written: $1 its name, quoted.
select
    n_tup_ins + n_tup_upd + n_tup_del as writes,
    100 * n_tup_hot_upd / nullif(n_tup_upd, 0) as hot_percent
from
    pg_stat_user_tables
where
    relid = to_regclass($1::text)
