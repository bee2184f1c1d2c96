-- Something to commit when nothing but the commit is wanted; no row when the lane belongs to another run.
update {schema}.lane
set epoch = epoch
where load_id = $1
  and lane = $2
  and epoch = $3
