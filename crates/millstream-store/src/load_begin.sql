-- Takes a load over for a run, under a new epoch. $6 is the run's place among all runs. Places are drawn under the lock
-- that every load takes when it begins, so the run with the smaller place began first. Until the load's previous run is
-- closed, the load keeps the place of that run, which may still commit.
update {schema}.load
set epoch = epoch + 1,
    sources = $2,
    lanes = $3,
    runs = runs + $4,
    durability = $5,
    run_order = $6,
    state = 'running',
    stop_reason = null,
    ended_at = null
where load_id = $1
returning epoch, runs
