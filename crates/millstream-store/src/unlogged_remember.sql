-- Writes a load's marker row. A crash removes it together with the documents of the unlogged collection.
insert into {schema}.unlogged_load (load_id)
values ($1)
on conflict (load_id) do nothing
