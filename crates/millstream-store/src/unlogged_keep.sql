-- Loads whose collection survives crashes from now on. $2 are those that a crash has taken to their beginning.
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
