-- Visits the keys in the same order as the upsert. The lane's settings leave the planner nothing but
-- to look every staged key up in the key's index; any other join would visit rows in another order.
update {table} as stored
set doc = {set}
from (select {key}, doc from pg_temp.millstream_stage order by {key}) as staged
where {join}
