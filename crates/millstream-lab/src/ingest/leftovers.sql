-- Schemas that runs of the lab have made and that we may drop.
select n.nspname
from pg_catalog.pg_namespace as n
where n.nspname operator(pg_catalog.~) '^millstream_lab_[0-9a-f]{8}(_store)?$'
    and pg_catalog.pg_has_role(n.nspowner, 'usage')
order by n.nspname
