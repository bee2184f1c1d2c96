-- Tables whose oldest rows are not frozen. A table of another kind than heap may have no such age. $1, $2: the least ages
-- in transactions and in multixacts. $3: at most so many.
with aged as (
    select
        format('%I.%I', n.nspname, c.relname) as name,
        case when c.relfrozenxid <> '0' then age(c.relfrozenxid) else 0 end::bigint as xid_age,
        case when c.relminmxid <> '0' then mxid_age(c.relminmxid) else 0 end::bigint as mxid_age,
        c.relpages::bigint * current_setting('block_size')::bigint as bytes,
        c.relpersistence = 't' as temporary,
        exists (
            select from pg_stat_progress_vacuum as p where p.relid = c.oid and p.datname = current_database()
        ) as in_progress
    from
        pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
    where
        c.relkind in ('r', 'm', 't')
)
select *
from aged
where xid_age >= $1::float8 or mxid_age >= $2::float8
order by greatest(xid_age, mxid_age) desc, name
limit $3
