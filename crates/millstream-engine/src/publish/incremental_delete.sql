delete from {part} as shown
using {staged} as changed
where {join}
  and not exists (select from ({rows}) as derived where {same})
