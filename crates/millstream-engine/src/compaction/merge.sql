-- A range of a group, in which no document deletes.
insert into {table} ({key}, doc)
select {key}, doc
from ({latest}) as latest
on conflict ({key}) do update set doc = excluded.doc
