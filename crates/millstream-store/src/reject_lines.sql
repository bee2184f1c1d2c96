-- Lines that rejects of several lines hold, by the words at the end of their details.
select coalesce(pg_catalog.sum(pg_catalog.substring(detail, '; it holds ([0-9]+) lines$')::bigint), 0)::bigint as lines
from {schema}.reject
where load_id = $1
