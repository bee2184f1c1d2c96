-- What the map of its free space says of a table, in the order of what pgstattuple_approx returns: its size, what is free, no
-- dead rows, which the map does not know, and its rows. $1: its number. The function that takes a page, because the other one
-- finds this one only by the search path.
select
    array[
        pg_relation_size($1::oid::regclass)::int8,
        coalesce(sum({function}($1::oid::regclass, page)), 0)::int8,
        0::int8,
        (select greatest(reltuples, 0)::int8 from pg_class where oid = $1::oid)
    ]
from
    generate_series(
        0::int8, pg_relation_size($1::oid::regclass) / current_setting('block_size')::int8 - 1
    ) as page
