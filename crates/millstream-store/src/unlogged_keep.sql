-- Marks the loads into a collection as durable, because it survives crashes from now on. $2 are the loads that start
-- over after a crash; they have no marker row.
with kept as (
    delete from {schema}.unlogged_load u
    using {schema}.load l
    where l.load_id = u.load_id
      and l.table_oid = $1
    returning u.load_id
)
update {schema}.load
set durability = 'durable'
where load_id in (select load_id from kept)
   or load_id = any ($2::bigint[])
