-- How a table is written. $1: its name, quoted. $2: seconds for which the server has counted.
select
    (n_tup_ins + n_tup_upd + n_tup_del) / $2::float8 as writes,
    n_tup_hot_upd / $2::float8 as hot_updates,
    100.0::float8 * n_tup_hot_upd / nullif(n_tup_upd, 0) as hot_percent
from
    pg_stat_user_tables
where
    relid = to_regclass($1::text)
