-- A run's place among all, drawn under the lock of beginning, so that a run that is seen here began before.
update {schema}.load
set run_order = pg_catalog.nextval('{schema}.run_number')
where load_id = $1
