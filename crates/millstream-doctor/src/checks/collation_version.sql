-- Collations of which the library has another version now than the one with which indexes were built: that of the
-- database, and others that an index uses. $1: at most so many.
with used as materialized (
    -- Many indexes have few different lists.
    select distinct one::oid as oid
    from
        (select distinct indcollation from pg_index
            where indrelid not in (select oid from pg_class where relpersistence = 't')
        ) as lists
        cross join string_to_table(lists.indcollation::text, ' ') as one
    where
        one <> ''
),
versions as materialized (
    select
        'database' as kind,
        quote_ident(datname) as name,
        datcollversion as built,
        pg_database_collation_actual_version(oid) as present
    from
        pg_database
    where
        datname = current_database()
    union all
    select
        'collation',
        c.oid::regcollation::text,
        c.collversion,
        pg_collation_actual_version(c.oid)
    from
        used
        join pg_collation as c on c.oid = used.oid
    where
        c.collversion is not null
)
select *
from versions
where built <> present
order by kind desc, name
limit $1
