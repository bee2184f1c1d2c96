-- A load's line, as mortal as the documents of its unlogged collection.
insert into {schema}.unlogged_load (load_id)
values ($1)
on conflict (load_id) do nothing
