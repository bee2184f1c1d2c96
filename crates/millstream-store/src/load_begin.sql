-- Takes a load over for a run, under a new epoch.
update {schema}.load
set epoch = epoch + 1,
    sources = $2,
    lanes = $3,
    runs = runs + $4,
    durability = $5,
    state = 'running',
    stop_reason = null,
    ended_at = null
where load_id = $1
returning epoch, runs
