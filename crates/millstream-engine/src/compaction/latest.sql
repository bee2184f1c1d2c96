select distinct on ({key}) {key}, doc
from ({appended}) as appended
where {range}
order by {key}, place desc, at desc
