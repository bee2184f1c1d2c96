select addresses.*, r.start, r."end", r.doc
from addresses
left join lateral (
    select start, "end", doc
    from {ranges}
    where start <= addresses.ip
    order by start desc
    limit 1
) r on r."end" >= addresses.ip
