select distinct on ({key}) {key}, doc
from ({appended}) as appended
where {range}
order by {key}, millstream_place desc, millstream_at desc
