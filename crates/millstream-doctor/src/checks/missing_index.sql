-- Tables that are read as a whole again and again. $1: smaller tables do not count, in rows. $2: at least so many reads. $3: at
-- most so many tables.
select
    format('%I.%I', s.schemaname, s.relname) as table_name,
    s.relname::text as table_word,
    s.seq_scan as reads,
    s.seq_tup_read as rows_read
from
    pg_stat_user_tables as s
    join pg_class as c on c.oid = s.relid
where
    c.reltuples >= $1::float8
    and s.seq_scan >= $2::float8
    -- Most reads go to the end. Each parallel process counts as a read, and reads a part.
    and s.seq_tup_read >= s.seq_scan * c.reltuples / (
        2 * (1 + (select setting::float8 from pg_settings where name = 'max_parallel_workers_per_gather'))
    )
order by
    s.seq_tup_read desc,
    table_name
limit $3
