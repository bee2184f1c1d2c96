-- The number of the last column that a collection has now, and the marks of all that its change record relies on.
select c.relnatts::text || ' ' || (select pg_catalog.string_agg(relied.mark, ' ') from ({marks}) as relied)
from pg_catalog.pg_class c
where c.oid = $1
