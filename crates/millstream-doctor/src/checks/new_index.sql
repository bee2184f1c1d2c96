-- The words for a new index of a table, and a name that is free. The type after 1, because the server could not plan a counted
-- statement without it again. No row: it cannot be built beside other work, because the
-- table is partitioned or the server is a standby. $1, $2: the table. $3: the name that is wanted.
select
    pg_catalog.current_database()::text as database,
    pg_catalog.format('%I.%I', n.nspname, free.name) as index_name,
    pg_catalog.quote_ident(free.name) as own_name,
    pg_catalog.format('%I.%I', n.nspname, t.relname) as table_name
from
    pg_catalog.pg_class as t
    join pg_catalog.pg_namespace as n on n.oid = t.relnamespace
    cross join lateral (
        select wanted.name
        from (
            select k, $3::text || case when k = 1 then '' else k::text end as name
            from pg_catalog.generate_series(1::pg_catalog.int4, 99) as k
        ) as wanted
        where not exists (
            select from pg_catalog.pg_class as c
            where c.relnamespace = n.oid and c.relname::text = wanted.name
        )
        order by wanted.k
        limit 1
    ) as free
where
    n.nspname = $1
    and t.relname = $2
    and t.relkind in ('r', 'm')
    and not pg_catalog.pg_is_in_recovery()
