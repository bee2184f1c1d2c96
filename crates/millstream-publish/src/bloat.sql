-- Bytes that a model wastes: the share of dead rows in what it shows, and the generation that it does not show.
select coalesce(pg_catalog.sum(
    case
        when c.oid = pg_catalog.to_regclass($1)::oid
        then pg_catalog.pg_total_relation_size(c.oid)::float8 * pg_catalog.pg_stat_get_dead_tuples(c.oid)::float8
            / greatest(pg_catalog.pg_stat_get_dead_tuples(c.oid) + pg_catalog.pg_stat_get_live_tuples(c.oid), 1)::float8
        else pg_catalog.pg_total_relation_size(c.oid)::float8
    end), 0)::bigint
from pg_catalog.pg_class c
where c.oid in (pg_catalog.to_regclass($1)::oid, pg_catalog.to_regclass($2)::oid)
