-- Loads into a table that lost their documents in a crash of the server: their marker row is missing.
select l.load_id
from {schema}.load l
where l.table_oid = $1
  and l.durability = 'unlogged'
  and not exists (select from {schema}.unlogged_load u where u.load_id = l.load_id)
