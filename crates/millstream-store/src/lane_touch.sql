-- Writes a lane's row unchanged, so that there is something to commit. Returns no row if another run owns the lane.
update {schema}.lane
set epoch = epoch
where load_id = $1
  and lane = $2
  and epoch = $3
