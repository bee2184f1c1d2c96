insert into {part} as shown
select {generation}, derived.*
from {staged} as changed
join ({rows}) as derived on {same}
on conflict ({key}) do update set {set}
