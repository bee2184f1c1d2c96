-- A range of a group into a table that held nothing.
insert into {table} ({key}, doc)
select {key}, doc
from ({latest}) as latest
where doc is not null
