-- Lets the server look for a deadlock soon, where lanes may deadlock, if the role may say so. By default, each deadlock
-- costs a second.
select pg_catalog.set_config('deadlock_timeout', '{wait_ms}', true)
where pg_catalog.has_parameter_privilege('deadlock_timeout', 'set')
