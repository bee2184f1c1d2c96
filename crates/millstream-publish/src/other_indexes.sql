-- Indexes of a table that were made from another definition of the model.
select i.indexrelid::pg_catalog.regclass::text
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
where i.indrelid = $1::text::pg_catalog.regclass::pg_catalog.oid
  and c.relname::text ~ $2::text
  and c.relname::text <> all ($3::text[])
