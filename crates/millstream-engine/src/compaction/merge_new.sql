-- A range of a group into a table that held nothing. Of each key's documents one is parsed.
insert into {table} ({key}, doc)
select {key}, doc::pg_catalog.jsonb
from ({latest}) as latest
where doc is not null
