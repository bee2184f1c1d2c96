-- Merges a range of keys from a group of segments into an empty table. Only the newest document of each key is parsed.
insert into {table} ({key}, doc)
select {key}, doc::pg_catalog.jsonb
from ({latest}) as latest
where doc is not null
