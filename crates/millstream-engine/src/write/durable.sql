-- Acknowledged batches must be on disk. The server's own level stands, unless it is off.
select pg_catalog.set_config('synchronous_commit', 'on', false)
where pg_catalog.current_setting('synchronous_commit') = 'off'
