-- What was done to each table since the counters began. $1: at most so many, the busiest ones.
select
    format('%I.%I', schemaname, relname) as name,
    n_tup_ins + n_tup_upd + n_tup_del as written,
    n_tup_upd as updated,
    seq_tup_read + coalesce(idx_tup_fetch, 0) as read
from
    pg_stat_user_tables
order by
    n_tup_ins + n_tup_upd + n_tup_del + seq_tup_read + coalesce(idx_tup_fetch, 0) desc
limit $1
