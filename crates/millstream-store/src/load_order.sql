-- A run's place among all, which is drawn under the lock of beginning, so that a run that is seen here began before.
-- Until what an earlier run of the load may still commit is settled, the load has the place of that run.
update {schema}.load
set run_order = $2
where load_id = $1
