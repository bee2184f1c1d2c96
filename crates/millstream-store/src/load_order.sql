-- Records a run's place among all runs. Places are drawn under the lock that every load takes when it begins, so the
-- run with the smaller place began first. Until the load's previous run is closed, the load keeps the place of that
-- run, which may still commit.
update {schema}.load
set run_order = $2
where load_id = $1
