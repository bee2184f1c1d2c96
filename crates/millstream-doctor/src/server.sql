-- Whether the role may read what pg_monitor may, whether sessions show what they do, and which setting of a managed
-- service the server has. $1: such settings.
select
    pg_has_role('pg_monitor', 'usage') as may_monitor,
    current_setting('track_activities')::bool as tracks_activities,
    (select name from pg_settings where name = any($1) order by name limit 1) as provider
