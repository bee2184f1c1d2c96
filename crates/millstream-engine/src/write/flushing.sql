-- Begins a transaction whose commit waits until it and all earlier commits are on disk. The server's own level stands,
-- unless it is off.
begin;
set local synchronous_commit to default;
select pg_catalog.set_config('synchronous_commit', 'on', true)
where pg_catalog.current_setting('synchronous_commit') = 'off';
set constraints all immediate;
