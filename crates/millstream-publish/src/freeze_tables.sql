-- Which of these tables are unlogged, in their order, and their bytes on disk.
select t.name, pg_catalog.pg_total_relation_size(c.oid) as bytes
from pg_catalog.unnest($1::text[]) with ordinality as t (name, place)
join pg_catalog.pg_class c on c.oid = pg_catalog.to_regclass(t.name)::pg_catalog.oid
where c.relpersistence = 'u'
order by t.place
