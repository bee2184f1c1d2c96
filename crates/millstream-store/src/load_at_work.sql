-- A session that works for a load, if there is one.
select working.pid
from (select $1::bigint as load_id) as l
cross join lateral (
{sessions}
) as working
limit 1
